//! Expands `${NAME}` and `${NAME:-default}` in the plan's strings; `$${` becomes a plain `${`.

use crate::Problem;
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// An escaped `${`, or a reference with its content and, if it is closed, its brace.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\$\{|\$\{([^}]*)(\}?)").expect("a pattern"));

/// Variables by name, with their values.
type Used<'v> = Vec<(&'v String, &'v String)>;

/// Replaces every reference. Returns the text, and the variables that were used with their values; defaults are not among them. The error
/// describes the first reference that is malformed or cannot be resolved.
pub fn expand<'v>(text: &str, vars: &'v BTreeMap<String, String>) -> Result<(String, Used<'v>), Problem> {
    let (mut expanded, mut used) = (String::new(), Vec::new());
    let mut at = 0;
    for found in REFERENCE.captures_iter(text) {
        let reference = found.get_match();
        expanded += &text[at..reference.start()];
        at = reference.end();
        let Some(inner) = found.get(1).map(|inner| inner.as_str()) else {
            expanded += "${";
            continue;
        };
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if !is_name(name) || found[2].is_empty() {
            let message = format!("`{}` does not name an environment variable", reference.as_str());
            let remedy = "write ${NAME} or ${NAME:-default}, within quotes if it holds spaces, or $${ for a plain ${";
            return Err(Problem::of(message, remedy));
        }
        if let Some(default) = default.filter(|default| default.contains('{')) {
            let message =
                format!("the default of {name} begins with `{default}`, and a default ends at the first `}}`");
            let remedy = format!("write a default without braces, or ${{{name}}} and set the variable");
            return Err(Problem::of(message, remedy));
        }
        let value = vars
            .get_key_value(name)
            .filter(|(_, value)| default.is_none() || !value.is_empty());
        match (value, default) {
            (Some((name, value)), _) => {
                expanded += value;
                used.push((name, value));
            }
            (None, Some(default)) => expanded += default,
            (None, None) => {
                let message = format!("the environment variable {name} is not set");
                let remedy = format!("set it, or give a default: ${{{name}:-...}}");
                return Err(Problem::of(message, remedy));
            }
        }
    }
    expanded += &text[at..];
    Ok((expanded, used))
}

/// Returns true if a variable can have this name.
pub fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit()) && name.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<String, String> {
        let vars = [("A", "x y"), ("EMPTY", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expanded = expand(text, &vars.into()).map(|(expanded, _)| expanded);
        expanded.map_err(|problem| problem.message)
    }

    #[test]
    fn references_are_replaced() {
        assert_eq!(text("a ${A} b"), Ok("a x y b".into()));
        assert_eq!(text("${NONE:-d}${EMPTY:-e}${EMPTY}"), Ok("de".into()));
        assert_eq!(text("$A $${A} $"), Ok("$A ${A} $".into()));
    }

    #[test]
    fn what_cannot_be_resolved_is_named() {
        let malformed = |text: &str| Err(format!("`{text}` does not name an environment variable"));
        assert_eq!(
            text("${NONE}"),
            Err("the environment variable NONE is not set".to_owned())
        );
        for nested in ["${A:-${NONE}}", "${NONE:-{\"a\": 1}}"] {
            let why = text(nested).expect_err("a default ends at the first brace");
            assert!(why.starts_with("the default of"), "{why}");
        }
        assert_eq!(text("${NONE:-$A}"), Ok("$A".into()));
        assert_eq!(text("${A"), malformed("${A"));
        assert_eq!(text("${a b}"), malformed("${a b}"));
    }
}
