//! The arguments of every subcommand that takes a plan, and how its problems are shown.

use super::native_check;
use crate::error::Exit;
use crate::matrix::Matrix;
use crate::plan::{self, Plan, Problems};
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

/// A plan and what is changed in it.
#[derive(Debug, clap::Args)]
pub struct PlanFile {
    /// Plan to read: TOML, or JSON if it ends in .json
    pub plan: PathBuf,
    /// Change a key of the plan, e.g. --set serve.params.max_num_seqs=[8,64] (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
}

impl PlanFile {
    /// Reads and expands the plan. All its problems go to standard error, and the exit code to end with comes back.
    pub fn open(&self) -> Result<(Plan, Matrix), Exit> {
        let plan = plan::load(&self.plan, &self.overrides).map_err(show)?;
        let matrix = Matrix::expand(&plan).map_err(show)?;
        native_check::check(&plan, &matrix).map_err(show)?;
        Ok((plan, matrix))
    }
}

fn show(problems: Problems) -> Exit {
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    eprintln!("{}", problems.render(colours));
    Exit::Usage
}
