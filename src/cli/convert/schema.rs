//! `vsweep schema`: the JSON Schema of the plan format.

use crate::bench;
use crate::cli::flags::one_of;
use crate::cli::output;
use crate::error::{Exit, Result};
use crate::plan::reference;
use std::io::{Write, stdout};

/// Print the JSON Schema of the plan format
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Format; markdown makes docs/plan.md, parameters docs/parameters.md
    #[arg(long, value_parser = one_of(FORMATS), default_value = "json", hide = true)]
    format: Writer,
}

type Writer = fn() -> String;

const FORMATS: [(&str, Writer); 3] = [
    ("json", reference::json_text),
    ("markdown", reference::markdown),
    ("parameters", bench::reference),
];

pub fn run(args: Args) -> Result<Exit> {
    output::finish(stdout().write_all((args.format)().as_bytes()))
}
