//! `vsweep worker`: takes server starts of a submitted experiment, together with other workers, until none is left. Writes its own journal
//! and no tables.

use crate::agenda::Ending;
use crate::cli::experiment::{Owner, recorded_plan};
use crate::cli::output;
use crate::cli::sweep::run::{check_machine, find_node, gpus_here, leave, perform, settle_gpus, settle_margins};
use crate::error::{Error, Exit, Result};
use crate::journal::{Directory, Recorder, State};
use crate::report::progress::Mode;
use crate::run::{Changes, Interrupt, Leases, Share, Sweep, chosen_group, group_name, host};
use crate::units::show_many;
use std::path::PathBuf;

/// Work on a submitted experiment with other workers
///
/// `vsweep submit` records the plan. Start as many workers as you like, on every machine that sees the directory; each takes what no
/// other has, and ends when no server start is left. Tables and charts are made by `vsweep report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep submit` or `vsweep run` wrote, such as results/demo
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    owner: Owner,
    /// Take only this server start, such as 3f5a91c2d4e6b708-0; or `compare` or `optimize`: a whole comparison or optimisation
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Measure the failed runs of --group again
    #[arg(long, requires = "group")]
    retry_failed: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut interrupt = Interrupt::install_early(leave)?;
    let directory = Directory::open(args.directory)?;
    args.owner.check(directory.root())?;
    let mut recorder = Recorder::join(directory.clone())?;
    if recorder.state().plan_that_counts().is_none()
        && let Some(lost) = recorder.gaps().into_iter().next()
    {
        return Err(Error::Fatal(lost.text));
    }
    let (plan, matrix) = recorded_plan(&directory, recorder.state(), |plan| {
        settle_margins(plan, &directory, true);
        settle_gpus(plan, &directory, |known, plan| match args.group {
            // The start follows from the number that `vsweep submit` knew, and a cluster shows only a part of a node.
            Some(_) => known.or_else(|| gpus_here(plan)),
            None => known.max(gpus_here(plan)),
        });
    })?;
    let share = Share {
        leases: Leases::of(&directory, host()),
        group: args.group,
        gpus: gpus_here(&plan),
    };
    let node = find_node(&plan);
    let sweep = Sweep {
        retry_failed: args.retry_failed,
        node: node.as_ref(),
        share: Some(&share),
        ..Sweep::of(&plan, &matrix)
    };
    if !has_work(&sweep, &share, recorder.state())? {
        output::say(format_args!("nothing left to do in {}", directory.root().display()));
        return Ok(Exit::Done);
    }
    check_machine(&sweep, recorder.state())?;
    let root = directory.root().display();
    let left_to_larger = |state: &State| {
        let (free, held) = sweep.left_to_larger(&share, state);
        let seen = sweep.node.map(|node| node.capacity.gpus).or(share.gpus).unwrap_or(0);
        let seen = show_many(u64::from(seen), "GPU");
        let remedy = "start a worker where there are more";
        let free =
            (!free.is_empty()).then(|| format!("left in {root}, too large for {seen}: {}; {remedy}", free.join("; ")));
        let held = (!held.is_empty()).then(|| {
            format!(
                "another worker measures what is too large for {seen}: {}",
                held.join("; ")
            )
        });
        (free, held)
    };
    if !sweep.is_left_to(&share, recorder.state()) {
        match left_to_larger(recorder.state()) {
            (Some(left), _) => return Err(Error::Usage(left)),
            (None, Some(held)) => {
                output::say(held);
                return Ok(Exit::Done);
            }
            (None, None) => {}
        }
    }
    recorder.hide(plan.secrets.clone());
    let changes = Changes::between(recorder.state(), &matrix, &plan);
    let state = recorder.snapshot();
    let mode = if output::is_quiet() { Mode::Quiet } else { Mode::Auto };
    let ending = perform(sweep, &state, changes, &mut recorder, mode, &mut interrupt, None)?;
    let (why, exit) = match ending {
        Ending::Interrupted => (
            format!("interrupted; what is left in {root} is free for other workers"),
            Exit::Interrupted,
        ),
        Ending::OutOfTime => (
            format!("{root}: stopped at its time limit; submit its plan again with a larger max_time to continue"),
            Exit::Done,
        ),
        Ending::Superseded => (
            format!("stopped: another plan was submitted to {root}, which counts now; its own workers go on"),
            Exit::CannotGoOn,
        ),
        // A failed run is a row of the tables. The exit code is 0, so that a scheduler does not try the run again.
        Ending::StoppedOnFailure => (
            format!(
                "stopped at a failed run, as on_failure = \"stop\" asks; what is left in {root} is free for other workers"
            ),
            Exit::Done,
        ),
        Ending::NothingLeft | Ending::Finished => {
            let nothing = format!("nothing left to do; `vsweep report {root}` makes the tables");
            let (free, held) = left_to_larger(recorder.state());
            let left: Vec<String> = free.into_iter().chain(held).collect();
            output::say(if left.is_empty() { nothing } else { left.join("\n") });
            return Ok(Exit::Done);
        }
    };
    output::print_note(why);
    Ok(exit)
}

/// Returns true if any wanted work is left. Fails if the requested group is not in the plan.
fn has_work(sweep: &Sweep<'_>, share: &Share, state: &State) -> Result<bool> {
    let schedule = sweep.schedule();
    let chosen = chosen_group(sweep.plan);
    let group = share.group.as_deref();
    let Some(group) = group.filter(|group| Some(*group) != chosen) else {
        return Ok(schedule.has_work(state));
    };
    let mut starts = schedule.foreseen(state);
    match starts.find(|start| group_name(sweep.plan, start) == group) {
        Some(start) => Ok(schedule.has_group(&start, state)),
        None => Err(Error::Usage(format!(
            "the plan has no start {group}; `vsweep submit PLAN --dry-run` lists them; after editing a plan, submit it again"
        ))),
    }
}
