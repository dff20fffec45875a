//! `${NAME}` and `${NAME:-default}` in the plan's strings; `$${` stands for a plain `${`.

use super::problem::Problem;
use std::collections::BTreeMap;

/// A text with its references replaced, and the variables that took part with their values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text.
    pub text: String,
    /// Variables from the environment (not defaults) and what they held.
    pub used: Vec<(String, String)>,
}

/// Replaces every reference. Of those that cannot be resolved, or only look like one, the first is told.
pub fn expand(text: &str, vars: &BTreeMap<String, String>) -> Result<Expanded, Problem> {
    let malformed = |text: &str| {
        let remedy = "write ${NAME} or ${NAME:-default}, within quotes if it holds spaces, or $${ for a plain ${";
        Problem::of(format!("`{text}` does not name an environment variable"), remedy)
    };
    let mut expanded = Expanded::default();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        if let Some(plain) = before.strip_suffix('$') {
            expanded.text.push_str(plain);
            expanded.text.push_str("${");
            rest = &reference[2..];
            continue;
        }
        expanded.text.push_str(before);
        let inner = &reference[2..];
        let end = inner.find('}').ok_or_else(|| malformed(reference))?;
        let (name, default) = match inner[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inner[..end], None),
        };
        if !is_name(name) {
            return Err(malformed(&reference[..end + 3]));
        }
        let value = vars.get(name).filter(|value| default.is_none() || !value.is_empty());
        match (value, default) {
            (Some(value), _) => {
                expanded.text.push_str(value);
                expanded.used.push((name.to_string(), value.clone()));
            }
            (None, Some(default)) => expanded.text.push_str(default),
            (None, None) => {
                let message = format!("the environment variable {name} is not set");
                return Err(Problem::of(
                    message,
                    format!("set it, or give a default: ${{{name}:-...}}"),
                ));
            }
        }
        rest = &inner[end + 1..];
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

/// Whether a variable can have this name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<String, String> {
        let vars = [("A", "x y"), ("EMPTY", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expanded = expand(text, &vars.into()).map(|expanded| expanded.text);
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
        assert_eq!(text("${A"), malformed("${A"));
        assert_eq!(text("${a b}"), malformed("${a b}"));
    }
}
