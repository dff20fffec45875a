//! The special tokens of a model: those that its configuration names, as Hugging Face's `transformers` counts them. `tokenizer.json` marks
//! more tokens as special, which `vllm bench serve` does use in random prompts.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::Path;

/// The texts of a model's special tokens; `None` if the folder does not say.
pub(in crate::dataset) fn named_in(folder: &Path) -> Option<BTreeSet<String>> {
    let read = |name: &str| -> Option<Map<String, Value>> {
        serde_json::from_slice(&std::fs::read(folder.join(name)).ok()?).ok()
    };
    let mut config = read("tokenizer_config.json")?;
    // The older file counts only where the newer one does not list the added tokens.
    if !config.contains_key("added_tokens_decoder") {
        config.extend(read("special_tokens_map.json").unwrap_or_default());
    }
    let mut names: BTreeSet<String> = config
        .iter()
        .filter(|(key, _)| key.ends_with("_token"))
        .filter_map(|(_, value)| text_of(value))
        .collect();
    let further = ["extra_special_tokens", "additional_special_tokens"];
    let is_given = |value: &&Value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        _ => false,
    };
    match further.iter().filter_map(|key| config.get(*key)).find(is_given) {
        Some(Value::Array(items)) => names.extend(items.iter().filter_map(text_of)),
        Some(Value::Object(items)) => names.extend(items.values().filter_map(text_of)),
        _ => {}
    }
    Some(names)
}

/// A token is a text, or an object with that as its `content`.
pub(in crate::dataset) fn text_of(token: &Value) -> Option<String> {
    let text = token.as_str().or_else(|| token.get("content")?.as_str());
    text.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_configuration() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        assert_eq!(named_in(folder.path()), None);
        write(
            "tokenizer_config.json",
            r#"{"bos_token": {"content": "<s>"}, "pad_token": null, "image_token": "<img>", "add_bos_token": true,
                "additional_special_tokens": ["<a>", {"content": "<b>"}]}"#,
        );
        write("special_tokens_map.json", r#"{"eos_token": "</s>"}"#);
        let named = named_in(folder.path()).expect("a configuration");
        assert_eq!(
            named.iter().map(String::as_str).collect::<Vec<_>>(),
            ["</s>", "<a>", "<b>", "<img>", "<s>"]
        );
        write(
            "tokenizer_config.json",
            r#"{"eos_token": "<e>", "added_tokens_decoder": {}}"#,
        );
        assert_eq!(named_in(folder.path()), Some(BTreeSet::from(["<e>".to_owned()])));
        write("tokenizer_config.json", "[");
        assert_eq!(named_in(folder.path()), None);
    }
}
