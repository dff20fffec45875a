//! Fuzzes the file of a run whose line was lost: the experiment can be read.

use crate::experiment::{NONCE, read, seal};
use crate::files::Folder;

/// A journal that ends while its first run is under way.
const JOURNAL: &[u8] = include_bytes!("run_file/journal.jsonl");
/// Where the file of that run belongs.
const FILE: &str = include_str!("run_file/path");

pub fn check(data: &[u8]) {
    let folder = Folder::new();
    folder.write(&format!("journal/{NONCE}.jsonl"), JOURNAL);
    folder.write(FILE.trim(), &seal(data));
    read(&folder);
}
