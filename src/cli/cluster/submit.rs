//! `vsweep submit`: records a plan, so that workers can take its server starts from the directory. With `--slurm`, hands the starts to a
//! cluster.

use crate::cli::experiment::{Owner, folder, must_not_be_another, ours, recorded};
use crate::cli::output;
use crate::cli::plan_file::{self, PlanFile};
use crate::cli::sweep::run::{noise_of_neighbours, settle_gpus, settle_margins, write_plan};
use crate::cluster::{self, slurm};
use crate::error::{Error, Exit, Result};
use crate::journal::{Directory, Recorder, State};
use crate::lint;
use crate::matrix::{Matrix, ServerConfig};
use crate::plan::{Diagnostics, Parallel, Plan, Target};
use crate::run::{Changes, Sweep, demand};
use crate::selection::packed::Capacity;
use crate::shell::{shell_line, shell_word};
use crate::units::show_many;
use itertools::Itertools;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf, absolute};

/// Record a plan for workers, and hand it to a cluster
///
/// Workers (`vsweep worker DIR`) take server starts from the directory: start as many as you like, by ssh or by whatever starts
/// processes. --slurm starts one for each server start. Submitting again hands over what is missing and not under way; what is
/// measured is kept.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PlanFile,
    /// Directory of the results; every worker must see it [default: results/<plan name>]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    owner: Owner,
    /// Hand the server starts to Slurm, as the plan's [slurm] table says
    #[arg(long)]
    slurm: bool,
    /// Measure failed runs again
    #[arg(long)]
    retry_failed: bool,
    /// A further argument for sbatch, e.g. --sbatch-arg=--exclusive (repeatable)
    #[arg(long, value_name = "ARG", requires = "slurm", allow_hyphen_values = true)]
    sbatch_arg: Vec<String>,
    /// Show what would be submitted, and submit nothing
    #[arg(long)]
    dry_run: bool,
    /// Cancel what was handed over to Slurm and has not ended
    #[arg(long, conflicts_with_all = ["dry_run", "sbatch_arg"])]
    cancel: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let adapt = |plan: &mut Plan| {
        let directory = Directory::at(folder(args.output.as_deref(), plan));
        settle_margins(plan, &directory, true);
        // The workers know their GPUs.
        settle_gpus(plan, &directory, |known, _| known);
    };
    let (plan, matrix, _) = args.file.open(adapt)?;
    refuse(&plan, &matrix)?;
    let root = folder(args.output.as_deref(), &plan);
    let directory = ours(&absolute(&root).unwrap_or(root))?;
    args.owner.check(directory.root())?;
    if args.cancel {
        return match args.slurm {
            true => cancel(&directory),
            false => Err(Error::Usage(
                "--cancel cancels what --slurm handed over; add --slurm".to_owned(),
            )),
        };
    }
    let state = match args.dry_run {
        true => recorded(&directory)?,
        false => record(&plan, &matrix, &directory)?,
    };
    let sweep = Sweep {
        retry_failed: args.retry_failed,
        ..Sweep::of(&plan, &matrix)
    };
    let submission = Submission {
        left: sweep.left(&state),
        args: &args,
        plan: &plan,
        directory: &directory,
    };
    match args.slurm {
        true => submission.hand_to_slurm(),
        false => submission.show(),
    }
}

/// A submission of the remaining server starts.
struct Submission<'a> {
    args: &'a Args,
    plan: &'a Plan,
    directory: &'a Directory,
    /// Remaining starts by their ids, with their servers.
    left: Vec<(String, Vec<ServerConfig>)>,
}

impl Submission<'_> {
    /// Returns the arguments of vsweep for one server start, as shell words. Callers append the start's id.
    fn worker_arguments(&self) -> String {
        let again = if self.args.retry_failed { " --retry-failed" } else { "" };
        format!("worker {}{again} --group", shell_word(self.directory.root()))
    }

    /// Prints the starts that workers may take.
    fn show(&self) -> Result<Exit> {
        let root = self.directory.root().display();
        for (name, servers) in self.left.iter().filter(|_| self.args.dry_run) {
            let mut names = servers.iter().map(|server| self.plan.secrets.redact(&server.name));
            output::say(format_args!("{name}  {}", names.join("; ")));
        }
        let starts = show_many(self.left.len() as u64, "server start");
        let worker = match self.args.retry_failed {
            true => format!("{} ID, with each ID that --dry-run lists", self.worker_arguments()),
            false => format!("worker {}", shell_word(self.directory.root())),
        };
        output::say(match self.left.is_empty() {
            true => format!("nothing left to do in {root}"),
            false => format!("{starts} to be taken from {root}; start workers with: vsweep {worker}"),
        });
        Ok(Exit::Done)
    }

    /// The remaining server starts that are not under way, each with its number of GPUs per node.
    fn sizes(&self, under_way: &BTreeSet<String>) -> Vec<(String, u32)> {
        let one = Capacity { gpus: 1, groups: 1 };
        let nodes = self.plan.serve.protocol.members.nodes;
        let is_side_by_side = self.plan.compare.is_some() && self.plan.exec.parallel != Parallel::No;
        let open = self.left.iter().filter(|(name, _)| !under_way.contains(name));
        open.map(|(name, servers)| {
            let demands = servers.iter().map(|server| demand(&self.plan.exec, one, server));
            let widest = demands.max().unwrap_or(0);
            // The arms of a comparison swap their GPUs, so the smaller one needs as many as the larger one.
            let gpus = if is_side_by_side { 2 * widest } else { widest };
            (name.clone(), gpus.div_ceil(nodes))
        })
        .collect()
    }

    /// Submits the starts that are not under way to Slurm.
    fn hand_to_slurm(&self) -> Result<Exit> {
        let (plan, directory, is_dry) = (self.plan, self.directory, self.args.dry_run);
        if let Some(why) = slurm::unusable(plan, directory.root()) {
            return Err(Error::Usage(why));
        }
        let _turn = (!is_dry).then(|| cluster::take_turn(directory)).transpose()?;
        let before = cluster::submissions(directory)?;
        let tasks = slurm::queue(&before).map_err(|why| {
            Error::Fatal(format!(
                "nothing was submitted, because the starts that are already under way are unknown: {why}"
            ))
        })?;
        let live = tasks.into_iter().filter(|task| task.is_live);
        let under_way: BTreeSet<String> = live.map(|task| task.group).collect();
        let most = match slurm::most_tasks() {
            Err(_) if is_dry => usize::MAX,
            most => most?,
        };
        let arrays = cluster::arrays(&self.sizes(&under_way), most, &before);
        let root = directory.root().display();
        if arrays.is_empty() {
            let starts = show_many(under_way.len() as u64, "server start");
            output::say(match under_way.is_empty() {
                true => format!("nothing left to do in {root}"),
                false => format!("nothing to submit: {starts} under way in Slurm, see `vsweep status {root}`"),
            });
            return Ok(Exit::Done);
        }
        if plan.slurm.memory_per_gpu.is_none() && !self.args.sbatch_arg.iter().any(|arg| arg.starts_with("--mem")) {
            output::print_note(
                "the plan requests no memory (slurm.memory_per_gpu); on many sites each start then gets all memory of a node, and runs \
                 alone there",
            );
        }
        let program = std::env::current_exe().map_err(Error::io("find", Path::new("the vsweep that runs")))?;
        let folder = directory.submissions();
        for mut array in arrays {
            let arguments = slurm::arguments(&array, plan, &folder, &self.args.sbatch_arg);
            let script = slurm::script(&array, plan, directory.root(), &program, &self.worker_arguments());
            if is_dry {
                let command = shell_line(["sbatch".to_owned()].iter().chain(&arguments));
                output::say(format_args!("{command} <<'END'\n{script}END"));
                continue;
            }
            array.write(directory)?;
            let job = slurm::submit(&arguments, &script).map_err(|error| {
                Error::Fatal(format!(
                    "{error}; what was submitted before stays; run the same command again to submit the rest"
                ))
            })?;
            let starts = show_many(array.groups.len() as u64, "server start");
            let gpus = show_many(u64::from(array.gpus), "GPU");
            output::say(format_args!("job {job} ({}): {starts}, {gpus} each", array.name));
            array.job = Some(job);
            array.write(directory)?;
        }
        if !is_dry {
            let logs = folder.display();
            output::say(format_args!("see `vsweep status {root}`; logs are in {logs}"));
        }
        Ok(Exit::Done)
    }
}

/// Cancels the jobs whose tasks run or wait.
fn cancel(directory: &Directory) -> Result<Exit> {
    let is_recorded = directory.submissions().is_dir();
    let _turn = is_recorded.then(|| cluster::take_turn(directory)).transpose()?;
    let tasks = slurm::queue(&cluster::submissions(directory)?)?;
    let live = tasks.iter().filter(|task| task.is_live).collect_vec();
    let jobs = live.iter().filter_map(|task| task.job.split('_').next());
    let jobs = jobs.unique().collect_vec();
    if jobs.is_empty() {
        output::say("no job of this experiment is in Slurm's queue");
        return Ok(Exit::Done);
    }
    slurm::cancel(&jobs)?;
    let tasks = show_many(live.len() as u64, "task");
    let count = show_many(jobs.len() as u64, "job");
    output::say(format_args!("cancelled {tasks} of {count} ({})", jobs.join(", ")));
    Ok(Exit::Done)
}

/// Refuses plans that workers cannot execute.
fn refuse(plan: &Plan, matrix: &Matrix) -> Result<()> {
    if matches!(plan.serve.target, Target::Attach(_)) {
        let why = "there is only one server behind `url`, so workers would only wait for each other; use `vsweep run`";
        return Err(Error::Usage(why.to_owned()));
    }
    if plan.redacted_text() != plan.text {
        let why = "a secret is written in the plan, and secrets are not recorded, so no worker would know it; write it as ${NAME} and \
                   set that variable where the workers run";
        return Err(Error::Usage(why.to_owned()));
    }
    let mut found = Diagnostics::default();
    lint::check_side_by_side(plan, matrix, &mut found);
    plan_file::refuse(plan, found)
}

/// Records the plan, unless it is already the current one. Returns the state of the directory afterwards.
fn record(plan: &Plan, matrix: &Matrix, directory: &Directory) -> Result<State> {
    let before = recorded(directory)?;
    let changes = Changes::between(&before, matrix, plan);
    must_not_be_another(directory, &changes, &before, "")?;
    let mut recorder = Recorder::join(directory.clone())?;
    recorder.hide(plan.secrets.clone());
    write_plan(plan, directory, &before)?;
    for note in changes.notes() {
        output::print_note(note);
    }
    let noise = noise_of_neighbours(plan, directory, &before);
    let sweep = Sweep {
        noise: &noise,
        ..Sweep::of(plan, matrix)
    };
    crate::cli::machine::runtime()?.block_on(sweep.declare(changes, &mut recorder))?;
    Ok(recorder.state().clone())
}
