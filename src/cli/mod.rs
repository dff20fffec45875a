//! The command line, with one short file for each subcommand. Only the simulator parses the arguments of its servers itself. Each
//! subcommand calls rooms of lower layers and ends in an [`Exit`].

/// Sweeps on several machines.
mod cluster {
    pub mod submit;
    pub mod worker;
}
/// Conversion between vsweep and other formats.
mod convert {
    pub mod export;
    pub mod import;
    pub mod schema;
}
mod experiment;
mod flags;
mod forecast;
mod help;
mod machine;
/// Benchmarks of one server, and the simulated server.
mod one_server {
    pub mod bench;
    pub mod guard;
    pub mod iterations;
    pub mod phases;
    pub mod sim;
    pub mod sweeping;
}
mod output;
mod plan_file;
/// Reading the results of sweeps.
mod read {
    pub mod charts;
    pub mod compare;
    pub mod live;
    pub mod pareto;
    pub mod plot;
    pub mod report;
    pub mod status;
    pub mod verify;
}
mod results;
/// Making, checking and running plans.
mod sweep {
    pub mod check;
    pub mod init;
    pub mod plan;
    pub mod run;
}

use crate::error::{Error, Exit, Result};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cluster::{submit, worker};
use convert::{export, import, schema};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use one_server::{bench, guard, sim};
use read::{compare, plot, report, status, verify};
use std::ffi::OsString;
use std::process::ExitCode;
use std::thread::{Builder, JoinHandle};
use sweep::{check, init, plan, run};

/// Finds which server settings under which load meet your targets best.
#[derive(Debug, Parser)]
#[command(name = "vsweep", version = env!("VSWEEP_VERSION"), max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print only errors and requested output
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Run(run::Args),
    Check(check::Args),
    Plan(plan::Args),
    Submit(submit::Args),
    Worker(worker::Args),
    Status(status::Args),
    Report(report::Args),
    Verify(verify::Args),
    Compare(compare::Args),
    Plot(plot::Args),
    Bench(bench::Args),
    /// Serve a simulated model that behaves like vllm serve
    #[command(subcommand)]
    Sim(sim::Command),
    Import(import::Args),
    Export(export::Args),
    Schema(schema::Args),
    #[command(hide = true)]
    Guard(guard::Args),
}

/// All commands with their options, for completions and manual pages.
pub fn command() -> clap::Command {
    help::arrange(Cli::command())
}

/// Parses the arguments, runs the subcommand, and returns its exit code.
pub fn main() -> ExitCode {
    block_file_size_signal();
    if raise_stack_limit() {
        return begin();
    }
    let thread = Builder::new().stack_size(LEAST_STACK as usize).spawn(begin);
    match thread.map(JoinHandle::join) {
        Ok(ended) => ended.unwrap_or(ExitCode::FAILURE),
        Err(_) => begin(),
    }
}

fn begin() -> ExitCode {
    let matches = command().try_get_matches_from(words());
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => end(perform(cli.command, cli.quiet).and_then(|exit| match exit {
            Exit::Interrupted => Ok(exit),
            _ => output::all_said().map(|()| exit),
        })),
        Err(asked) if asked.use_stderr() => {
            let _ = asked.print();
            Exit::Usage.into()
        }
        Err(help) => end(output::finish(help.print())),
    }
}

/// Returns the command line with dashes in its flags. The words for another program are unchanged.
fn words() -> impl Iterator<Item = OsString> {
    let mut is_ours = true;
    std::env::args_os().map(move |word| {
        is_ours &= !["--", "sim", "guard"].iter().any(|other| word == *other);
        let ours = word.to_str().filter(|_| is_ours).map(flags::dashed);
        ours.map_or(word, OsString::from)
    })
}

fn end(ended: Result<Exit>) -> ExitCode {
    ended
        .unwrap_or_else(|error| {
            if !matches!(error, Error::Reported) {
                output::print_note(&error);
            }
            error.exit()
        })
        .into()
}

/// Blocks SIGXFSZ for this thread and all later ones. A file that exceeds the size limit (`ulimit -f`) is then an error of the write, and
/// does not end the process. Programs under a guard do not inherit this.
fn block_file_size_signal() {
    let signals: SigSet = [Signal::SIGXFSZ].into_iter().collect();
    // If this fails, the signal ends the process.
    let _ = signals.thread_block();
}

/// Least size of the stack of the first thread (`ulimit -s`), in bytes. A smaller one could overflow.
const LEAST_STACK: u64 = 8 << 20;

/// Raises the limit of the stack if it is too low; the stack grows while the process runs. Returns false if the limit cannot be raised
/// enough.
fn raise_stack_limit() -> bool {
    match getrlimit(Resource::RLIMIT_STACK) {
        Ok((soft, hard)) if soft < LEAST_STACK => {
            hard >= LEAST_STACK && setrlimit(Resource::RLIMIT_STACK, LEAST_STACK, hard).is_ok()
        }
        _ => true,
    }
}

fn perform(command: Command, quiet: bool) -> Result<Exit> {
    if quiet {
        output::be_quiet();
    }
    match command {
        Command::Init(args) => init::run(args),
        Command::Run(args) => machine::check().and_then(|()| run::run(args)),
        Command::Check(args) => check::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Submit(args) => machine::check_clock().and_then(|()| submit::run(args)),
        Command::Worker(args) => machine::check().and_then(|()| worker::run(args)),
        Command::Status(args) => status::run(args),
        Command::Report(args) => report::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Bench(args) => machine::check().and_then(|()| bench::run(args)),
        Command::Sim(command) => sim::run(command),
        Command::Import(args) => machine::check_clock().and_then(|()| import::run(args)),
        Command::Export(args) => export::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Guard(args) => guard::run(args),
    }
}
