//! How many output tokens the rows of a file of one's own ask for.

use crate::params::{FromParam, Param, Takes, param};
use serde_json::Value;

/// Output tokens of the datasets of one's own.
pub(super) const OUTPUT_LEN: Param = param("custom_output_len").or("output_len").least(1).default("256");

/// Output tokens of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputLen {
    /// So many for all.
    Fixed(u64),
    /// As the column `output_tokens` says.
    Column,
}

impl FromParam for OutputLen {
    const TAKES: Takes = Takes::Number;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        match f64::from_param(param, value) {
            Ok(-1.0) => Ok(OutputLen::Column),
            _ => match u64::from_param(param, value) {
                Ok(length) => Ok(OutputLen::Fixed(length)),
                Err(_) => Err(param.wrong(value, "a whole number of at least 1, or -1")),
            },
        }
    }
}
