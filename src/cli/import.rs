//! `vsweep import`: what was begun with `vllm bench sweep`, to go on with vsweep: its command lines as plans.

mod sweep_command;

use super::output::{finish, tell, tell_plain};
use super::plan_file::show;
use crate::error::{Error, Exit, Result};
use crate::files::write_atomic;
use crate::import::import;
use std::io::Write;
use std::path::PathBuf;

/// Make a plan of a `vllm bench sweep` command line
///
/// `vsweep import -o plan.toml -- vllm bench sweep serve --serve-cmd '...' --bench-cmd '...' ...` reads the command line and
/// its JSON files, and writes the plan that starts the same servers and sends the same loads. What differs, or has no key,
/// stands in comments at the top of the plan and on standard error.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write the plan; standard output, if not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The command line, after --: vllm bench sweep serve | serve_workload | serve_sla ...
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: Args) -> Result<Exit> {
    if let Some(path) = args.output.as_deref().filter(|path| path.exists()) {
        return Err(Error::Usage(format!(
            "{} is there already; remove it, or choose another file with -o",
            path.display()
        )));
    }
    let sweep = sweep_command::read(&args.command)?;
    let imported = match import(&sweep, &|path| std::fs::read_to_string(path)) {
        Ok(imported) => imported,
        Err(problems) => return Ok(show(problems)),
    };
    let done = match &args.output {
        Some(path) => write_atomic(path, imported.text.as_bytes()).map(|()| Exit::Done)?,
        None => finish(super::output::json().write_all(imported.text.as_bytes()))?,
    };
    for note in &imported.notes {
        tell_plain(format_args!("note: {note}"));
    }
    if let Some(path) = &args.output {
        tell(format_args!(
            "wrote {}; `vsweep plan` shows what it comes to",
            path.display()
        ));
    }
    Ok(done)
}
