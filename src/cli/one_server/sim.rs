//! `vsweep sim`: the simulated server.

use crate::cli::{machine, output};
use crate::error::{Error, Exit, Result};
use crate::sim::child::{self, Role};
use crate::sim::{gpus, process};
use std::io::{Write, stdout};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Start a server: MODEL and flags as in vllm serve, and the simulator's own, which begin with --sim-
    #[command(disable_help_flag = true)]
    Serve {
        /// MODEL and flags, read as vllm serve reads them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Answer as nvidia-smi would, about the GPU memory that simulated servers hold (folder: VSWEEP_SIM_GPUS)
    NvidiaSmi {
        /// Queries as nvidia-smi takes them: --query-gpu=… and --query-compute-apps=…
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Be the engine process of a server (internal)
    #[command(hide = true)]
    Engine {
        /// Leave the session of the parent and outlive it
        #[arg(long)]
        stray: bool,
    },
}

pub fn run(command: Command) -> Result<Exit> {
    match command {
        Command::Serve { args } => match machine::check_clock().map(|()| process::serve(&args))? {
            0 => Ok(Exit::Done),
            // A simulated server ends as vLLM would, not with vsweep's codes.
            code => std::process::exit(code.into()),
        },
        Command::NvidiaSmi { args } => {
            let folder = std::env::var_os("VSWEEP_SIM_GPUS").ok_or_else(|| {
                Error::Usage("no simulated GPUs: set VSWEEP_SIM_GPUS to the folder of their notes".into())
            })?;
            let text = gpus::smi(folder.as_ref(), &args)
                .ok_or_else(|| Error::Usage("nothing is asked: use --query-gpu=… or --query-compute-apps=…".into()))?;
            output::finish(stdout().write_all(text.as_bytes()))
        }
        Command::Engine { stray } => {
            let role = if stray { Role::Stray } else { Role::Engine };
            child::live(role).map_err(|error| Error::Fatal(format!("the engine process cannot go on: {error}")))?;
            Ok(Exit::Done)
        }
    }
}
