//! The JSON Schema of the plan format, from which editors complete plans and the plan reference is made. It is put together from what
//! the tables (`read::table`) and values (`written`, `forms`) say of themselves.

use super::Plan;
use super::read::table::{Table, describe};
use super::written::Definitions;
use serde_json::{Map, Value};

/// The JSON Schema of the plan format.
pub fn json_schema() -> Value {
    let mut definitions = Definitions::default();
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), Plan::TITLE.into());
    schema.extend(describe::<Plan>(&mut definitions));
    schema.insert("$defs".into(), definitions.0.into());
    schema.into()
}

/// The schema as the text of `plans/schema.json`.
pub fn json_text() -> String {
    serde_json::to_string_pretty(&json_schema()).expect("a schema is JSON") + "\n"
}
