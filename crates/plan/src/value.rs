//! Values of parameters: which are equal, which are numbers, and how they are shown.

use serde_json::{Number, Value};
use std::borrow::Cow;

/// Returns the value if it is a number. The text `inf` is a number, as in `request_rate = "inf"`.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text == "inf" => Some(f64::INFINITY),
        _ => None,
    }
}

/// Returns the number of a benchmark's parameter, which may also be given as a text.
pub fn number_or_text(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        value => number(value),
    }
}

/// Returns a text that two values have in common exactly if they are equal by the rules of vLLM's linked variables. Numbers are compared by
/// value (`1` equals `1.0`), `true` and `false` equal 1 and 0, and a number never equals a text.
pub fn equality_key(value: &Value) -> String {
    match value {
        Value::Bool(flag) => u8::from(*flag).to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9.0e18 => {
                (float as i64).to_string()
            }
            _ => number.to_string(),
        },
        Value::Null | Value::String(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(equality_key).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort();
            let shown = keys
                .into_iter()
                .map(|key| format!("{}:{}", Value::from(key.as_str()), equality_key(&members[key])));
            format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
        }
    }
}

/// Returns the number or boolean that a text stands for, as in a variable; any other value as it is. A text that is not written as its
/// number, such as `0.10` or `1e3`, may be a version or a name.
pub fn read_text(value: &Value) -> Cow<'_, Value> {
    let Value::String(text) = value else {
        return Cow::Borrowed(value);
    };
    let read = match text.as_str() {
        "true" => Some(true.into()),
        "false" => Some(false.into()),
        text => match text.parse::<i64>() {
            Ok(whole) => Some(whole.into()),
            Err(_) => text.parse().ok().and_then(Number::from_f64).map(Value::Number),
        },
    };
    let is_written_so = |read: &Value| show(read) == *text;
    read.filter(is_written_so).map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Returns true if two values are equal; see [`equality_key`].
pub fn equal(a: &Value, b: &Value) -> bool {
    equality_key(a) == equality_key(b)
}

/// Returns the value for people: texts without quotes, everything else as JSON.
pub fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(equal(&json!(1), &json!(1.0)));
        assert!(equal(&json!(1), &json!(true)));
        assert!(!equal(&json!(1), &json!("1")));
        assert!(equal(&json!(null), &json!(null)));
        assert!(equal(&json!([1, {"a": 2}]), &json!([1.0, {"a": 2.0}])));
        assert!(!equal(
            &json!(9_007_199_254_740_993_i64),
            &json!(9_007_199_254_740_992_i64)
        ));
    }
}
