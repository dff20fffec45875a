//! `vsweep plan --rehearse`: predicts the time of a plan and its failures, before anything is started.

mod table;

pub use table::{failing, failures_in_words, sentence};

use crate::cli::experiment::{print_damage, recorded};
use crate::cli::machine::runtime;
use crate::cli::output::{OutputFormat, print_note};
use crate::error::{Error, Exit, Result};
use crate::journal::{Directory, Shard, State};
use crate::matrix::Matrix;
use crate::plan::{Parallel, Params, Plan, show};
use crate::rehearse::twin::TwinSource;
use crate::rehearse::{Card, Forecast, Limits, Options, PlayCache, Rehearsal, needs_gpu, rehearse};
use crate::report::texts::words::short_setting_of;
use crate::run::Sweep;
use crate::run::hardware::model_folder;
use crate::sim::engine::gpu::{GPUS, Gpu};
use crate::table::is_of_load;
use crate::telemetry::gpu::{numbers, visible};
use crate::units::{show_count, show_duration, show_many};
use itertools::Itertools;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Assumptions about the machine that will run the plan.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct AssumedMachine {
    /// GPUs to assume for vllm serve, with their number if servers run side by side, such as 8xh100 [default: this machine's, else 8xh100]
    /// [possible names: h100, h200, a100, l40s, b200]
    #[arg(long, value_name = "[N x]NAME", value_parser = read_gpus)]
    gpu: Option<(Option<u32>, Gpu)>,
    /// The model's config.json, where its name does not state its size
    #[arg(long, value_name = "FILE", value_parser = read_model_config)]
    model_config: Option<PathBuf>,
}

/// Prints the predicted time and failures of the work that a directory lacks, or of all of it if `fresh` is true.
pub fn predict(
    sweep: &Sweep<'_>,
    directory: &Directory,
    fresh: bool,
    machine: &AssumedMachine,
    format: OutputFormat,
) -> Result<Exit> {
    let mut record = recorded(directory)?;
    sweep.imagine_anew(&mut record);
    let nothing = State::default();
    let done = if fresh { &nothing } else { &record };
    let options = calibrated(directory, machine.options(sweep.plan, sweep.wanted, Limits::default()));
    // The number of runs is unknown before searches. With a record or for a shard, fewer runs than the plan's are left.
    let is_whole = done.runs().next().is_none() && sweep.shard == Shard::WHOLE && !sweep.wanted.finds_its_loads();
    let working = print_progress_of(&options.plays, is_whole.then(|| sweep.wanted.counts().runs));
    let rehearsal = rehearse(sweep.schedule(), done, &record, &options);
    drop(working);
    let rehearsal = rehearsal.map_err(|why| Error::Usage(format!("cannot rehearse the plan: {why}")))?;
    let recorded = done.runs().count();
    let table = || {
        let first = sentence(sweep.plan, done, &rehearsal);
        table::table(&rehearsal, first, recorded, &workloads(sweep.wanted))
    };
    format.print(table, || json(&rehearsal, recorded))?;
    let exit = print_damage(&record.damage);
    Ok(match rehearsal.foresees_failures() {
        true => exit.or(Exit::SomeFailed),
        false => exit,
    })
}

/// Returns options with the engine model calibrated by the measured runs of a directory and of its neighbours.
pub fn calibrated(directory: &Directory, options: Options) -> Options {
    Options {
        known: Arc::new(TwinSource::at(directory.clone())),
        ..options
    }
}

/// Returns the workloads of a plan, named by the settings in which they differ: `1024 in, 32 out`.
fn workloads(matrix: &Matrix) -> Vec<String> {
    let settings = |params: Params| {
        let of_workload = params.into_iter().filter(|(name, _)| !is_of_load(name));
        of_workload.map(|(name, value)| (name, show(&value))).collect_vec()
    };
    let all = matrix.specimens().take(MOST_LOADS).map(settings).unique().collect_vec();
    let is_shared = |setting: &(String, String)| all.iter().all(|own| own.contains(setting));
    let name = |own: &Vec<(String, String)>| {
        let varied = own.iter().filter(|setting| !is_shared(setting));
        varied.map(|(name, value)| short_setting_of(name, value)).join(", ")
    };
    all.iter().map(name).unique().collect()
}

/// Most loads from which the workloads are gathered.
const MOST_LOADS: usize = 1000;

/// Interval between progress reports of a long rehearsal.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Prints the progress of a rehearsal of `total` runs on standard error, until the returned sender is dropped.
fn print_progress_of(plays: &Arc<PlayCache>, total: Option<u64>) -> Sender<()> {
    let (working, ended) = mpsc::channel();
    let plays = Arc::clone(plays);
    let print_on = move || {
        let began = Instant::now();
        while ended.recv_timeout(REPORT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            print_note(format_args!("{}", progress(plays.count(), total, began.elapsed())));
        }
    };
    // Without a thread there are no reports.
    let _ = std::thread::Builder::new().spawn(print_on);
    working
}

/// Describes the progress: `rehearsed 310 of 704 runs, about 12.4 s left`. Less is left if servers fail, because their runs are not played.
fn progress(count: u64, total: Option<u64>, passed: Duration) -> String {
    match total {
        Some(total) if (1..=total).contains(&count) => {
            let left = passed.mul_f64((total - count) as f64 / count as f64);
            format!(
                "rehearsed {} of {}, about {} left",
                show_count(count),
                show_many(total, "run"),
                show_duration(left)
            )
        }
        _ => format!("rehearsed {}", show_many(count, "run")),
    }
}

impl AssumedMachine {
    /// Returns the options for the rehearsal of a plan; `limits` bound its computation.
    pub fn options(&self, plan: &Plan, matrix: &Matrix, limits: Limits) -> Options {
        let chosen = self.gpu.map(|(_, gpu)| (gpu, "from --gpu"));
        let known = chosen.or_else(|| Some((installed(plan, matrix)?, "as nvidia-smi says")));
        let (gpu, source) = known.unwrap_or((GPUS[0], "`vsweep plan --gpu` sets another"));
        let chosen = self.gpu.and_then(|(count, _)| Some((count?, "from --gpu")));
        let count = chosen.or_else(|| Some((count_gpus(plan)?, "as this machine has")));
        // Simulators need no GPU to run at the same time.
        let assumed = match (plan.exec.parallel, needs_gpu(matrix)) {
            (Parallel::Servers(_), false) => 0,
            _ => ASSUMED_GPUS,
        };
        let (gpus, gpus_source) = count.unwrap_or((assumed, "`vsweep plan --gpu 8xh100` sets their number"));
        Options {
            card: Some(Card {
                gpu,
                source,
                is_assumed: known.is_none(),
            }),
            gpus,
            gpus_source,
            model_config: self.model_config.clone(),
            limits,
            ..Options::default()
        }
    }
}

/// Number of GPUs that is assumed for an unknown machine.
const ASSUMED_GPUS: u32 = 8;

/// Parses `h100` or `8xh100`.
fn read_gpus(text: &str) -> std::result::Result<(Option<u32>, Gpu), String> {
    let text = text.to_ascii_lowercase();
    let counted = text.split_once('x');
    let counted = counted.and_then(|(count, name)| Some((Some(count.trim().parse::<u32>().ok()?), name)));
    let (count, name) = counted.unwrap_or((None, &text));
    let gpu = Gpu::named(name.trim()).filter(|_| count != Some(0));
    gpu.map(|gpu| (count, gpu)).ok_or_else(|| {
        let names = GPUS.map(|gpu| gpu.name).join(", ");
        format!("write one of {names}, with their number before it if there are several: 8xh100")
    })
}

/// Refuses a path that names no `config.json`, itself or in the folder that it names.
fn read_model_config(text: &str) -> std::result::Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let file = model_folder(&path).join("config.json");
    match file.is_file() {
        true => Ok(path),
        false => Err(format!("{} is not a file; correct the path", file.display())),
    }
}

/// Returns the number of GPUs of this machine, if servers of the plan run side by side and there are any.
fn count_gpus(plan: &Plan) -> Option<u32> {
    if plan.exec.parallel == Parallel::No {
        return None;
    }
    let gpus = runtime().ok()?.block_on(numbers()).len() as u32;
    (gpus > 0).then_some(gpus)
}

/// Returns the kind of GPU that the servers of a plan will get on this machine, if they need one, all are of one kind, and it is known.
fn installed(plan: &Plan, matrix: &Matrix) -> Option<Gpu> {
    if !needs_gpu(matrix) {
        return None;
    }
    let visible = runtime().ok()?.block_on(visible(&plan.serve.env));
    let mut names = visible.iter().map(|device| &device.name).unique();
    Gpu::of_device(names.next()?).filter(|_| names.next().is_none())
}

/// Returns a rehearsal as JSON, with times in seconds.
fn json(rehearsal: &Rehearsal, recorded: usize) -> Value {
    let server = |(index, server): (usize, &Forecast)| {
        let answers = server.answers.iter();
        let answers = answers.map(|answer| json!({"target": answer.name(), "value": answer.found.value()}));
        json!({
            "server": server.server,
            "name": server.name,
            "starts": server.starts,
            "runs": server.runs,
            "unknown_runs": server.unknown_runs,
            "seconds": server.total.interval(),
            "failure": server.failure,
            "losses": server.losses,
            "answers": answers.collect::<Vec<Value>>(),
            "disk_bytes": server.disk_bytes,
            "begins_seconds": rehearsal.packed.as_ref().map(|packed| packed.begins[index]),
        })
    };
    json!({
        "predicted": true,
        "interval": 0.8,
        "recorded_runs": recorded,
        "starts": rehearsal.starts(),
        "runs": rehearsal.runs(),
        "unknown_runs": rehearsal.unknown_runs(),
        "seconds": rehearsal.total.interval(),
        "side_by_side": rehearsal.packed.as_ref().map(|packed| json!({"gpus": packed.capacity.gpus, "servers": packed.capacity.groups})),
        "disk_bytes": rehearsal.disk_bytes,
        "gpu_hours": rehearsal.gpu_hours,
        "cost": rehearsal.cost,
        "assumed": rehearsal.assumptions,
        "learned_from": rehearsal.learned_from,
        "twin": rehearsal.twin.as_ref().map(|twin| json!({
            "runs": twin.runs(),
            "median_error": twin.score().map(f64::exp_m1),
            "constants": twin.fitted_constants(),
        })),
        "servers": rehearsal.servers.iter().enumerate().map(server).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_a_total_and_the_time_left_where_they_are_known() {
        let after = |count, total| progress(count, total, Duration::from_secs(30));
        assert_eq!(after(300, Some(400)), "rehearsed 300 of 400 runs, about 10.0 s left");
        assert_eq!(after(0, Some(400)), "rehearsed 0 runs");
        assert_eq!(after(401, Some(400)), "rehearsed 401 runs");
        assert_eq!(after(7, None), "rehearsed 7 runs");
    }
}
