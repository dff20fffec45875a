//! Parses values of each type from plans and command lines. Numbers and lists may be given as texts, and flags as empty texts.

use super::{Param, Takes};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Largest whole number that is accepted. Whole numbers up to it are exact as 64-bit floats.
const MOST: f64 = 1e15;
/// Longest time, in seconds. Longer times are reduced to it, because no run lasts so long, and much longer times would overflow a clock.
const LONGEST_S: f64 = 1e9;

/// A type of values that a parameter can have.
pub trait FromParam: Sized {
    /// The type as a parameter declares it.
    const TAKES: Takes;

    /// Parses a value. The error is a sentence that names the parameter.
    fn from_param(param: &Param, value: &Value) -> Result<Self, String>;

    /// The value of a parameter that is not given and has no default; `None` if the parameter must have a default.
    fn absent() -> Option<Self> {
        None
    }
}

impl<T: FromParam> FromParam for Option<T> {
    const TAKES: Takes = T::TAKES;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        T::from_param(param, value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl FromParam for u64 {
    const TAKES: Takes = Takes::Count;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let number = number_of(value);
        let fits = |number: &f64| number.fract() == 0.0 && *number >= param.least as f64 && *number <= MOST;
        number.filter(fits).map(|number| number as u64).ok_or_else(|| {
            let is_huge = number.is_some_and(|number| number > MOST);
            let wants = match is_huge {
                true => "at most 10^15".to_owned(),
                false => param.wants(),
            };
            param.wrong(value, &wants)
        })
    }
}

impl FromParam for usize {
    const TAKES: Takes = Takes::Count;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let count = u64::from_param(param, value)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }
}

impl FromParam for u32 {
    const TAKES: Takes = Takes::Count;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        limited(param, value, u32::MAX.into()).map(|count| count as u32)
    }
}

impl FromParam for u16 {
    const TAKES: Takes = Takes::Count;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        limited(param, value, u16::MAX.into()).map(|count| count as u16)
    }
}

/// Parses a whole number of at most `most`.
fn limited(param: &Param, value: &Value, most: u64) -> Result<u64, String> {
    let fits = |count: &u64| *count <= most && (param.fits)(*count as f64);
    let count = u64::from_param(param, value).ok().filter(fits);
    count.ok_or_else(|| match param.wants {
        "" => param.wrong(value, &format!("a whole number from {} to {most}", param.least)),
        wants => param.wrong(value, wants),
    })
}

impl FromParam for f64 {
    const TAKES: Takes = Takes::Number;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let number = number_of(value).filter(|number| !number.is_nan() && (param.fits)(*number));
        number.ok_or_else(|| param.wrong(value, &param.wants()))
    }
}

/// Accepts a number of seconds.
impl FromParam for Duration {
    const TAKES: Takes = Takes::Number;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let seconds = f64::from_param(param, value)?.min(LONGEST_S);
        Duration::try_from_secs_f64(seconds).map_err(|_| param.wrong(value, "a number of seconds of at least 0"))
    }
}

impl FromParam for bool {
    const TAKES: Takes = Takes::Nothing;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        match value {
            Value::Bool(set) => Ok(*set),
            Value::String(text) if text.is_empty() || text == "true" => Ok(true),
            Value::String(text) if text == "false" => Ok(false),
            _ => Err(param.wrong(value, "true or false")),
        }
    }

    fn absent() -> Option<Self> {
        Some(false)
    }
}

impl FromParam for String {
    const TAKES: Takes = Takes::Text;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            Value::Array(items) => Ok(items.iter().map(text_of).collect::<Vec<_>>().join(",")),
            _ => Err(param.wrong(value, "a string")),
        }
    }
}

impl FromParam for PathBuf {
    const TAKES: Takes = Takes::Text;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        String::from_param(param, value).map(PathBuf::from)
    }
}

impl FromParam for Vec<String> {
    const TAKES: Takes = Takes::Texts;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(text.split_whitespace().map(str::to_owned).collect()),
            Value::Array(items) if items.iter().all(Value::is_string) => Ok(items.iter().map(text_of).collect()),
            _ => Err(param.wrong(value, "a list of strings")),
        }
    }

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
}

/// Accepts a table, or texts of the form `KEY=VALUE`.
impl FromParam for Vec<(String, String)> {
    const TAKES: Takes = Takes::Texts;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        if let Value::Object(object) = value {
            return Ok(object
                .iter()
                .map(|(key, value)| (key.clone(), text_of(value)))
                .collect());
        }
        let texts = Vec::<String>::from_param(param, value)?;
        let pair = |text: &String| match text.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => Err(format!("{} \"{text}\" has no \"=\"; write KEY=VALUE", param.name)),
        };
        texts.iter().map(pair).collect()
    }

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
}

impl FromParam for Map<String, Value> {
    const TAKES: Takes = Takes::Json;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        match json_of(value) {
            Value::Object(object) => Ok(object),
            _ => Err(param.wrong(value, "a JSON object")),
        }
    }

    fn absent() -> Option<Self> {
        Some(Map::new())
    }
}

/// Returns a JSON value. A text is parsed as JSON; it becomes null if that fails.
pub fn json_of(value: &Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        value => value.clone(),
    }
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
