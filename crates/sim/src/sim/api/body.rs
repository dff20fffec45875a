//! Reading the fields of a request's JSON body, refusing what pydantic refuses in its words.

use super::error::ApiError;
use serde::Deserialize;
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

    /// A field as `read` reads it; where that is not possible, pydantic's kind of error and its message.
    fn field<'b, T>(
        &'b self,
        name: &str,
        read: impl FnOnce(&'b Value) -> Option<T>,
        (kind, message): (&str, &str),
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let refusal = || ApiError::invalid(kind, &format!("body.{name}"), message, value);
        read(value).map(Some).ok_or_else(refusal)
    }

    /// An integer, also as text, as pydantic's lax mode takes it.
    pub fn int(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let (kind, why) = match self.get(name) {
            Some(Value::Number(_)) => ("int_from_float", ", got a number with a fractional part"),
            Some(Value::String(_)) => ("int_parsing", ", unable to parse string as an integer"),
            _ => ("int_type", ""),
        };
        let read = |value: &Value| match value {
            Value::String(text) => text.trim().parse().ok(),
            other => {
                let whole = other.as_f64().filter(|number| number.fract() == 0.0);
                other.as_i64().or(whole.map(|number| number as i64))
            }
        };
        self.field(name, read, (kind, &format!("Input should be a valid integer{why}")))
    }

    /// A switch.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        let refusal = (
            "bool_parsing",
            "Input should be a valid boolean, unable to interpret input",
        );
        Ok(self.field(name, Value::as_bool, refusal)?.unwrap_or(false))
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        self.field(name, Value::as_str, NO_TEXT)
    }

    /// A text or a list of texts.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, ApiError> {
        let read = |value: &Value| match value {
            Value::String(text) => Some(vec![text.clone()]),
            list => Vec::deserialize(list).ok(),
        };
        Ok(self.field(name, read, NO_TEXT)?.unwrap_or_default())
    }
}

/// How pydantic refuses what is no text.
pub const NO_TEXT: (&str, &str) = ("string_type", "Input should be a valid string");
