//! `vsweep status`: what is done, failed and left.

use super::output::{self, Format, finish};
use super::remaining::Remaining;
use crate::cluster::{self, slurm};
use crate::error::{Exit, Result};
use crate::journal::{self, Check, Directory};
use crate::report::status::{Cluster, Orphan, Status, Task, Worker};
use crate::report::terminal::show;
use crate::run::signs;
use crate::server::trees::{self, Remains};
use console::Term;
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks of `--watch`.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// Time between two questions to a scheduler, whose time is everybody's.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(30);

/// Show what is done, failed and left in an experiment directory
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote, such as results/demo
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// How the state is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Show it again every two seconds, as long as a vsweep works on the directory or a task waits
    #[arg(long, conflicts_with = "format")]
    watch: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let directory = Directory::open(args.directory)?;
    let mut rest = None;
    let mut status = read(&directory, &mut rest)?;
    status.cluster = in_cluster(&directory)?;
    if args.watch {
        status = watch(&directory, status, &mut rest)?;
    }
    finish(match args.format {
        Format::Text => output::text().write_all(status.to_text().as_bytes()),
        Format::Json => {
            let json = serde_json::to_string_pretty(&status).expect("plain data always serialises");
            writeln!(output::json(), "{json}")
        }
    })?;
    Ok(match status.damage.is_empty() {
        true => Exit::Done,
        false => Exit::SomeFailed,
    })
}

fn read(directory: &Directory, rest: &mut Option<Remaining>) -> Result<Status> {
    let state = journal::load(directory, Check::Lengths)?;
    let mut status = Status::now(directory, &state)?;
    if status.left > 0 {
        *rest = rest.take().or_else(|| Remaining::of(directory, &state));
        let at_work = !status.running.is_empty();
        status.seconds_left = rest.as_mut().and_then(|rest| rest.seconds_left(&state, at_work));
    }
    let workers = signs(directory).into_iter();
    status.workers = workers.map(|(group, sign)| Worker { host: sign.host, group }).collect();
    status.orphans = Remains::of(&status.killed).orphans.into_iter().map(told).collect();
    Ok(status)
}

/// Shows how the directory stands until nobody works on it any more, or nobody reads on; the last of it is left to be shown.
fn watch(directory: &Directory, mut status: Status, rest: &mut Option<Remaining>) -> Result<Status> {
    let screen = Term::stdout();
    let mut asked = Instant::now();
    while status.is_at_work() {
        let text = status.to_text();
        let shown = output::text().write_all(text.as_bytes());
        thread::sleep(BETWEEN_LOOKS);
        // What is no terminal keeps what was shown before.
        let cleared = screen
            .is_term()
            .then(|| screen.clear_last_lines(show(&text, &screen).lines().count()));
        if shown.and(cleared.unwrap_or(Ok(()))).is_err() {
            break;
        }
        let cluster = match asked.elapsed() < BETWEEN_QUESTIONS {
            true => status.cluster,
            false => {
                asked = Instant::now();
                in_cluster(directory)?
            }
        };
        status = read(directory, rest)?;
        status.cluster = cluster;
    }
    Ok(status)
}

/// What Slurm says of the tasks that were handed to it, if any were.
fn in_cluster(directory: &Directory) -> Result<Option<Cluster>> {
    let arrays = cluster::handed_over(directory)?;
    if arrays.is_empty() {
        return Ok(None);
    }
    let mut told = Cluster::default();
    match slurm::queue(&arrays) {
        Ok(tasks) => told.tasks = cluster::latest(tasks).into_iter().map(task).collect(),
        Err(why) => told.unknown = Some(why.to_string()),
    }
    Ok(Some(told))
}

fn task(task: cluster::Task) -> Task {
    let waits = task.is_live.then(|| slurm::remedy(&task.reason)).flatten();
    let cluster::Task {
        job,
        group,
        state,
        is_live,
        reason,
        node,
    } = task;
    Task {
        job,
        group,
        state,
        is_live,
        reason,
        node,
        remedy: waits,
    }
}

fn told(orphan: trees::Orphan) -> Orphan {
    let trees::Orphan { pid, program, .. } = orphan;
    Orphan { pid, program }
}
