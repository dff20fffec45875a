//! The JSON Schema of the plan format, which editors and the plan reference are made from, and the forms in which a plan gives values
//! of several kinds. The tables say themselves what they are (`read::table`).

use super::Plan;
use schemars::{JsonSchema, Schema, schema_for};
use std::collections::BTreeMap;

/// The JSON Schema of the plan format.
pub fn json_schema() -> Schema {
    schema_for!(Plan)
}

/// The schema as the text of `plans/schema.json`.
pub fn json_text() -> String {
    serde_json::to_string_pretty(&json_schema()).expect("a schema is JSON") + "\n"
}

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

/// Spacing of a range with a `count`.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Scale {
    /// Equal differences.
    Linear,
    /// Equal factors.
    Log,
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

/// The load parameter that a search varies.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Vary {
    /// Requests in flight at once.
    MaxConcurrency,
    /// Requests a second.
    RequestRate,
}
