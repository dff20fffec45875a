//! `vsweep submit`: records a plan for workers, which take its server starts from the directory.

use super::experiment::{folder, recorded};
use super::output;
use super::plan_file::PlanFile;
use super::run::{keep_defaults, write_plan};
use crate::error::{Error, Exit, Result};
use crate::journal::{Directory, Recorder, Shard, State};
use crate::matrix::Matrix;
use crate::plan::{Plan, Target};
use crate::run::{Changes, Forecasts, Lengths, Sweep};
use crate::units::show_many;
use std::path::{PathBuf, absolute};

/// Record a plan for workers
///
/// The workers, `vsweep worker DIR`, take it from the directory: start as many as you like, by ssh or by whatever starts processes.
/// Submitting again records an edited plan; what is measured is kept.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PlanFile,
    /// Where results go; every worker must see it [default: results/<plan name>]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<Exit> {
    let adapt = |plan: &mut Plan| {
        keep_defaults(plan, &Directory::at(folder(args.output.as_deref(), plan)));
    };
    let (mut plan, matrix) = match args.file.open_as(adapt) {
        Ok(opened) => opened,
        Err(exit) => return Ok(exit),
    };
    // Workers find what the plan names beside it, wherever they start.
    plan.path = absolute(&plan.path).unwrap_or(plan.path);
    refuse(&plan)?;
    let directory = Directory::at(folder(args.output.as_deref(), &plan));
    if !directory.is_ours() {
        let path = directory.root().display();
        return Err(Error::Usage(format!(
            "{path} holds files that are no experiment; choose another directory with -o"
        )));
    }
    let state = record(&plan, &matrix, &directory)?;
    let left = sweep(&plan, &matrix).left(&state).len() as u64;
    let root = directory.root().display();
    output::say(match left {
        0 => format!("nothing is left to do in {root}"),
        left => format!(
            "{} to be taken from {root}; start workers with: vsweep worker {root}",
            show_many(left, "server start")
        ),
    });
    Ok(Exit::Done)
}

/// Refuses plans that no worker could go on with.
fn refuse(plan: &Plan) -> Result<()> {
    if matches!(plan.serve.target, Target::Attach(_)) {
        let why = "a server behind `url` is one, and workers could only wait for each other; use `vsweep run`";
        return Err(Error::Usage(why.to_owned()));
    }
    if plan.redacted_text() != plan.text {
        let why = "a secret is written in the plan, and secrets are not recorded, so no worker would know it; write it as ${NAME} and \
                   set that variable where the workers run";
        return Err(Error::Usage(why.to_owned()));
    }
    Ok(())
}

fn sweep<'a>(plan: &'a Plan, matrix: &'a Matrix) -> Sweep<'a> {
    const NO_FORECASTS: &Forecasts = &Forecasts::new();
    const NO_LENGTHS: &Lengths = &Lengths::new();
    Sweep {
        plan,
        whole: matrix,
        wanted: matrix,
        shard: Shard::WHOLE,
        retry_failed: false,
        forecasts: NO_FORECASTS,
        node: None,
        lengths: NO_LENGTHS,
        share: None,
    }
}

/// Records the plan, unless it is the one that counts already; what the directory says then.
fn record(plan: &Plan, matrix: &Matrix, directory: &Directory) -> Result<State> {
    let before = recorded(directory)?;
    let changes = Changes::between(&before, matrix, plan);
    if let Some(other) = changes.foreign(&before) {
        return Err(Error::Usage(format!(
            "{} holds the results of another plan, {other}, and nothing of them is in this one; choose another directory with -o",
            directory.root().display()
        )));
    }
    let mut recorder = Recorder::join(directory.clone())?;
    recorder.hide(plan.secrets.clone());
    write_plan(plan, directory)?;
    for note in changes.notes() {
        output::tell(note);
    }
    super::machine::runtime()?.block_on(sweep(plan, matrix).declare(changes, &mut recorder))?;
    Ok(recorder.state().clone())
}
