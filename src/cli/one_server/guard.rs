//! `vsweep guard`: the process that owns a server's process tree. With `--lead-for` it is the leader of that tree, just before it becomes the
//! server.

use crate::cli::output::print_note;
use crate::error::{Error, Exit, Result};
use crate::server::cpus::Cpus;
use crate::server::process::guard;
use std::ffi::OsString;
use std::time::Duration;

/// Own a process tree and end it when the owner dies (internal)
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Milliseconds from TERM to KILL
    #[arg(long, default_value_t = 30_000)]
    grace_ms: u64,
    /// Keep to these CPUs, e.g. 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<Cpus>,
    /// Allow this many open files
    #[arg(long, value_name = "COUNT")]
    open_files: Option<u64>,
    /// Read the command that ends what the tree started elsewhere from standard input: a line of JSON, a list of words
    #[arg(long)]
    stop: bool,
    /// Become the leader of the tree that this guard owns
    #[arg(long, value_name = "PID")]
    lead_for: Option<i32>,
    /// Program and arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub fn run(args: Args) -> Result<Exit> {
    if let Some(guard) = args.lead_for {
        let error = guard::lead(guard, &args.command);
        print_note(format_args!("cannot execute {}: {error}", args.command[0].display()));
        std::process::exit(guard::NOT_EXECUTED);
    }
    let grace = Duration::from_millis(args.grace_ms);
    guard::own_tree(&args.command, grace, args.cpus.as_ref(), args.open_files, args.stop)
        .map_err(|error| Error::Fatal(format!("the guard cannot run: {error}")))?;
    Ok(Exit::Done)
}
