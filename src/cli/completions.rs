//! `vsweep completions`: what a package puts beside the binary, for shells and for `man`.

use super::output;
use crate::error::{Error, Exit, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Print shell completions, or write manual pages
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell to complete for, or `man`
    #[arg(value_parser = ["bash", "elvish", "fish", MAN, "powershell", "zsh"])]
    target: String,
    /// Folder for the manual pages, one for each command; it must exist
    #[arg(required_if_eq("target", MAN))]
    folder: Option<PathBuf>,
}

const MAN: &str = "man";

pub fn run(args: Args) -> Result<Exit> {
    let Ok(shell) = args.target.parse::<Shell>() else {
        let folder = args.folder.unwrap_or_default();
        let written = clap_mangen::generate_to(super::Cli::command(), &folder);
        return written
            .map(|()| Exit::Done)
            .map_err(Error::io("write manual pages to", &folder));
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::Cli::command(), "vsweep", &mut script);
    output::finish(stdout().write_all(&script))
}
