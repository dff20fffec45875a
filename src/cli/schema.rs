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
    #[arg(long, value_enum, default_value_t = SchemaFormat::Json, hide = true)]
    format: SchemaFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SchemaFormat {
    Json,
    Markdown,
    Parameters,
}

pub fn run(args: Args) -> Result<Exit> {
    let text = match args.format {
        SchemaFormat::Json => schema::json_text(),
        SchemaFormat::Markdown => reference::markdown(),
        SchemaFormat::Parameters => bench::reference(),
    };
    output::finish(stdout().write_all(text.as_bytes()))
}
