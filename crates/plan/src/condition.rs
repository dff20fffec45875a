//! Comparisons of a parameter with a value: `">64"` in `[[exclude]]`, `max_concurrency>=8` after `--only`.

use super::value::read_text;
use super::{ParamRef, Params, equal, number, number_or_text, show, spelling};
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;

/// A comparison of one parameter with a value, as in `"bench.max_concurrency" = ">64"`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The parameter.
    pub param: ParamRef,
    /// The comparison.
    pub op: Op,
    /// The right side of the comparison.
    pub value: Value,
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `=`, `==` or no operator.
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Condition {
    /// Returns true if the parameters meet the condition. A missing parameter meets no condition.
    pub fn holds(&self, params: &Params) -> bool {
        let value = spelling::find(params, &self.param.name);
        value.is_some_and(|value| self.op.holds(value, &self.value))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.param, self.op, show(&self.value))
    }
}

impl Op {
    /// Returns true if a value meets the comparison with a bound. Only numbers can be less or greater. A text that spells a number, such as
    /// the value of an environment variable, counts as that number.
    pub fn holds(self, value: &Value, bound: &Value) -> bool {
        let order = || number_or_text(value)?.partial_cmp(&number_or_text(bound)?);
        let is_equal = || equal(&read_text(value), &read_text(bound));
        match self {
            Op::Eq => is_equal(),
            Op::Ne => !is_equal(),
            Op::Lt => order().is_some_and(Ordering::is_lt),
            Op::Le => order().is_some_and(Ordering::is_le),
            Op::Gt => order().is_some_and(Ordering::is_gt),
            Op::Ge => order().is_some_and(Ordering::is_ge),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut signs = OPERATORS.iter().filter(|(_, op)| op == self);
        f.pad(match self {
            Op::Eq => "=",
            _ => signs.next().map_or("", |(sign, _)| sign),
        })
    }
}

/// The operators as text. The short form `=` of `==` is not among them.
pub const OPERATORS: [(&str, Op); 6] = [
    ("==", Op::Eq),
    ("!=", Op::Ne),
    ("<=", Op::Le),
    (">=", Op::Ge),
    ("<", Op::Lt),
    (">", Op::Gt),
];

/// Returns the operator and value of a condition's right side. A number, a boolean or a text without an operator is compared for equality.
pub fn bound(value: &Value) -> Result<(Op, Value), String> {
    let text = value.as_str().unwrap_or_default().trim();
    match operator(text)? {
        (None, _) => Ok((Op::Eq, value.clone())),
        (Some(op), right) => Ok((op, compared(op, right)?)),
    }
}

/// Splits `>=8` into its operator, if it has one, and the text after it.
fn operator(text: &str) -> Result<(Option<Op>, &str), String> {
    let end = text.find(|letter| !"=<>!".contains(letter)).unwrap_or(text.len());
    let (sign, right) = (&text[..end], text[end..].trim());
    let op = match (sign, OPERATORS.iter().find(|(known, _)| *known == sign)) {
        ("", _) => return Ok((None, right)),
        // `=` is short for `==`.
        ("=", _) => Op::Eq,
        (_, Some((_, op))) => *op,
        (_, None) => {
            let meant = match sign {
                "=>" => "`>=`",
                "=<" => "`<=`",
                "<>" | "=!" | "!" => "`!=`",
                _ => "one of = != < <= > >=",
            };
            return Err(format!("`{sign}` is not a comparison; write {meant}"));
        }
    };
    match right.is_empty() {
        true => Err(format!("nothing follows `{sign}`")),
        false => Ok((Some(op), right)),
    }
}

/// Returns the value of a condition on a parameter.
pub fn compared(op: Op, right: &str) -> Result<Value, String> {
    let value = literal(right);
    match op {
        Op::Eq | Op::Ne => Ok(value),
        _ if number(&value).is_some() => Ok(value),
        _ => Err(format!("`{op}` compares numbers, and `{op}{right}` does not name one")),
    }
}

/// Reads the conditions of `--only`, such as `max_num_seqs=64,max_concurrency>=8`; none of an empty text. `read` makes a condition of its
/// key, operator and right side.
pub fn parse_list<T>(text: &str, read: impl Fn(&str, Op, &str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let parse = |item| split(item).and_then(|(key, op, right)| read(key, op, right));
    let read = items(text).and_then(|items| items.into_iter().map(parse).collect());
    read.map_err(|why| format!("--only: {why}; write conditions such as max_num_seqs=64,max_concurrency>=8"))
}

/// Splits `key>=8` into its key, operator and right side.
fn split(text: &str) -> Result<(&str, Op, &str), String> {
    let at = text.find(['=', '!', '<', '>']);
    let at = at.ok_or_else(|| format!("`{text}` has no comparison"))?;
    let key = text[..at].trim();
    if key.is_empty() {
        return Err(format!("`{text}` names no parameter"));
    }
    let (op, right) = operator(&text[at..])?;
    let is_second = |sign: &str| {
        right
            .find(sign)
            .is_some_and(|at| sign != "=" || right[..at].contains(char::is_whitespace))
    };
    if quoted(right).is_none() && ["==", "!=", "<", ">", "="].into_iter().any(is_second) {
        return Err(format!(
            "`{text}` has two comparisons; put a comma between them, or the value in quotes"
        ));
    }
    Ok((key, op.unwrap_or(Op::Eq), right))
}

/// Returns a text without the quotes around it, if it has some.
pub fn quoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

/// Returns the items of a comma-separated list without the spaces around them. Commas in quotes separate nothing. An empty text has no
/// items.
pub fn items(text: &str) -> Result<Vec<&str>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut items = Vec::new();
    let (mut start, mut quote) = (0, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ',') => {
                items.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if let Some(open) = quote {
        return Err(format!("`{text}` opens a {open} that nothing closes; close it"));
    }
    items.push(text[start..].trim());
    Ok(items)
}

/// Returns a number, boolean, null or quoted text as JSON reads it; any other text as it is, without single quotes around it.
fn literal(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))) => value,
        _ => Value::String(text.trim_matches('\'').to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operators_are_read_longest_first() {
        assert_eq!(bound(&json!(">64")), Ok((Op::Gt, json!(64))));
        assert_eq!(bound(&json!("<= 1.5")), Ok((Op::Le, json!(1.5))));
        assert_eq!(bound(&json!("fp8")), Ok((Op::Eq, json!("fp8"))));
        assert_eq!(bound(&json!("!=fp8")), Ok((Op::Ne, json!("fp8"))));
        assert_eq!(bound(&json!(true)), Ok((Op::Eq, json!(true))));
        assert!(bound(&json!(">")).is_err());
        let refused = |text: &str| bound(&json!(text)).expect_err("no comparison");
        assert!(refused("=>100").ends_with("write `>=`") && refused("=<1").ends_with("write `<=`"));
        assert!(refused("===1").contains("not a comparison") && refused("!fp8").ends_with("write `!=`"));
        assert!(bound(&json!(">big")).is_err());
    }

    #[test]
    fn the_text_of_a_number_is_that_number() {
        let meets = |text: &str, value: Value| {
            let (op, bound) = bound(&json!(text)).expect("a comparison");
            op.holds(&value, &bound)
        };
        assert!(
            meets("=2", json!("2")) && meets("2", json!(2)) && meets(">1", json!("2")) && meets("=true", json!("true"))
        );
        assert!(!meets("!=2", json!("2")) && !meets("!=2.0", json!("2")) && !meets("=false", json!("true")));
        assert!(meets("!=fp8", json!("auto")) && !meets(">1", json!("auto")) && meets("=inf", json!("inf")));
        assert!(!meets("=9007199254740993", json!("9007199254740992")));
        assert!(meets("0.10", json!("0.10")) && !meets("0.10", json!("0.1")) && !meets("1000", json!("1e3")));
    }

    fn conditions(text: &str) -> Result<Vec<(String, Op, Value)>, String> {
        parse_list(text, |key, op, right| Ok((key.to_owned(), op, compared(op, right)?)))
    }

    #[test]
    fn conditions_have_keys_and_are_separated_by_commas() {
        let one = |text: &str| conditions(text).expect(text).remove(0);
        assert_eq!(one("bench.x >= 8"), ("bench.x".into(), Op::Ge, json!(8)));
        assert_eq!(one("q=fp8 , x=1"), ("q".into(), Op::Eq, json!("fp8")));
        assert_eq!(one("a='x,y < z'"), ("a".into(), Op::Eq, json!("x,y < z")));
        assert_eq!(one("a=x=y").2, json!("x=y"));
        assert!(conditions("").expect("none").is_empty());
        assert!(conditions("a=1 b=2").expect_err("two").contains("comma"));
        for text in ["x", "=1", "x!1", "x=<1", "x==1==2", "x<big", "x=", "x='y", "x<1,"] {
            let refusal = conditions(text).expect_err(text);
            assert!(
                refusal.starts_with("--only: ") && refusal.contains("; write "),
                "{refusal}"
            );
        }
    }
}
