//! The forms in which a plan gives values: words, scalars, axes, and values that follow others.

use crate::plan::Derived;
use schemars::JsonSchema;
use serde_json::Value;
use std::collections::BTreeMap;

/// A command line: a string split as a shell would, or a list of words.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Words {
    /// Split into words as a shell would; no shell is involved.
    Line(String),
    /// Taken as it is.
    List(Vec<String>),
}

/// One command line, or several by name.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Commands {
    /// One for all servers.
    One(Words),
    /// An axis.
    Named(BTreeMap<String, Words>),
}

/// A value, or several as an axis.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Values {
    /// One.
    One(Scalar),
    /// An axis.
    Several(Vec<Scalar>),
}

/// A value that is neither a list nor a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text; `${NAME}` and `${NAME:-default}` stand for environment variables.
    Text(String),
}

/// The value or values of a parameter.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Param {
    /// One value for all points. `true` becomes `--name`, `false` becomes `--no-name`.
    Fixed(Scalar),
    /// In JSON, `null` removes the flag from the command.
    Absent(()),
    /// An axis: the values in order.
    Values(Vec<AxisItem>),
    /// An axis: a range.
    Range(RangeTable),
    /// Computed from another parameter of the same table.
    Derived(Derived),
    /// One value that is itself a list or a table.
    Whole(ValueTable),
}

/// One value of an axis.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum AxisItem {
    /// A plain value.
    Plain(Scalar),
    /// In JSON, `null` removes the flag from the command.
    Absent(()),
    /// A value that is itself a list or a table.
    Whole(ValueTable),
}

/// Numbers from one end to the other. Exactly one of `times`, `step` and `count` says how.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RangeTable {
    /// First value.
    pub from: f64,
    /// Last value; values beyond it are not taken.
    pub to: f64,
    /// Factor from each value to the next, above 1.
    pub times: Option<f64>,
    /// Difference of neighbours, above 0.
    pub step: Option<f64>,
    /// Number of values, both ends included. Between whole ends the values are rounded to whole numbers.
    pub count: Option<u32>,
    /// Spacing of `count` values: `linear` (default) or `log`.
    pub scale: Option<Scale>,
}

/// Spacing of a range with a `count`.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Scale {
    /// Equal differences.
    Linear,
    /// Equal factors.
    Log,
}

/// Passes a list or a table as one value. On the command line a list of plain values becomes several words after one
/// flag, everything else becomes JSON.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ValueTable {
    /// The value.
    pub value: Value,
}

/// A slowdown, or none.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Slowdown {
    /// As a percentage.
    Percent(String),
    /// Not measured.
    Not(bool),
}

/// Which servers run alone.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Exclusive {
    /// Each or none.
    All(bool),
    /// Those with these parameters.
    Such(BTreeMap<String, Scalar>),
}

/// How many servers run at once.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum SideBySide {
    /// As many as a resource allows.
    By(Resource),
    /// At most so many.
    Servers(u32),
}

/// What is shared out among servers that run at once.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Resource {
    /// GPUs.
    Gpus,
}
