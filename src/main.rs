//! The `vsweep` binary: reads the command line, runs one subcommand, and turns its outcome into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    vsweep::cli::main()
}
