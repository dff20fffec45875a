//! Where the Hugging Face tools keep what they download.

use std::env;
use std::path::PathBuf;

/// `HF_HUB_CACHE`, else `hub` below `HF_HOME`, else below `~/.cache/huggingface`; `None` without a home folder.
pub(super) fn hub() -> Option<PathBuf> {
    env::var_os("HF_HUB_CACHE").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HF_HOME").map(PathBuf::from);
        let home = home.or_else(|| env::home_dir().map(|home| home.join(".cache/huggingface")));
        home.map(|home| home.join("hub"))
    })
}
