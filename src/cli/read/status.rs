//! `vsweep status`: shows the done, failed and remaining work of an experiment, from the plan and the journals in its directory.

use crate::agenda::Schedule;
use crate::cli::experiment::{exit_of, named_or_newest, options, read_plan};
use crate::cli::forecast::{is_playable, options_at, seconds_left};
use crate::cli::output::{self, OutputFormat};
use crate::cli::sweep::run::{settle_gpus, settle_margins};
use crate::cluster::{self, slurm};
use crate::error::{Error, Exit, Result};
use crate::journal::{self, Check, Directory, Shard, State};
use crate::matrix::Matrix;
use crate::plan::{Plan, ReportOptions};
use crate::rehearse::Options;
use crate::report::SweepUsage;
use crate::report::texts::status::{Cluster, Orphan, Status, Worker};
use crate::report::texts::terminal::show;
use crate::run::{LeaseContent, leases_in_use};
use crate::server::process::orphans::Remains;
use console::Term;
use itertools::Itertools;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Time between two updates of `--watch`.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// Time between two queries of a cluster's scheduler, which all its users share.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(30);

/// Show what is done, failed and left of an experiment
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote [default: the newest below results/]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
    /// Show it again every two seconds, as long as a vsweep works on the directory or a task waits
    #[arg(long, conflicts_with = "format")]
    watch: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let directory = Directory::open(named_or_newest(args.directory)?)?;
    let mut known = PlanCache::default();
    let (mut status, state) = read(&directory, &mut known)?;
    status.cluster = in_cluster(&directory)?;
    if args.watch {
        drop(state);
        status = watch(&directory, status, &mut known)?;
    } else {
        // The record is not freed, because the process is about to end, and freeing takes a tenth of the time to read a large record.
        std::mem::forget(state);
    }
    args.format.print(|| status.to_text(), || &status)?;
    Ok(exit_of(&status.damage))
}

fn read(directory: &Directory, known: &mut PlanCache) -> Result<(Status, State)> {
    let state = journal::load(directory, Check::Lengths)?;
    let mut status = Status::now(directory, &state)?;
    let price = known.options(directory, &state, None).price_per_gpu_hour;
    // The report may have been made with another price than the plan's.
    let of_answer = status.answer.as_ref().and_then(|answer| answer.price_per_gpu_hour);
    status.usage = SweepUsage::of(&state, of_answer.or(price));
    let leases = leases_in_use(directory);
    // A worker of a single start ends with `finished`, too, and finals may follow.
    if status.left > 0 || status.starts > 1 || status.ended.as_deref() != Some("finished") {
        let work = known.work(directory, &state);
        // Finals follow from the results, and the journal does not show how many runs they need.
        let more = work
            .as_ref()
            .filter(|_| status.started.is_none())
            .map_or(0, |work| work.schedule().runs_of_finals(&state));
        (status.planned, status.left) = (status.planned + more, status.left + more);
        status.has_work = work.as_ref().map(|work| work.schedule().has_work(&state));
        let running = status.running.len();
        status.seconds_left = work.and_then(|work| work.seconds_left(&state, running, &leases));
    }
    let workers = leases.into_iter();
    status.workers = workers
        .map(|(group, sign)| Worker {
            host: sign.host,
            group,
            owner: sign.owner,
        })
        .collect();
    let orphans = Remains::of(&status.vsweeps).orphans.into_iter();
    let orphans = orphans.map(|orphan| Orphan {
        pid: orphan.pid,
        program: orphan.program,
    });
    status.orphans = orphans.collect();
    Ok((status, state))
}

/// Parts of an experiment that are read once for each plan, while its status is read repeatedly.
#[derive(Default)]
pub struct PlanCache {
    /// Hash of the plan.
    plan: Option<String>,
    work: Option<WorkForecast>,
    report: Option<ReportOptions>,
}

impl PlanCache {
    /// Returns the report options of the plan that counts. If it is another plan, forgets the work of the previous one.
    pub fn options(&mut self, directory: &Directory, state: &State, price: Option<f64>) -> &ReportOptions {
        let plan = state.plan_that_counts().map(|(_, sha256, _)| sha256.to_owned());
        if self.plan != plan {
            (self.plan, self.work, self.report) = (plan, None, None);
        }
        self.report.get_or_insert_with(|| options(directory, state, price))
    }

    /// Returns the remaining work, from which the time left is predicted.
    pub fn work(&mut self, directory: &Directory, state: &State) -> Option<&mut WorkForecast> {
        self.work = self.work.take().or_else(|| WorkForecast::of(directory, state));
        self.work.as_mut()
    }
}

/// The remaining work of an experiment, predicted repeatedly from its directory.
pub struct WorkForecast {
    plan: Plan,
    matrix: Matrix,
    options: Options,
}

impl WorkForecast {
    /// Returns the remaining work of the current plan of a directory; `None` if the plan is too large to be played or cannot be read here.
    pub fn of(directory: &Directory, state: &State) -> Option<WorkForecast> {
        let planned = state.planning_session()?;
        if !is_playable(planned.runs, planned.searches, planned.servers) {
            return None;
        }
        let read = read_plan(
            directory,
            state,
            |plan| {
                settle_margins(plan, directory, true);
                settle_gpus(plan, directory, |known, _| known);
            },
            |_| Error::Reported,
        );
        let (plan, matrix) = read.ok()?;
        Some(WorkForecast {
            options: options_at(&plan, &matrix, directory),
            plan,
            matrix,
        })
    }

    /// Returns the likely duration of the remaining work, in seconds; `None` if it is unknown. The work is divided evenly among `running`
    /// sweeps or shards and the workers that hold these leases.
    pub fn seconds_left(
        &mut self,
        state: &State,
        running: usize,
        leases: &BTreeMap<String, LeaseContent>,
    ) -> Option<f64> {
        let at_work = running + leases.values().map(|lease| &lease.owner).unique().count();
        self.options.at_work = at_work > 0;
        let seconds = seconds_left(self.schedule(), state, &self.options)?;
        Some(seconds / at_work.max(1) as f64)
    }

    fn schedule(&self) -> Schedule<'_> {
        Schedule::new(&self.plan, &self.matrix, Shard::WHOLE, false)
    }
}

/// Shows the status until no session works on the directory and no task waits, or the output is closed. Returns the last status, which is
/// not shown yet.
fn watch(directory: &Directory, mut status: Status, known: &mut PlanCache) -> Result<Status> {
    let screen = Term::stdout();
    let mut asked = Instant::now();
    while status.is_at_work() {
        let text = status.to_text();
        let shown = match screen.is_term() {
            true => screen.write_str(&top(&text, &screen)),
            // Elsewhere, each status follows the previous one.
            false => output::text().write_all(text.as_bytes()),
        };
        thread::sleep(BETWEEN_LOOKS);
        let cleared = match screen.is_term() {
            true => screen.clear_last_lines(top(&text, &screen).lines().count()),
            false => Ok(()),
        };
        if shown.and(cleared).is_err() {
            break;
        }
        let mut cluster = status.cluster;
        if asked.elapsed() >= BETWEEN_QUESTIONS {
            asked = Instant::now();
            cluster = in_cluster(directory)?;
        }
        (status, _) = read(directory, known)?;
        status.cluster = cluster;
    }
    Ok(status)
}

/// Returns the lines of a text that fit on the terminal at once, because lines that scrolled off it cannot be cleared.
fn top(text: &str, screen: &Term) -> String {
    let rows = usize::from(screen.size().0).saturating_sub(1).max(1);
    let lines = show(text, screen);
    lines.lines().take(rows).map(|line| format!("{line}\n")).collect()
}

/// Returns Slurm's report about the submitted tasks, if there are any.
fn in_cluster(directory: &Directory) -> Result<Option<Cluster>> {
    let arrays = cluster::submissions(directory)?;
    let jobs = || {
        let queue = slurm::queue(&arrays);
        Cluster {
            unknown: queue.as_ref().err().map(ToString::to_string),
            tasks: cluster::latest(queue.unwrap_or_default()),
        }
    };
    Ok((!arrays.is_empty()).then(jobs))
}
