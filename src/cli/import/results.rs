//! A result of another client as a file that `vsweep plot` and `pareto` read.

use super::super::output::say;
use super::super::results;
use crate::error::{Error, Exit, Result};
use crate::files::{create_folder, write_atomic};
use crate::report;
use crate::units::show_many;
use std::path::Path;

/// What `vllm bench sweep` calls the results of one load.
const SUMMARY: &str = "summary.json";

/// Writes the benchmarks of the result as the runs of one load.
pub fn import(file: &Path, to: &Path) -> Result<Exit> {
    let records = results::records(file)?;
    report::read_records(vec![(file.display().to_string(), records.clone())]).map_err(Error::Usage)?;
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
