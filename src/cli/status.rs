//! `vsweep status`: what is done, failed and left.

use super::output::{self, finish};
use crate::error::{Exit, Result};
use crate::journal::Directory;
use crate::report::status::{Orphan, Status};
use crate::server::trees::{self, Remains};
use std::io::Write;
use std::path::PathBuf;

/// Show what is done, failed and left in an experiment directory
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote, such as results/demo
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// How the state is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A few lines for people
    Text,
    /// One JSON object
    Json,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut status = Status::read(&Directory::open(args.directory)?)?;
    status.orphans = Remains::of(&status.killed).orphans.into_iter().map(told).collect();
    finish(match args.format {
        Format::Text => output::text().write_all(status.to_text().as_bytes()),
        Format::Json => {
            let json = serde_json::to_string_pretty(&status).expect("plain data always serialises");
            writeln!(output::json(), "{json}")
        }
    })?;
    Ok(match status.damage.is_empty() {
        true => Exit::Done,
        false => Exit::SomeFailed,
    })
}

fn told(orphan: trees::Orphan) -> Orphan {
    let trees::Orphan { pid, program, .. } = orphan;
    Orphan { pid, program }
}
