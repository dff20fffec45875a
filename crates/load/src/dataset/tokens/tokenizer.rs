//! The model's tokenizer, from a local folder, a `tokenizer.json` or the local Hugging Face cache.

use crate::dataset::source::hub;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A tokenizer, with the facts about its vocabulary that sampling needs.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    vocabulary: u32,
    special: BTreeSet<u32>,
    marked: BTreeSet<u32>,
    added_specials: u64,
    folder: PathBuf,
}

impl Tokenizer {
    /// Reads the tokenizer of a model. `name` is a folder that holds `tokenizer.json`, the file itself, or the name of a model in the local
    /// Hugging Face cache. Returns `None` if no such file exists, and an error if the file cannot be read.
    pub fn find(name: &str) -> Result<Option<Tokenizer>, String> {
        let Some(path) = locate(Path::new(name)).or_else(|| locate_in_cache(name)) else {
            return Ok(None);
        };
        let inner = read(&path).map_err(|problem| {
            format!(
                "cannot read the tokenizer {}: {problem}; fetch it again, or set skip_tokenizer_init",
                path.display()
            )
        })?;
        Tokenizer::new(inner, path.parent().unwrap_or(Path::new(".")).to_path_buf()).map(Some)
    }

    fn new(mut inner: tokenizers::Tokenizer, folder: PathBuf) -> Result<Tokenizer, String> {
        // Some files ask for padding to one length; prompts keep their own length.
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| format!("cannot use the tokenizer: {error}"))?;
        let added = inner.get_added_tokens_decoder().into_iter();
        let marked: BTreeSet<u32> = added.filter(|(_, token)| token.special).map(|(id, _)| id).collect();
        let special = match named_in(&folder) {
            Some(names) => names.iter().filter_map(|name| inner.token_to_id(name)).collect(),
            None => marked.clone(),
        };
        let mut tokenizer = Tokenizer {
            vocabulary: u32::try_from(inner.get_vocab_size(false))
                .map_err(|_| "the tokenizer's vocabulary is too big")?,
            special,
            marked,
            inner,
            added_specials: 0,
            folder,
        };
        tokenizer.added_specials = tokenizer.encode("", true)?.len() as u64;
        Ok(tokenizer)
    }

    /// Folder of the tokenizer's file. The model's chat template, if it has one, is in the same folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Size of the vocabulary without added tokens.
    pub fn vocabulary_size(&self) -> u32 {
        self.vocabulary
    }

    /// Ids of all tokens, added ones included, ascending.
    pub fn all_ids(&self) -> BTreeSet<u32> {
        self.inner.get_vocab(true).into_values().collect()
    }

    /// Ids of the added tokens that the tokenizer's file marks as special.
    pub fn marked(&self) -> &BTreeSet<u32> {
        &self.marked
    }

    /// Ids of the tokens that the model's configuration names as special; without a configuration, the marked tokens.
    pub fn special(&self) -> &BTreeSet<u32> {
        &self.special
    }

    /// Number of special tokens that the tokenizer adds to a prompt.
    pub fn added_specials(&self) -> u64 {
        self.added_specials
    }

    /// Converts a text to token ids, and adds special tokens if `with_specials` is true.
    pub fn encode(&self, text: &str, with_specials: bool) -> Result<Vec<u32>, String> {
        let encoding = self
            .inner
            .encode_fast(text, with_specials)
            .map_err(|error| format!("cannot tokenize: {error}"))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Converts a text to token ids, without special tokens. Also returns for each token the index of its word. Words are the pieces into
    /// which the text is split before it is tokenized.
    pub(in crate::dataset) fn encode_in_words(&self, text: &str) -> Result<(Vec<u32>, Vec<u32>), String> {
        let encoding = self
            .inner
            .encode(text, false)
            .map_err(|error| format!("cannot tokenize: {error}"))?;
        let words = encoding.get_word_ids().iter();
        let words = words.map(|word| word.unwrap_or(0)).collect();
        Ok((encoding.get_ids().to_vec(), words))
    }

    /// Converts token ids to text, special tokens included.
    pub fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.inner
            .decode(ids, false)
            .map_err(|error| format!("cannot turn token ids into text: {error}"))
    }
}

fn read(path: &Path) -> Result<tokenizers::Tokenizer, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    // The library panics on some invalid files. Most of them are not JSON and are rejected here; for the others, the panic is caught.
    serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).map_err(|error| format!("not JSON ({error})"))?;
    std::panic::catch_unwind(|| tokenizers::Tokenizer::from_bytes(&bytes))
        .map_err(|_| "it is not in the form of a tokenizer".to_owned())?
        .map_err(|error| error.to_string())
}

fn locate(path: &Path) -> Option<PathBuf> {
    let file = match path.is_dir() {
        true => path.join("tokenizer.json"),
        false => path.to_path_buf(),
    };
    (file.is_file() && file.extension().is_some_and(|extension| extension == "json")).then_some(file)
}

/// `models--ORG--NAME/snapshots/<commit of main>/tokenizer.json` below the Hugging Face cache.
fn locate_in_cache(name: &str) -> Option<PathBuf> {
    let model = hub::cache()?.join(format!("models--{}", name.replace('/', "--")));
    let commit = std::fs::read_to_string(model.join("refs/main")).ok()?;
    locate(&model.join("snapshots").join(commit.trim()))
}

/// Returns the texts of the special tokens that a model's configuration names, by the rules of Hugging Face's `transformers`; `None`
/// without a configuration. `tokenizer.json` marks further tokens as special, which `vllm bench serve` still uses in random prompts.
pub(in crate::dataset) fn named_in(folder: &Path) -> Option<BTreeSet<String>> {
    let read = |name: &str| -> Option<Map<String, Value>> {
        serde_json::from_slice(&std::fs::read(folder.join(name)).ok()?).ok()
    };
    let mut config = read("tokenizer_config.json")?;
    // The older file, `special_tokens_map.json`, counts only if the newer file does not list the added tokens.
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

/// Returns the text of a token, which is the text itself or an object with the text as its `content`.
pub(in crate::dataset) fn text_of(token: &Value) -> Option<String> {
    let text = token.as_str().or_else(|| token.get("content")?.as_str());
    text.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_not_cut_to_the_length_that_a_file_asks_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = serde_json::json!({
            "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": null, "decoder": null,
            "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
            "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                        "pad_type_id": 0, "pad_token": "a"},
            "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"},
        });
        std::fs::write(folder.path().join("tokenizer.json"), file.to_string()).expect("written");
        let found = Tokenizer::find(folder.path().to_str().expect("plain")).expect("valid");
        let tokenizer = found.expect("it is there");
        assert_eq!(tokenizer.encode("b a b b a", true).as_deref(), Ok(&[1, 0, 1, 1, 0][..]));
    }
}

#[cfg(test)]
mod special_tokens_tests {
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
