//! `vsweep schema`: the JSON Schema of the plan format.

use super::output;
use crate::bench;
use crate::error::{Exit, Result};
use crate::plan::{reference, schema};
use clap::ValueEnum;
use std::io::{Write, stdout};

/// Print the JSON Schema of the plan format
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to write it; markdown makes docs/plan.md, parameters docs/parameters.md
    #[arg(long, value_enum, default_value_t = Format::Json, hide = true)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
    Markdown,
    Parameters,
}

pub fn run(args: Args) -> Result<Exit> {
    let text = match args.format {
        Format::Json => schema::json_text(),
        Format::Markdown => reference::markdown(),
        Format::Parameters => bench::reference(),
    };
    output::finish(stdout().write_all(text.as_bytes()))
}
