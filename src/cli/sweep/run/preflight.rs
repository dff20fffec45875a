//! Preparations of `run` and `worker`: the check of the machine, values that stay as they were when the experiment began, and predictions.

use crate::agenda::{Prediction, Predictions, fits_gpus, predicted_values};
use crate::answer::MetricNoise;
use crate::cause::Cause;
use crate::cli::forecast::{self, estimate};
use crate::cli::machine::runtime;
use crate::cli::{output, plan_file};
use crate::error::Result;
use crate::evidence::Results;
use crate::ids::ServerId;
use crate::journal::{self, Check, Directory, State};
use crate::lint;
use crate::matrix::{Matrix, ServerConfig};
use crate::plan::{Diagnostics, Plan, Program, ServeCommand, Target};
use crate::rehearse::twin::COUNT;
use crate::rehearse::{Forecast, Limits, ModelledServer, Options, Rehearsal, foresee, moved_results, needs_gpu};
use crate::report::history::{self, History};
use crate::report::{known_noise, metric_in_words};
use crate::run::{Forecasts, Node, ServerSeconds, Sweep, demand, host};
use crate::selection::optimized::Predicted;
use crate::table::machine_gpus;
use crate::telemetry::gpu;
use crate::units::{show_count, show_many};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of tokens that are simulated for the first guesses of searches, which takes about a second.
const MOST_TOKENS: u64 = 20_000_000;

/// Maximum number of servers that are named because they do not fit.
const MOST_NAMED: usize = 5;

/// Largest credible change of a predicted figure if one constant changes by a standard deviation, as a difference of logarithms.
const MOST_CHANGE: f64 = 1.0;

/// Least memory of a server that is predicted not to fit, as a multiple of the available memory. Assumed if the amount is not known.
const TOO_MUCH: f64 = 1.1;

/// Sets the margins of a comparison whose plan states none. They come from the record if the comparison has begun, or else from the
/// machine's own noise.
pub fn settle_margins(plan: &mut Plan, directory: &Directory, is_begun: bool) {
    let is_simulated = is_simulated(plan);
    let Some(compare) = plan.compare.as_mut().filter(|compare| compare.margins.stated.is_none()) else {
        return;
    };
    let judged = compare.judged();
    let recorded = is_begun.then(|| recorded_margins(directory)).flatten();
    compare.margins.own = recorded.unwrap_or_else(|| {
        let folder = history::parent(directory.root()).unwrap_or_default();
        // Earlier builds at the path of an arm differ by more than noise.
        let history = History::of(&folder, &host(), is_simulated, &judged, &|_| true);
        history.margins(&judged)
    });
}

/// Returns the noise that other experiments in the same folder measured on this machine. Empty if the experiment has begun, because its
/// record then has the noise.
pub fn noise_of_neighbours(plan: &Plan, directory: &Directory, state: &State) -> Vec<MetricNoise> {
    if !state.sessions().is_empty() {
        return Vec::new();
    }
    let folder = history::parent(directory.root()).unwrap_or_default();
    known_noise(&folder, &host(), is_simulated(plan))
}

/// Sets the number of GPUs of a plan that states none to the one that `choose` makes of the number in the record. The GPUs of a server behind
/// a URL are not known.
pub fn settle_gpus(plan: &mut Plan, directory: &Directory, choose: impl FnOnce(Option<u32>, &Plan) -> Option<u32>) {
    if plan.report.gpus.is_none() && matches!(plan.serve.target, Target::Launch(_)) {
        let state = recorded_state(directory).unwrap_or_default();
        plan.report.gpus = choose(machine_gpus(directory, &state), plan);
    }
}

/// Returns the number of GPUs that a server of a plan may use, if its nodes are like this machine; `None` if this one has no GPU.
pub fn gpus_here(plan: &Plan) -> Option<u32> {
    let visible = runtime().ok()?.block_on(gpu::visible(&BTreeMap::new()));
    let all = visible.len() as u32 * plan.serve.protocol.members.nodes;
    (all > 0).then_some(all)
}

fn recorded_state(directory: &Directory) -> Option<State> {
    directory
        .is_experiment()
        .then(|| journal::load(directory, Check::Lengths).ok())?
}

/// Describes the margins at the beginning of a comparison; `None` if the plan states a margin or the machine's noise is unknown.
pub fn margins_in_words(plan: &Plan) -> Option<String> {
    let margins = &plan.compare.as_ref()?.margins;
    let own = margins.own.iter().filter(|_| margins.stated.is_none());
    let own: Vec<String> = own
        .map(|(metric, percent)| format!("{percent} % for {}", metric_in_words(metric)))
        .collect();
    (!own.is_empty()).then(|| {
        format!(
            "changes below this machine's noise count as equal: {}; change it with margin in [compare]",
            own.join(", ")
        )
    })
}

/// Returns the margins of the comparison that was begun in a directory, in percent, by metric.
fn recorded_margins(directory: &Directory) -> Option<BTreeMap<String, f64>> {
    let state = recorded_state(directory)?;
    let family = &state.compared()?.family;
    // Converts the logarithm of a ratio to percent.
    let percent = |log: f64| (100.0 * log.exp_m1() * 1e6).round() / 1e6;
    let margins = family
        .iter()
        .map(|asked| (asked.metric.clone(), percent(asked.member.margin.log)));
    Some(margins.collect())
}

fn is_simulated(plan: &Plan) -> bool {
    match &plan.serve.target {
        Target::Launch(commands) => commands
            .iter()
            .any(|argv| ServeCommand::of(argv).program() == Program::Simulator),
        Target::Attach(_) => false,
    }
}

/// Checks that this machine has everything that the remaining work needs. Prints what is missing, and returns an error.
pub fn check_machine(sweep: &Sweep<'_>, state: &State) -> Result<()> {
    let mut found = Diagnostics::default();
    lint::check_sizes(sweep.plan, sweep.wanted, &mut found);
    if sweep.schedule().has_work(state) {
        lint::check_machine(sweep.plan, sweep.wanted, sweep.node, must_fit(sweep, state), &mut found);
        print_too_large(sweep.plan, sweep.wanted);
    }
    plan_file::refuse(sweep.plan, found)
}

/// Names the servers that an optimisation leaves out, because they do not fit on the user's GPUs.
fn print_too_large(plan: &Plan, matrix: &Matrix) {
    let Some(gpus) = plan.report.gpus.filter(|_| plan.optimize.is_some()) else {
        return;
    };
    let large = || matrix.servers().filter(|server| !fits_gpus(plan, server));
    let mut names = large().take(MOST_NAMED).map(|server| plan.secrets.redact(&server.name));
    let (names, more) = (names.join("; "), large().skip(MOST_NAMED).count() as u64);
    if !names.is_empty() {
        let more = if more > 0 {
            format!("; and {} more", show_count(more))
        } else {
            String::new()
        };
        let gpus = show_many(u64::from(gpus), "GPU");
        output::inform(format_args!("left out, too large for {gpus}: {names}{more}"));
    }
}

/// Returns the servers that must fit on this machine: all that may start. For a worker, those of one group are enough: it leaves others to
/// other workers.
fn must_fit<'a>(sweep: &'a Sweep<'_>, state: &State) -> Box<dyn Iterator<Item = ServerConfig> + 'a> {
    let Some((share, node)) = sweep.share.zip(sweep.node) else {
        return Box::new(sweep.startable());
    };
    let is_wanted = |group: &String| share.group.as_ref().is_none_or(|only| only == group);
    let left = sweep.left(state).into_iter().filter(|(group, _)| is_wanted(group));
    let needed = |server: &ServerConfig| demand(&sweep.plan.exec, node.capacity, server);
    let narrowest = left.min_by_key(|(_, servers)| servers.iter().map(needed).max());
    Box::new(narrowest.into_iter().flat_map(|(_, servers)| servers))
}

/// Returns the resources of this machine that the plan divides among servers; `None` if servers run one after the other.
pub fn find_node(plan: &Plan) -> Option<Node> {
    runtime().ok()?.block_on(Node::of(plan))
}

/// Predicts the answers of the searches, as first loads to try.
pub fn first_guesses(sweep: &Sweep<'_>, state: &State, options: &Options) -> Forecasts {
    let options = Options {
        // A guess for an assumed GPU could mislead the search.
        card: options.card.filter(|card| !card.is_assumed),
        limits: forecast::limits(MOST_TOKENS),
        known: Arc::clone(&options.known),
        ..Options::default()
    };
    foresee(sweep.schedule(), state, &options)
}

/// Returns the predicted answers of the searches of a rehearsal; none if the GPU is unknown.
pub fn answers(sweep: &Sweep<'_>, options: &Options, rehearsal: &Rehearsal) -> Forecasts {
    let mut answers = Forecasts::new();
    if !forecast::is_known(sweep.wanted, options) {
        return answers;
    }
    for answer in rehearsal.servers.iter().flat_map(|forecast| &forecast.answers) {
        if let Some(load) = answer.found.value() {
            let own = answers.entry(answer.search.clone()).or_default();
            own.insert(answer.target.clone(), load);
        }
    }
    answers
}

/// Returns the likely duration of the work on each server, in seconds.
pub fn server_seconds(estimate: &std::result::Result<Rehearsal, String>) -> ServerSeconds {
    let servers = estimate.iter().flat_map(|rehearsal| &rehearsal.servers);
    let length = |forecast: &Forecast| (forecast.server.clone(), forecast.total.interval().likely);
    servers.map(length).collect()
}

/// Returns the predictions of all servers for an optimisation. `rehearsal` played the work that the first of `states` lacks, calibrated by
/// the second.
pub fn predictions(
    sweep: &Sweep<'_>,
    states: (&State, &State),
    options: &Options,
    rehearsal: &Rehearsal,
) -> Predictions {
    let results: Vec<Option<&Results>> = rehearsal.servers.iter().map(|own| own.results.as_ref()).collect();
    let is_known = forecast::is_known(sweep.wanted, options);
    let values = match is_known {
        true => values(sweep.plan, rehearsal, &results),
        // Figures for an assumed GPU could mislead the choice.
        false => vec![None; rehearsal.servers.len()],
    };
    // Simulated servers need no slopes, because their constants are known.
    let moved = if needs_gpu(sweep.wanted) && values.iter().any(Option::is_some) {
        moved_values(sweep, states, options, rehearsal)
    } else {
        Vec::new()
    };
    let slopes = |index: usize| moved.iter().map(|moved| slope(values[index], moved[index])).collect();
    let lacks_memory = |forecast: &&Forecast| {
        let cause = forecast.failure.as_ref().map(|failure| failure.cause);
        matches!(cause, Some(Cause::OomAtLoad | Cause::KvCacheTooSmall))
    };
    let lacking = rehearsal.servers.iter().filter(lacks_memory);
    let lacking: BTreeSet<&ServerId> = lacking.map(|forecast| &forecast.server).collect();
    let need = |server: ServerConfig| {
        let settings = ModelledServer::of(&server, options).ok()?.settings;
        let cost = settings.filter(|_| is_known)?.cost;
        Some((server.id, cost.weights_per_gpu() / cost.gpu.memory))
    };
    let unfit = sweep.wanted.servers().filter(|server| lacking.contains(&server.id));
    let needs: BTreeMap<ServerId, f64> = unfit.filter_map(need).collect();
    let memory = |server: &ServerId| needs.get(server).map_or(TOO_MUCH, |need| need.max(TOO_MUCH));
    let prediction = |(index, forecast): (usize, &Forecast)| {
        let shared = forecast.shared.as_ref();
        let saved_s = shared.filter(|own| own.is_compiled).map_or(0.0, |own| own.saved_s);
        let start_s = forecast.total.starts.likely + saved_s;
        let prediction = Prediction {
            start_s,
            warm: shared.map(|own| (own.key.clone(), start_s - own.saved_s)),
            measure_s: forecast.total.runs.likely,
            memory: lacking.contains(&forecast.server).then(|| memory(&forecast.server)),
            value: values[index],
            slopes: slopes(index),
        };
        (forecast.server.clone(), prediction)
    };
    rehearsal.servers.iter().enumerate().map(prediction).collect()
}

/// Returns the predicted values of a rehearsal's servers with these results.
fn values(plan: &Plan, rehearsal: &Rehearsal, results: &[Option<&Results>]) -> Vec<Option<Predicted>> {
    let errors = rehearsal.servers.iter().map(|own| own.total.runs.error());
    let foreseen = results.iter().copied().zip(errors);
    predicted_values(plan, &foreseen.collect::<Vec<_>>())
}

/// Returns a list of values for each of the twin's constants, predicted with that constant a standard deviation larger. Returns no lists if
/// they cannot be computed in time.
fn moved_values(
    sweep: &Sweep<'_>,
    (done, record): (&State, &State),
    options: &Options,
    rehearsal: &Rehearsal,
) -> Vec<Vec<Option<Predicted>>> {
    if sweep.plan.sla.is_some() {
        let moved = moved_results(sweep.schedule(), record, rehearsal, options).unwrap_or_default();
        let values = |results: &Vec<Option<Results>>| {
            let results: Vec<Option<&Results>> = results.iter().map(Option::as_ref).collect();
            values(sweep.plan, rehearsal, &results)
        };
        return moved.iter().map(values).collect();
    }
    let time = options.limits.time.map(|time| time / COUNT as u32);
    let moved = |constant: usize| {
        let options = Options {
            moved: Some(constant),
            limits: Limits {
                time,
                ..options.limits.clone()
            },
            // Timings with other constants are of no use later, so they get a cache of their own.
            plays: Arc::default(),
            ..options.clone()
        };
        let rehearsal = estimate(sweep.schedule(), done, record, &options).ok()?;
        let results: Vec<Option<&Results>> = rehearsal.servers.iter().map(|own| own.results.as_ref()).collect();
        Some(values(sweep.plan, &rehearsal, &results))
    };
    (0..COUNT).map(moved).collect::<Option<_>>().unwrap_or_default()
}

/// Returns the change of the logarithm of a value, to four decimals. It is 0 if a value is missing or the change is not credible. A large
/// change means that the server ceases to meet its targets at some unknown value of the constant.
fn slope(here: Option<Predicted>, moved: Option<Predicted>) -> f64 {
    let change = here
        .zip(moved)
        .map_or(0.0, |(here, moved)| moved.ln_value - here.ln_value);
    let change = if change.abs() < MOST_CHANGE { change } else { 0.0 };
    (change * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Format, World, parse};
    use crate::rehearse::Card;
    use crate::sim::engine::gpu::Gpu;
    use std::path::Path;

    /// The servers of a plan with this load, and their predictions on an H100.
    fn predicted(load: &str) -> Vec<(ServerConfig, Prediction)> {
        predicted_of("llama-8b", load)
    }

    fn predicted_of(model: &str, load: &str) -> Vec<(ServerConfig, Prediction)> {
        let text = "version = 1\n[serve]\ncommand = \"vllm serve llama-8b --max-model-len 8192\"\n[serve.params]\n\
                    tensor_parallel_size = [1, 2]\nquantization = \"fp8\"\n[optimize]\n[bench.params]\n\
                    random_input_len = 512\nrandom_output_len = 64\n";
        let text = format!("{text}{load}").replace("llama-8b", model);
        let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let matrix = Matrix::expand(&plan).expect("it expands");
        let options = Options {
            card: Some(Card {
                gpu: Gpu::named("h100").expect("listed"),
                source: "by its name",
                is_assumed: false,
            }),
            ..Options::default()
        };
        let (sweep, state) = (Sweep::of(&plan, &matrix), State::default());
        let rehearsal = estimate(sweep.schedule(), &state, &state, &options).expect("small");
        let answers = answers(&sweep, &options, &rehearsal);
        let foreseen = rehearsal.servers.iter().map(|own| own.answers.len());
        assert_eq!(
            answers.values().map(BTreeMap::len).sum::<usize>(),
            foreseen.sum::<usize>()
        );
        let mut predictions = predictions(&sweep, (&state, &state), &options, &rehearsal);
        let with = |server: ServerConfig| predictions.remove(&server.id).map(|own| (server, own));
        matrix.servers().map(with).map(|own| own.expect("predicted")).collect()
    }

    #[test]
    fn predictions_say_how_much_memory_a_server_lacks() {
        let all = predicted_of("llama-405b", "max_concurrency = 64\nnum_prompts = 128\n");
        assert!(all.iter().all(|(_, own)| own.memory > Some(2.0)), "{all:?}");
        let all = predicted("max_concurrency = 64\nnum_prompts = 128\n");
        assert!(all.iter().all(|(_, own)| own.memory.is_none()), "{all:?}");
    }

    const SEARCH: &str = "[sla]\nvary = \"max_concurrency\"\nmax = 512\nskip_beaten = true\n[[sla.target]]\nname = \"chat\"\n\
                          p99_tpot_ms = \"<=9\"\n[[sla.target]]\nname = \"any\"\np99_ttft_ms = \"<=60000\"\n";

    #[test]
    fn predictions_say_what_a_constant_of_the_twin_would_change() {
        let (fixed, searched) = (
            predicted("max_concurrency = 64\nnum_prompts = 128\n"),
            predicted(SEARCH),
        );
        assert_eq!((fixed.len(), searched.len()), (3, 3));
        for (server, prediction) in fixed.iter().chain(&searched) {
            let [decode, .., quantised, _, links] = prediction.slopes[..] else {
                panic!("{prediction:?}");
            };
            assert!(prediction.value.is_some(), "{prediction:?}");
            assert!(decode > 0.0, "more bandwidth: {prediction:?}");
            let has = |text: &str| server.argv.iter().any(|own| own == text);
            assert_eq!(quantised < 0.0, has("fp8"), "{prediction:?}");
            assert_eq!(links < 0.0, has("2"), "{prediction:?}");
        }
        assert_eq!(slope(None, None), 0.0, "nothing is known of servers without a figure");
    }
}
