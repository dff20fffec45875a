//! `vsweep export`: writes an experiment in the format of other tools.

use crate::cli::experiment::{Owner, print_damage};
use crate::cli::output::{make_folder, must_be_new, say};
use crate::error::{Error, Exit, Result};
use crate::journal::{self, Check, Directory};
use crate::report::write_vllm_tree;
use crate::units::show_many;
use std::path::PathBuf;

/// Write an experiment as a tree that vLLM's own tools read
///
/// The tree has a folder for each combination with run=N.json and summary.json, and summary.csv: `vllm bench sweep plot` and
/// `plot_pareto` draw it. Failed, invalid and cut runs become run=N.failure.json.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Whose tools are to read it: those of `vllm bench sweep serve`
    #[arg(long = "format", value_parser = ["vllm"])]
    _format: String,
    /// Folder to write; must not exist [default: DIR/vllm]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    #[command(flatten)]
    owner: Owner,
}

pub fn run(args: Args) -> Result<Exit> {
    let directory = Directory::open(&args.directory)?;
    let to = args.output.unwrap_or_else(|| directory.root().join("vllm"));
    must_be_new(&to)?;
    args.owner.check(&to)?;
    let state = journal::load(&directory, Check::Hashes)?;
    if state.runs().next().is_none() {
        return Err(Error::Usage(format!(
            "nothing is recorded in {} yet; run its plan first",
            args.directory.display()
        )));
    }
    let exported = make_folder(&to, |folder| write_vllm_tree(&directory, &state, folder))?;
    let failures = match exported.failures {
        0 => String::new(),
        failures => format!(", {} without figures", show_many(failures as u64, "run")),
    };
    let (runs, to) = (show_many(exported.runs as u64, "run"), to.display());
    say(format_args!(
        "wrote {to}: {runs}{failures}; draw it with `vllm bench sweep plot {to}`"
    ));
    let problems: Vec<String> = state.damage.iter().chain(&exported.damaged).cloned().collect();
    Ok(print_damage(&problems))
}
