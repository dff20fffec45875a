//! Gathers the measured runs and starts of an experiment to which a twin can be fitted: complete runs of real servers with one model on one
//! kind of GPU, spread over servers and loads. Reads the runs' files.

use super::belief::FIGURES;
use super::fit::{Case, Load, NAMES, log};
use super::starts::StartTimes;
use super::{KV_PRIOR, Measurements};
use crate::files;
use crate::ids::ServerId;
use crate::journal::{Directory, RunRecord, State};
use crate::matrix::ServerConfig;
use crate::plan::{Plan, Reset};
use crate::rehearse::learn::{has_result, played_params};
use crate::rehearse::{ModelledServer, Options};
use crate::sim::engine::cost::CostModel;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Most runs that are compared. More would add little and take time.
const MOST_RUNS: usize = 24;

/// Most tokens of these runs together, because each is played about twenty times. A prompt token counts a hundredth.
const MOST_TOKENS: f64 = 3e6;

/// Sampling error of a figure whose run does not state it: standard deviation of the logarithm.
const UNSTATED: f64 = 0.02;

/// Fewest readings of the server's metrics from which the number of KV blocks is estimated.
const FEWEST_READINGS: f64 = 3.0;
/// Lowest mean number of running requests from which the number of KV blocks is estimated.
const FEWEST_RUNNING: f64 = 4.0;

impl Measurements {
    /// Adds the measurements of an experiment on servers like this one. `options` must have no calibration.
    pub fn gather(
        &mut self,
        (state, directory): (&State, &Directory),
        plan: &Plan,
        like: &CostModel,
        options: &Options,
    ) {
        let servers: BTreeMap<&ServerId, ModelledServer> = state
            .servers
            .iter()
            .filter_map(|(id, record)| Some((id, modelled(id, record.config.clone(), like, options)?)))
            .collect();
        let first = self.cases.iter().map(|case| case.server + 1).max().unwrap_or(0);
        let numbers: BTreeMap<&ServerId, usize> =
            servers.keys().enumerate().map(|(at, id)| (*id, first + at)).collect();
        let mut runs = 0;
        let mut starts = BTreeSet::new();
        for run in in_turns(state.runs().filter(|run| is_usable(run, state, like)).collect()) {
            let Some(server) = servers.get(&run.server) else {
                continue;
            };
            let Some(figures) = read(directory, run) else {
                continue;
            };
            let number = |name: &str| {
                figures
                    .get(name)
                    .and_then(Value::as_f64)
                    .filter(|value| value.is_finite())
            };
            let size =
                number("total_output_tokens").unwrap_or(0.0) + number("total_input_tokens").unwrap_or(0.0) / 100.0;
            if figures.get("simulated") == Some(&Value::Bool(true)) || self.tokens + size > MOST_TOKENS {
                continue;
            }
            let Some((params, _)) = played_params(run, plan) else {
                continue;
            };
            self.kv_blocks.extend(kv_blocks(&number, server));
            if starts.insert(run.launch) {
                self.starts.extend(
                    number("startup_s")
                        .zip(server.settings.clone())
                        .map(|(total_s, settings)| StartTimes {
                            total_s,
                            engine_s: number("startup_engine_s"),
                            compile_s: number("startup_compile_s"),
                            capture_s: number("startup_graphs_s"),
                            settings,
                        }),
                );
            }
            if self.cases.len() == MOST_RUNS {
                continue;
            }
            let mut measured = [None; FIGURES];
            for (figure, name) in NAMES.iter().enumerate() {
                // The relative error of a duration is that of the throughput.
                let error = match figure {
                    0 => run.errors.get("request_throughput"),
                    _ => run.errors.get(name),
                };
                let value = number(name).and_then(log);
                measured[figure] = value.map(|value| (value, error.unwrap_or(UNSTATED).powi(2)));
            }
            runs += 1;
            self.tokens += size;
            self.cases.push(Case {
                server: numbers[&run.server],
                load: Load {
                    server: server.clone(),
                    params,
                    keeps_caches: plan.serve.reset == Reset::Nothing,
                },
                measured,
            });
        }
        if runs > 0 {
            self.sources.push((directory.name(), runs));
        }
    }
}

/// Returns a recorded server as modelled, if it is a real one that starts, with the model and the GPU of `like`.
fn modelled(
    id: &ServerId,
    config: crate::journal::ServerDescription,
    like: &CostModel,
    options: &Options,
) -> Option<ModelledServer> {
    let config = ServerConfig {
        id: id.clone(),
        name: config.name,
        argv: config.argv,
        env: config.env,
        params: config.params,
        combo: config.combo,
        index: 0,
    };
    let server = ModelledServer::of(&config, options).ok()?;
    let is_like = |cost: &CostModel| cost.model == like.model && cost.gpu.name == like.gpu.name;
    let is_usable = !server.is_simulator && server.failure.is_none();
    let is_usable = is_usable && server.settings.as_ref().is_some_and(|settings| is_like(&settings.cost));
    is_usable.then_some(server)
}

/// Returns true for a complete, undisturbed run on this kind of GPU.
fn is_usable(run: &RunRecord, state: &State, like: &CostModel) -> bool {
    let is_whole = run.probe().is_none_or(|probe| probe.stopped.is_none());
    let is_on_gpu = state.measured_at(run).is_some_and(|machine| {
        let mut gpus = machine.gpus.iter();
        gpus.len() > 0 && gpus.all(|gpu| gpu.name == like.gpu.device)
    });
    has_result(&run) && is_whole && is_on_gpu && !run.is_disturbed()
}

/// Sorts runs so that servers and loads take turns.
fn in_turns(runs: Vec<&RunRecord>) -> Vec<&RunRecord> {
    let mut seen: BTreeMap<&ServerId, BTreeMap<&str, usize>> = BTreeMap::new();
    let mut ranked: Vec<(usize, usize, &RunRecord)> = Vec::new();
    for run in runs {
        let loads = seen.entry(&run.server).or_default();
        let new = loads.len();
        let times = loads.entry(&run.name).or_default();
        // The first run of every load comes before the second run of any.
        ranked.push((*times, new, run));
        *times += 1;
    }
    ranked.sort_by_key(|(times, new, _)| (*times, *new));
    ranked.into_iter().map(|(_, _, run)| run).collect()
}

fn read(directory: &Directory, run: &RunRecord) -> Option<Map<String, Value>> {
    let file = run.file.as_ref()?;
    let content = files::read(&directory.root().join(&*file.path), files::MOST_RESULT).ok()?;
    serde_json::from_slice(&content).ok()
}

/// Returns the ratio of measured to modelled KV blocks. A running request takes the blocks of its prompt and, on average, half of its
/// answer.
fn kv_blocks(number: &dyn Fn(&str) -> Option<f64>, server: &ModelledServer) -> Option<f64> {
    let settings = server.settings.as_ref()?;
    let blocks = crate::sim::engine::memory::kv_blocks(&settings.cost, &settings.limits).ok()? as f64;
    let (running, usage) = (number("running_mean")?, number("kv_cache_usage_mean")?);
    if number("telemetry_samples")? < FEWEST_READINGS || running < FEWEST_RUNNING || usage <= 0.0 {
        return None;
    }
    let requests = number("completed")?;
    let context = (number("total_input_tokens")? + number("total_output_tokens")? / 2.0) / requests;
    let block = settings.limits.block_size as f64;
    let ratio = running * (context / block + 0.5) / usage / blocks;
    // A ratio that is far off is left out, because its reason is the shape of the load: shared prefixes, or requests that wait.
    (ratio.ln().abs() < 5.0 * KV_PRIOR.own).then_some(ratio)
}
