//! The arguments of the subcommands that take one plan, and the output of the problems of a plan.

use super::output::{inform, print_styled};
use crate::error::{Error, Result};
use crate::lint::{self, CheckedPlan, Objections, SlowChecks};
use crate::matrix::Matrix;
use crate::plan::{self, Diagnostics, Plan, Problems};
use crate::units::parse_duration;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

/// A plan and what is changed in it.
#[derive(Debug, clap::Args)]
pub struct PlanFile {
    /// Plan to read: TOML, or JSON if it ends in .json; - is standard input
    pub plan: PathBuf,
    /// Change a key of the plan, e.g. --set serve.params.max_num_seqs=[8,64] (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// Begin nothing after this much time of work, such as 6h, and start the most promising servers first; earlier sessions that did so count
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub budget: Option<String>,
}

impl PlanFile {
    /// Reads and expands the plan. `adapt` sets defaults that depend on the place of its results. All problems and warnings are printed on
    /// standard error. Warnings are not an error; the last value is true if there were any.
    pub fn open(&self, adapt: impl FnOnce(&mut Plan)) -> Result<(Plan, Matrix, bool)> {
        let read = self.read(SlowChecks::InDoubt, adapt).map_err(show_all)?;
        let is_doubtful = read.warnings.is_some();
        read.warnings.map(show);
        Ok((read.plan, read.matrix, is_doubtful))
    }

    /// Like [`open`](Self::open), but returns the problems and warnings instead of printing them.
    pub fn read(&self, slow: SlowChecks, adapt: impl FnOnce(&mut Plan)) -> Result<CheckedPlan, Objections> {
        let mut draft = plan::draft(&self.plan, &self.overrides, self.budget.as_deref())?;
        adapt(&mut draft.plan);
        lint::examine(draft, slow, asking)
    }
}

/// Checks that a text is a duration, and returns the text unchanged.
fn time(text: &str) -> Result<String, String> {
    parse_duration(text).map(|_| text.to_owned())
}

/// Prints a note that a program is asked for its flags, unless `--quiet` is given.
pub fn asking(program: &Path) {
    let program = program.display();
    inform(format_args!(
        "asking {program} for its flags, once for each installation; this takes a while"
    ));
}

/// Prints all problems of a plan, warnings first, and returns the error that ends the command.
pub fn show_all(objections: Objections) -> Error {
    if let Some(warnings) = objections.warnings {
        show(warnings);
        // As between two problems.
        print_styled("");
    }
    show(objections.errors)
}

/// Prints the problems of a plan, and returns an error if there are any.
pub fn refuse(plan: &Plan, found: Diagnostics) -> Result<()> {
    match found.is_empty() {
        true => Ok(()),
        false => Err(show(found.into_problems(&plan.origin.sources, &plan.secrets))),
    }
}

/// Prints problems, and returns the error that ends the command.
pub fn show(problems: Problems) -> Error {
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print_styled(problems.render(colours));
    Error::Reported
}
