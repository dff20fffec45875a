//! Reading the fields of a request's JSON body, refusing what pydantic refuses in its words.

use super::error::ApiError;
use serde_json::{Map, Value};

/// A body that is a JSON object.
pub struct Body(Map<String, Value>);

impl Body {
    /// Reads the bytes of a request.
    pub fn read(bytes: &[u8]) -> Result<Body, ApiError> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Body(fields)),
            Ok(other) => Err(ApiError::invalid(
                "model_attributes_type",
                "body",
                "Input should be a valid dictionary or object to extract fields from",
                &other,
            )),
            Err(error) => Err(ApiError::not_json(error.column().saturating_sub(1))),
        }
    }

    /// A field that is there and not null.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub fn required(&self, name: &str) -> Result<&Value, ApiError> {
        let input = || Value::Object(self.0.clone());
        self.get(name)
            .ok_or_else(|| ApiError::invalid("missing", &format!("body.{name}"), "Field required", &input()))
    }

    /// An integer, also as text, as pydantic's lax mode takes it.
    pub fn int(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let refuse = |kind: &str, why: &str| {
            Err(ApiError::invalid(
                kind,
                &format!("body.{name}"),
                &format!("Input should be a valid integer{why}"),
                value,
            ))
        };
        match value {
            Value::Number(number) => match number
                .as_i64()
                .or_else(|| number.as_f64().filter(|f| f.fract() == 0.0).map(|f| f as i64))
            {
                Some(int) => Ok(Some(int)),
                None => refuse("int_from_float", ", got a number with a fractional part"),
            },
            Value::String(text) => match text.trim().parse() {
                Ok(int) => Ok(Some(int)),
                Err(_) => refuse("int_parsing", ", unable to parse string as an integer"),
            },
            _ => refuse("int_type", ""),
        }
    }

    /// A switch.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(other) => Err(ApiError::invalid(
                "bool_parsing",
                &format!("body.{name}"),
                "Input should be a valid boolean, unable to interpret input",
                other,
            )),
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(ApiError::invalid(
                "string_type",
                &format!("body.{name}"),
                "Input should be a valid string",
                other,
            )),
        }
    }

    /// A text or a list of texts.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, ApiError> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text.clone()]),
            Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
                Ok(list.iter().filter_map(Value::as_str).map(str::to_string).collect())
            }
            Some(other) => Err(ApiError::invalid(
                "string_type",
                &format!("body.{name}"),
                "Input should be a valid string",
                other,
            )),
        }
    }
}
