//! What a benchmark of ours objects to in a plan's loads, found before anything starts instead of in the first run.

use crate::bench;
use crate::matrix::Matrix;
use crate::plan::{BenchRunner, Found, Params, Plan, Problem, Required, Side, Span, Warmup, show, spelling};
use crate::search::{Criterion, Quantity, Vary};
use std::collections::BTreeSet;

/// Loads looked at: far more than the distinct ones of any plan that is not generated.
pub const MOST_POINTS: usize = 10_000;

const GOODPUT: &str = "request_goodput";

/// Parameters of `vsweep bench` that a plan cannot set: where a run goes to, and where its result.
const OURS: [&str; 7] = [
    "base_url",
    "host",
    "port",
    "save_result",
    "append_result",
    "result_dir",
    "result_filename",
];

/// Checks the loads of a plan that is to be measured by one of our own benchmarks. Of a plan that could not be read as a
/// whole only what names a parameter is told: the rest may follow from what is missing.
pub fn check(plan: &Plan, matrix: &Matrix, found: &mut Found) {
    if let BenchRunner::Command(_) = plan.bench.runner {
        return;
    }
    if let Some(offline) = plan.bench.runner.offline() {
        let mut servers = matrix.servers().take(MOST_POINTS);
        if let Some(why) = servers.find_map(|server| offline.command(&server.argv).err()) {
            let (message, remedy) = why.rsplit_once("; ").unwrap_or((&why, ""));
            found.object(plan.origin.value_span(&["serve", "command"]), message, remedy);
        }
        return;
    }
    let runner = &plan.bench.runner;
    let is_whole = found.is_empty();
    let loads = matrix.specimens().take(MOST_POINTS);
    let sentences: BTreeSet<String> = loads.flat_map(|params| bench::check(runner, &params)).collect();
    if *runner != BenchRunner::Native && matches!(plan.bench.warmup, Warmup::Requests(1..)) {
        let message = "`bench.warmup_prompts` is for the load generator; this runner warms up by itself";
        found.object(plan.origin.key_span(&["bench", "warmup_prompts"]), message, "remove it");
    }
    let searched = plan.sla.as_ref().map(|sla| sla.vary);
    let place = plan.origin.key_span(&["sla"]);
    match (runner, searched) {
        (BenchRunner::Iterations, Some(_)) => {
            let message = "a batch of known shape has no load that a search could vary";
            found.object(place, message, "remove `[sla]`, and sweep batch_size");
        }
        (BenchRunner::Phases, Some(Vary::RequestRate)) => {
            let message = "runner phases keeps requests in flight; it has no request rate";
            found.object(place, message, "search with `vary = \"max_concurrency\"`");
        }
        _ => {}
    }
    if *runner == BenchRunner::Native && is_whole {
        goodput(plan, matrix, found);
        latencies(plan, matrix, found);
    }
    for name in OURS {
        if let Some(named) = named_param(plan, name) {
            let message = format!("vsweep itself decides on `{name}` of a run");
            let span = place_of(plan, &named).expect("a named parameter has its place");
            found.object(
                span,
                message,
                "remove it; `serve.url` measures a server that runs already",
            );
        }
    }
    for sentence in &sentences {
        let named = named_param(plan, sentence);
        if is_whole || named.is_some() {
            found.add(problem(plan, sentence, named.as_deref()));
        }
    }
}

/// The criteria of every target and assertion, and the keys that lead to them.
fn bounds(plan: &Plan) -> Vec<(Vec<String>, &[Criterion])> {
    let targets = plan.sla.iter().flat_map(|sla| &sla.targets);
    let targets = targets.map(|target| &*target.criteria).enumerate();
    let asserted = plan
        .report
        .requirements
        .iter()
        .filter_map(|required| match &required.what {
            Required::Points(assertion) => Some(&*assertion.criteria),
            Required::Target(_) => None,
        });
    let at = |keys: &[&str], i: usize| keys.iter().map(|key| key.to_string()).chain([i.to_string()]).collect();
    let targets = targets.map(|(i, criteria)| (at(&["sla", "target"], i), criteria));
    let asserted = asserted.enumerate().map(|(i, criteria)| (at(&["assert"], i), criteria));
    targets.chain(asserted).collect()
}

fn words(place: &[String]) -> Vec<&str> {
    place.iter().map(String::as_str).collect()
}

/// A target may bound the goodput only of runs that are told which requests are good.
fn goodput(plan: &Plan, matrix: &Matrix, found: &mut Found) {
    let bounded = |criteria: &[Criterion]| {
        criteria
            .iter()
            .any(|criterion| criterion.quantity == Quantity::Metric(GOODPUT.into()))
    };
    let Some((place, _)) = bounds(plan).into_iter().find(|(_, criteria)| bounded(criteria)) else {
        return;
    };
    let mut loads = matrix.specimens().take(MOST_POINTS);
    if loads.any(|params| spelling::find(&params, "goodput").is_none()) {
        let message = format!("no run will report `{GOODPUT}`");
        let remedy = "say which requests are good: goodput = [\"ttft:500\"] in [bench.params]";
        let span = plan.origin.key_span(&[&words(&place)[..], &[GOODPUT]].concat());
        found.object(span, message, remedy);
    }
}

/// Means, medians and deviations are in a result only for the latencies that it is asked for; percentiles come from the
/// requests themselves.
fn latencies(plan: &Plan, matrix: &Matrix, found: &mut Found) {
    let statistic = |key: &str| {
        let (statistic, rest) = key.split_once('_')?;
        let latency = rest.strip_suffix("_ms")?;
        ["mean", "median", "std"]
            .contains(&statistic)
            .then(|| latency.to_owned())
    };
    for (place, criteria) in bounds(plan) {
        for criterion in criteria {
            let Quantity::Metric(key) = &criterion.quantity else {
                continue;
            };
            let Some(latency) = statistic(key) else { continue };
            let is_left_out = |params: &Params| {
                let asked = spelling::find(params, "percentile_metrics").map(show);
                asked.is_some_and(|asked| !asked.split(',').any(|name| name.trim() == latency))
            };
            if matrix.specimens().take(MOST_POINTS).any(|params| is_left_out(&params)) {
                let message = format!("no run will report `{key}`");
                let remedy = format!("add {latency} to percentile_metrics in [bench.params]");
                let span = plan.origin.key_span(&[&words(&place)[..], &[key]].concat());
                found.object(span, message, remedy);
            }
        }
    }
}

/// The parameter of the plan that the sentence names first, as the plan spells it.
fn named_param(plan: &Plan, sentence: &str) -> Option<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let words = sentence.split(|c| !is_name(c)).filter(|word| !word.is_empty());
    let mut names = words.flat_map(|word| [word.to_owned(), spelling::flag(word)]);
    names.find(|name| place_of(plan, name).is_some())
}

/// Where the plan sets a parameter of a load: in the table, or in the first combination that has it.
fn place_of(plan: &Plan, name: &str) -> Option<Span> {
    let at = |keys: &[&str]| plan.origin.has(keys).then(|| plan.origin.key_span(keys));
    at(&["bench", "params", name]).or_else(|| {
        let mut combos = (0..plan.combos(Side::Bench).len()).map(|i| i.to_string());
        combos.find_map(|i| at(&["bench", "combos", &i, name]))
    })
}

/// Points at the parameter, or at the table.
fn problem(plan: &Plan, sentence: &str, named: Option<&str>) -> Problem {
    let place = named.and_then(|name| place_of(plan, name));
    let span = place.unwrap_or_else(|| plan.origin.key_span(&["bench", "params"]));
    let (message, remedy) = sentence.rsplit_once("; ").unwrap_or((sentence, ""));
    Problem::new(span, message, remedy)
}
