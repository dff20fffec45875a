//! A result of another client as a file that `vsweep plot` and `pareto` read.

use super::super::output::say;
use crate::bench::{AIPERF_RESULT, read_result, records};
use crate::error::{Error, Exit, Result};
use crate::files::{create_folder, write_atomic};
use crate::units::show_many;
use std::fs;
use std::path::{Path, PathBuf};

/// What `vllm bench sweep` calls the results of one load.
const SUMMARY: &str = "summary.json";

/// The file with a client's result, if the path is that or aiperf's folder.
pub fn file(path: &Path) -> Option<PathBuf> {
    let inside = path.join(AIPERF_RESULT);
    [path.to_owned(), inside].into_iter().find(|path| path.is_file())
}

/// Writes the benchmarks of the result as the runs of one load.
pub fn import(file: &Path, to: &Path) -> Result<Exit> {
    let refused = |what: String| Error::Usage(format!("{} {what}", file.display()));
    let bytes = fs::read(file).map_err(|error| refused(format!("cannot be read: {error}")))?;
    let records = read_result(&bytes).and_then(records).map_err(refused)?;
    if let Some(strange) = records.iter().find(|record| !record.contains_key("request_throughput")) {
        let keys: Vec<&str> = strange.keys().take(5).map(String::as_str).collect();
        return Err(refused(format!(
            "is no result of guidellm, aiperf or `vllm bench serve` (it has {}...); run the program as bench.command with [bench.result]",
            keys.join(", ")
        )));
    }
    create_folder(to)?;
    let text = serde_json::to_string_pretty(&records).expect("figures are JSON");
    write_atomic(&to.join(SUMMARY), text.as_bytes())?;
    say(format_args!(
        "wrote {} to {}; `vsweep plot {}` draws them",
        show_many(records.len() as u64, "result"),
        to.display(),
        to.display()
    ));
    Ok(Exit::Done)
}
