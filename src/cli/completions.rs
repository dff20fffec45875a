//! `vsweep completions`: shell completions.

use crate::error::{Exit, Result};
use clap::CommandFactory;
use clap_complete::Shell;

/// Print shell completions
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell to complete for
    shell: Shell,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "vsweep", &mut script);
    super::output::finish(std::io::Write::write_all(&mut std::io::stdout(), &script))
}
