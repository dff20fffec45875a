//! Compares the run files with the journals: finds files that were changed, files that replace a lost line, and files that no line names.

use super::directory::Directory;
use super::event::StoredFile;
use super::run_file::Provenance;
use super::state::State;
use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::{RESULT, read};
use vsweep_base::ids::sha256_hex;
use vsweep_base::threads;
use vsweep_base::units::show_many;

/// Thoroughness of the comparison of run files with the journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// By their lengths, for a quick look at the status.
    Lengths,
    /// Byte for byte.
    Hashes,
}

/// Files that are named where many are meant.
const MOST_NAMED: usize = 3;

/// Every run file in a directory, relative to it. Taken before the journals are read: a line precedes its file.
pub(super) fn list(directory: &Directory) -> Result<Vec<String>> {
    let folder = directory.runs_folder();
    let Ok(points) = fs::read_dir(&folder) else {
        return Ok(Vec::new());
    };
    let points: Vec<_> = points.collect::<io::Result<_>>().map_err(Error::io("read", &folder))?;
    let files_of = |point: &DirEntry| {
        let name = point.file_name().into_string().ok();
        let runs = fs::read_dir(point.path()).into_iter().flatten().flatten();
        let files = runs.filter_map(|run| run.file_name().into_string().ok());
        let files = files.filter(|file| file.ends_with(".json"));
        files
            .filter_map(|file| Some(format!("runs/{}/{file}", name.as_ref()?)))
            .collect::<Vec<_>>()
    };
    let listed = threads::map(threads::cores(), &points, files_of);
    Ok(listed.into_iter().flatten().collect())
}

/// Compares the run files with what the journals say, and makes good from them what lines have lost.
pub(super) fn compare(directory: &Directory, state: &mut State, listed: Vec<String>, check: Check) {
    recover(directory, state);
    let root = directory.root();
    let files = state.files();
    let lost: Vec<usize> = threads::map(threads::cores(), &files, |(_, file)| is_sound(root, file, check))
        .into_iter()
        .zip(&files)
        .filter(|(is_sound, _)| !is_sound)
        .map(|(_, (at, _))| *at)
        .collect();
    let named: HashSet<&str> = files.iter().map(|(_, file)| file.path.as_str()).collect();
    let mut unnamed: Vec<String> = listed
        .into_iter()
        .filter(|path| !named.contains(path.as_str()))
        .collect();
    unnamed.sort();
    drop((named, files));
    state.lose(&lost);
    let missed = state.missed(&lost);
    let describe = |names: &[String], what: &str| {
        let is = if names.len() == 1 { "is" } else { "are" };
        let many = show_many(names.len() as u64, "run file");
        format!("{many} {is} {what}: {}", some(names))
    };
    if !missed.is_empty() {
        let they = if missed.len() == 1 { "it is" } else { "they are" };
        let missing = describe(&missed, "missing or damaged");
        state
            .damage
            .push(format!("{missing}; {they} measured again unless restored from a copy"));
    }
    if !unnamed.is_empty() {
        state.damage.push(describe(&unnamed, "in no journal, and in no table"));
    }
}

fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let mut some = names[..names.len() - more].join(", ");
    if more > 0 {
        some += &format!(" and {more} more");
    }
    some
}

fn is_sound(root: &Path, file: &StoredFile, check: Check) -> bool {
    let path = root.join(&file.path);
    match check {
        Check::Lengths => fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == file.bytes),
        Check::Hashes => read(&path, RESULT)
            .is_ok_and(|content| content.len() as u64 == file.bytes && sha256_hex(&content) == file.sha256),
    }
}

/// Results whose line is missing, the beginnings of results, and what servers are, from run files that hold all of it.
fn recover(directory: &Directory, state: &mut State) {
    let read = |path: &str| {
        let content = read(&directory.root().join(path), RESULT).ok()?;
        let (provenance, simulated) = Provenance::read(&content)?;
        Some((provenance, simulated, content))
    };
    for (line, path) in state.open_runs() {
        match read(&path).filter(|(provenance, ..)| provenance.line == line) {
            Some((provenance, _, content)) => {
                let mut finished = provenance.finished;
                finished.file = Some(StoredFile::of(path, &content));
                state.finish_run(line, None, String::new(), finished);
            }
            None if directory.root().join(&path).exists() => state.damage.push(format!(
                "{path} is damaged, and no line says what it held; its run is measured again unless it is restored from a copy"
            )),
            None => {}
        }
    }
    for (line, file) in state.orphans() {
        let whole = read(&file.path).filter(|(_, _, content)| StoredFile::of(file.path.clone(), content) == file);
        if let Some((provenance, ..)) = whole.filter(|(provenance, ..)| provenance.line == line) {
            state.begin_run(provenance.rank(), provenance.started);
        }
    }
    for (server, path) in state.unknown_servers() {
        if let Some((provenance, simulated, _)) = read(&path) {
            let rank = provenance.rank();
            state.recover_server(&server, provenance.server, rank, simulated);
        }
    }
}
