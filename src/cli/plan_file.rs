//! The arguments of every subcommand that takes a plan, and how its problems are shown.

use super::output::tell_styled;
use super::{native_check, report_check, server_check, server_flags};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::plan::{self, Diagnostics, Draft, Plan, Problems};
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

/// A plan and what is changed in it.
#[derive(Debug, clap::Args)]
pub struct PlanFile {
    /// Plan to read: TOML, or JSON if it ends in .json; - is standard input
    pub plan: PathBuf,
    /// Change a key of the plan, e.g. --set serve.params.max_num_seqs=[8,64] (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
}

impl PlanFile {
    /// Reads and expands the plan, whose defaults may depend on where its results are. All its problems go to standard error. So do
    /// warnings, which end nothing; whether there were any comes last.
    pub fn open(&self, adapt: impl FnOnce(&mut Plan)) -> Result<(Plan, Matrix, bool)> {
        let read = self.read(adapt).map_err(Objections::show)?;
        let is_doubtful = read.warnings.is_some();
        read.warnings.map(show);
        Ok((read.plan, read.matrix, is_doubtful))
    }

    /// The same with nothing said.
    pub fn read(&self, adapt: impl FnOnce(&mut Plan)) -> Result<CheckedPlan, Objections> {
        let mut draft = plan::draft(&self.plan, &self.overrides)?;
        adapt(&mut draft.plan);
        examine(draft)
    }
}

/// A plan that can be used, and what it expands to.
pub struct CheckedPlan {
    pub plan: Plan,
    pub matrix: Matrix,
    /// What would not give what the user wants.
    pub warnings: Option<Problems>,
}

/// Checks and expands a plan that was read.
pub fn examine(draft: Draft) -> Result<CheckedPlan, Objections> {
    let Draft { plan, mut found } = draft;
    let matrix = Matrix::draft(&plan, &mut found);
    if let Some(matrix) = &matrix {
        server_check::check(&plan, matrix, &mut found);
        server_flags::check(&plan, matrix, &mut found);
        native_check::check(&plan, matrix, &mut found);
        report_check::check(&plan, matrix, &mut found);
    }
    let warnings = found.warnings(&plan.origin.sources, &plan.secrets);
    match matrix {
        Some(matrix) if found.is_empty() => Ok(CheckedPlan { plan, matrix, warnings }),
        _ => Err(Objections {
            errors: found.into_problems(&plan.origin.sources, &plan.secrets),
            warnings,
        }),
    }
}

/// All that stands against a plan that cannot be used.
#[derive(Debug)]
pub struct Objections {
    /// Why it cannot.
    pub errors: Problems,
    /// What would not give what the user wants if it could.
    pub warnings: Option<Problems>,
}

impl From<Problems> for Objections {
    fn from(errors: Problems) -> Objections {
        Objections { errors, warnings: None }
    }
}

impl Objections {
    /// Prints all of it.
    pub fn show(self) -> Error {
        self.warnings.map(show);
        show(self.errors)
    }
}

/// Ends the command, after it was told, if anything was found that is wrong with a plan.
pub fn refuse(plan: &Plan, found: Diagnostics) -> Result<()> {
    match found.is_empty() {
        true => Ok(()),
        false => Err(show(found.into_problems(&plan.origin.sources, &plan.secrets))),
    }
}

/// Prints the problems.
pub fn show(problems: Problems) -> Error {
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tell_styled(problems.render(colours));
    Error::Told
}
