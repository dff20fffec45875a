//! A time with its unit, as in the other tables of a plan.

use crate::bench::params::{FromParam, Param, Takes};
use crate::plan::show;
use crate::units::parse_duration;
use serde_json::Value;
use std::time::Duration;

/// A time such as `60s`; a bare number is refused because its unit would be a guess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeSpan(pub Duration);

/// Words for the values it takes.
pub const TIME: &str = "a time with a unit, such as \"60s\"";

impl FromParam for TimeSpan {
    const TAKES: Takes = Takes::Text;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let time = parse_duration(&show(value));
        time.map(TimeSpan).map_err(|_| param.wrong(value, TIME))
    }
}
