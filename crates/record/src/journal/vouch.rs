//! The files that a journal vouches for: what is noted of one, and which are no longer what was noted.

use super::directory::Directory;
use super::event::StoredFile;
use super::state::{State, load};
use std::collections::BTreeSet;
use std::fs;
use vsweep_plan::error::Result;
use vsweep_plan::ids::{PointId, sha256_hex};

/// Like [`load`], but reads every run's file too: a run whose file is not what was recorded counts as not measured.
pub fn inspect(directory: &Directory) -> Result<State> {
    let mut state = load(directory)?;
    state.disowned = disowned(directory, &state);
    Ok(state)
}

/// Runs whose file is not, byte for byte, the one that the journal vouches for.
pub fn disowned(directory: &Directory, state: &State) -> BTreeSet<(PointId, u32)> {
    let is_sound = |file: &StoredFile| {
        fs::read(directory.root().join(&file.path)).is_ok_and(|content| stored(file.path.clone(), &content) == *file)
    };
    let runs = state
        .runs()
        .filter(|run| run.file.as_ref().is_some_and(|file| !is_sound(file)));
    runs.map(|run| (run.point.clone(), run.run)).collect()
}

/// What a journal notes of a file.
pub fn stored(path: String, content: &[u8]) -> StoredFile {
    StoredFile {
        path,
        bytes: content.len() as u64,
        sha256: sha256_hex(content),
    }
}
