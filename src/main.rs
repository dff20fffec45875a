//! The `vsweep` binary: reads the command line, runs one subcommand, and turns its outcome into an exit code.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// The record of a long sweep consists of many small objects that several threads read. The system's allocator needs a fifth more memory
/// for them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    vsweep::cli::main()
}
