//! Reads results for a command: directories of vsweep, trees of vLLM, folders of result files, and single files of any known client.

use crate::bench::{AIPERF_RESULT, figures_contradiction, read_results};
use crate::error::{Error, Result};
use crate::journal::{Directory, State};
use crate::plan::{Params, ReportOptions};
use crate::report::{self, Runs};
use std::fs;
use std::path::{Path, PathBuf};

/// Summary that the scripts of vLLM's dashboard make from the other files in its folder.
const DASHBOARD: &str = "benchmark_results.json";

/// Reads the runs in a directory or a file. `options` are those of the plan of an experiment.
pub fn read(path: &Path, options: impl FnOnce(&State) -> ReportOptions) -> Result<Runs> {
    Directory::at(path).check_journal()?;
    let files = match file(path) {
        _ if Directory::at(path).is_experiment() => Vec::new(),
        Some(file) => vec![file],
        None => json_files(path),
    };
    let read_all = || {
        let named = |file: &PathBuf| Ok((file.display().to_string(), records(file)?));
        let records = files.iter().map(named).collect::<Result<Vec<_>>>()?;
        report::read_records(records).map_err(Error::Usage)
    };
    match report::read_any(path, &figures_contradiction, options) {
        Err(Error::Usage(_)) if !files.is_empty() => read_all(),
        other => other,
    }
}

/// Returns the result file for a path: the file itself, or that of aiperf or the dashboard in the folder.
pub fn file(path: &Path) -> Option<PathBuf> {
    let inside = [AIPERF_RESULT, DASHBOARD].map(|name| path.join(name));
    [path.to_owned()].into_iter().chain(inside).find(|path| path.is_file())
}

/// Reads the figures in a file.
pub fn records(file: &Path) -> Result<Vec<Params>> {
    let refused = |what: String| Error::Usage(format!("{} {what}", file.display()));
    let bytes = fs::read(file).map_err(|error| refused(format!("cannot be read: {error}")))?;
    read_results(&bytes).map_err(refused)
}

/// Returns the JSON files directly in a folder, in the order of their names. `summary.json` is left out, because it is part of a result
/// tree of vLLM's sweep.
fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json") && path.is_file())
        .filter(|path| !path.ends_with("summary.json"))
        .collect();
    files.sort();
    files
}
