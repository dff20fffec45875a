//! Fuzzes a journal's lines: the experiment can be read or is rejected.

use crate::experiment::{NONCE, read, seal};
use crate::files::Folder;

pub fn check(data: &[u8]) {
    let mut journal = Vec::new();
    for line in data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        journal.extend(seal(line));
        journal.push(b'\n');
    }
    let folder = Folder::new();
    folder.write(&format!("journal/{NONCE}.jsonl"), &journal);
    read(&folder);
}
