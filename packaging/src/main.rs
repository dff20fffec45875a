//! The files of a package besides the binary: completions for shells, and a manual page for each command. A separate program, so that the
//! binary is built and shipped without it.

use clap::Parser;
use clap_complete::Shell;
use std::fs::create_dir_all;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write vsweep's completions and manual pages
#[derive(Debug, Parser)]
#[command(name = "vsweep-packaging")]
struct Args {
    /// Folder that gets `completions/` and `man1/`
    folder: PathBuf,
}

fn main() -> ExitCode {
    let folder = Args::parse().folder;
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let folder = folder.display();
            eprintln!("vsweep-packaging: cannot write to {folder}: {error}; choose a folder that can be written to");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let (completions, pages) = (folder.join("completions"), folder.join("man1"));
    create_dir_all(&completions)?;
    create_dir_all(&pages)?;
    for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut vsweep::cli::command(), "vsweep", &completions)?;
    }
    clap_mangen::generate_to(vsweep::cli::command(), &pages)
}
