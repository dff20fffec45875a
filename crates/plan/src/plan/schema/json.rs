//! The JSON Schema that the documented types give, made fit for editors and for people.

use super::PlanFile;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, schema_for};
use serde_json::{Map, Value, json};

/// The JSON Schema of the plan format.
pub fn json_schema() -> Schema {
    let mut schema = schema_for!(PlanFile);
    RecursiveTransform(tidy).transform(&mut schema);
    schema
}

/// The schema as the text of `plans/schema.json`.
pub fn json_text() -> String {
    serde_json::to_string_pretty(&json_schema()).expect("a schema is JSON") + "\n"
}

/// The keys of a table with their schemas, in the order of its type.
pub fn keys_of<T: JsonSchema>() -> Map<String, Value> {
    let schema = schema_for!(T);
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.cloned().unwrap_or_default()
}

/// A key that may be left out is not one that may be null, and a description is a paragraph, whatever the width of the
/// source.
fn tidy(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf")
        && let [Value::Object(choice), null] = choices.as_slice()
        && *null == json!({"type": "null"})
    {
        let choice = choice.clone();
        schema.remove("anyOf");
        for (key, value) in choice {
            schema.insert(key, value);
        }
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}
