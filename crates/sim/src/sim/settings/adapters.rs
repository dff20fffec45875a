//! LoRA adapters: which ones are served, by `--lora-modules name=path` or as JSON. They cost nothing here; what they do is
//! have a name and share no cached prefix.

use super::{FlagReader, Unusable};
use serde_json::Value;

/// One adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The name that requests ask for.
    pub name: String,
    /// Where it would be loaded from.
    pub path: String,
}

/// The adapters of a command line.
pub(super) fn adapters(read: &FlagReader) -> Result<Vec<Adapter>, Unusable> {
    let modules = read.texts("lora_modules");
    modules.iter().map(|text| adapter(text)).collect()
}

fn adapter(text: &str) -> Result<Adapter, Unusable> {
    let refuse = |why: &str| Unusable::Flag(format!("argument --lora-modules: {why}"));
    if let Ok(Value::Object(fields)) = serde_json::from_str(text) {
        let field = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_string);
        let (name, path) = (field("name"), field("path"));
        return match (name, path) {
            (Some(name), Some(path)) => Ok(Adapter { name, path }),
            _ => Err(refuse(&format!(
                "Invalid fields for --lora-modules: {text} - missing name or path"
            ))),
        };
    }
    let (name, path) = text
        .split_once('=')
        .ok_or_else(|| refuse(&format!("Invalid JSON format for --lora-modules: {text}")))?;
    let (name, path) = (name.into(), path.into());
    Ok(Adapter { name, path })
}
