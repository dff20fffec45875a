//! Checks a plan's loads by the rules of the program that measures them.

use super::{OUTPUT_JSON, is_server_flag, judging_figures, launched, loads, place_of_param};
use crate::bench::native::{figures::PLAN_METRICS, settings::NativeSettings};
use crate::bench::{self, phases::PhaseSettings};
use crate::matrix::{Matrix, argv};
use crate::plan::{
    BenchRunner, Commands, Condition, Diagnostics, Entry, MIX, Origin, Params, Plan, Problem, Requirement, Side, Span,
    Warmup, show, spelling, suggest,
};
use crate::search::{Quantity, Vary};
use crate::stats::split_class;
use std::cell::LazyCell;
use std::collections::BTreeSet;

const GOODPUT: &str = "request_goodput";

/// Most wrong loads whose problems are reported: all values of a long axis may be wrong for one reason.
const MOST_WRONG: usize = 100;

/// Parameters of a benchmark that vsweep sets itself: the server of a run, and the file of its result.
const OURS: [&str; 5] = ["base_url", "host", "port", "result_dir", "result_filename"];
/// Further parameters of `vsweep bench` that a plan cannot set.
const SAVING: [&str; 2] = ["save_result", "append_result"];

/// Checks the loads of a plan. Of external and offline benchmarks, only a few settings are checked. If the plan has other problems, the
/// program's objections are reported only if they name a parameter that the plan sets. Other objections may follow from these problems.
pub(super) fn check(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    if let BenchRunner::Command(commands) = &plan.bench.runner {
        let is_vllm = commands.iter().any(|argv| bench::params_of(argv).is_some());
        if let Some(span) = place_named_in(plan, "duration").filter(|_| is_vllm) {
            let message = "`vllm bench serve` has no `duration`";
            let remedy = "give num_prompts, or remove `command`: the load generator of vsweep has it";
            found.object(span, message, remedy);
        }
        if commands.iter().all(|argv| bench::params_of(argv).is_some()) {
            let is_filled_in = |name: &str| {
                commands
                    .iter()
                    .flat_map(argv::placeholders)
                    .any(|it| spelling::same(it, name))
            };
            refuse(OURS.into_iter().filter(|name| !is_filled_in(name)), plan, found);
        }
        let mut others = commands.iter().filter(|argv| !bench::speaks_vllm_bench(argv));
        if let (Warmup::Requests(1..), Some([program, ..])) = (plan.bench.warmup, others.next()) {
            let message = format!("`bench.warmup_prompts` has no effect on {program}, which gets no flags");
            let place = plan.origin.key_span(&["bench", "warmup_prompts"]);
            found.warn(Problem::new(place, message, "let the command itself ask for a warm-up"));
        }
        check_placeholders(plan, matrix, commands, found);
        check_judged_figures(plan, matrix, found);
        return;
    }
    if let Some(offline) = plan.bench.runner.offline() {
        let mut servers = launched(plan, matrix);
        if let Some(why) = servers.find_map(|server| offline.command(&server.argv).err()) {
            found.add(problem(plan.origin.value_span(&["serve", "command"]), &why));
        }
        if let Some(span) = place_named_in(plan, OUTPUT_JSON) {
            let message = format!("vsweep itself decides on `{OUTPUT_JSON}` of a run");
            found.object(span, message, "remove it; the results of all runs are in `runs`");
        }
        check_judged_figures(plan, matrix, found);
        return;
    }
    let runner = &plan.bench.runner;
    let is_whole = found.is_empty();
    let problems = loads(matrix).map(|load| bench::check(runner, &load));
    let wrong: Vec<Vec<String>> = problems.filter(|found| !found.is_empty()).take(MOST_WRONG).collect();
    let are_all_reported = wrong.len() < MOST_WRONG;
    let sentences: BTreeSet<String> = wrong.into_iter().flatten().collect();
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
    if is_whole && *runner == BenchRunner::Native {
        check_judged_figures(plan, matrix, found);
    }
    if is_whole && are_all_reported {
        check_timeout(plan, matrix, found);
    }
    refuse(OURS.into_iter().chain(SAVING), plan, found);
    for sentence in &sentences {
        let place = place_named_in(plan, sentence);
        if is_whole || place.is_some() {
            let span = place.unwrap_or_else(|| plan.origin.key_span(&["bench", "params"]));
            found.add(problem(span, sentence));
        }
    }
}

/// Rejects parameters that a plan cannot set.
fn refuse(names: impl Iterator<Item = &'static str>, plan: &Plan, found: &mut Diagnostics) {
    for name in names {
        if let Some(span) = place_named_in(plan, name) {
            let message = format!("vsweep itself decides on `{name}` of a run");
            let remedy = "remove it; `serve.url` measures a server that runs already";
            found.object(span, message, remedy);
        }
    }
}

/// Warns of placeholders in a benchmark's command that nothing fills in. The program may know them, so it may still work.
fn check_placeholders(plan: &Plan, matrix: &Matrix, commands: &Commands, found: &mut Diagnostics) {
    let params = matrix.names(Side::Bench);
    let names: BTreeSet<&str> = commands.iter().flat_map(argv::placeholders).collect();
    // A search sets its load and the number of requests.
    let searched: &[&str] = match (&plan.sla, &plan.explore) {
        (Some(sla), _) => &[sla.vary.name(), "num_prompts"],
        (_, Some(_)) => &[Vary::MaxConcurrency.name(), Vary::RequestRate.name(), "num_prompts"],
        (None, None) => &[],
    };
    let all = || params.iter().map(|param| &**param).chain(searched.iter().copied());
    let is_param = |name: &str| all().any(|param| spelling::same(param, name));
    for name in names.into_iter().filter(|name| !is_param(name)) {
        let place = plan.origin.value_span(&["bench", "command"]);
        let remedy = suggest(name, params.iter().map(|param| &**param).chain(argv::RUNTIME));
        let message = format!("nothing fills in `{{{name}}}`, because no parameter of [bench.params] has this name");
        found.warn(Problem::new(place, message, remedy));
    }
}

/// Checks the names of parameters of a plan that is too broken to be expanded. A wrong name explains why references to it fail.
pub(super) fn check_names(plan: &Plan, found: &mut Diagnostics) {
    for (name, _) in plan.params(Side::Bench) {
        if let Some(sentence) = bench::unknown(&plan.bench.runner, name) {
            let span = plan.origin.key_span(&[Side::Bench.table(), "params", name]);
            found.add(problem(span, &sentence));
        }
    }
}

/// Reports a load whose last request is due only after `bench.timeout`. A search may end a run earlier, so its loads are reported only if
/// time ends them.
fn check_timeout(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let limit = plan.bench.timeout.as_secs_f64();
    let is_searched = plan.sla.is_some() || plan.explore.is_some();
    let is_phases = plan.bench.runner == BenchRunner::Phases;
    let least_s = |load: &Params| match plan.bench.runner {
        BenchRunner::Native => bench::native::last_due_s(load),
        BenchRunner::Phases => Some(PhaseSettings::read(load).ok()?.shortest().as_secs_f64()),
        BenchRunner::Iterations | BenchRunner::Offline(_) | BenchRunner::Command(_) => None,
    };
    let mut lasting = loads(matrix).filter_map(|load| Some((least_s(&load)?, load)));
    let is_timed = |load: &Params| is_phases || spelling::find(load, "duration").is_some();
    if let Some((seconds, load)) = lasting.find(|(seconds, load)| *seconds > limit && (!is_searched || is_timed(load)))
    {
        if is_timed(&load) {
            let timeout = || plan.origin.key_span(&["bench", "timeout"]);
            let span = place_named_in(plan, "duration").unwrap_or_else(timeout);
            let message = format!("requests are sent for {seconds:.0} s, and bench.timeout is {limit:.0} s");
            found.object(span, message, "lower duration, or raise bench.timeout");
            return;
        }
        let rate = spelling::find(&load, "request_rate").map(show).unwrap_or_default();
        let message = format!(
            "with `request_rate` {rate} the last request is due after {seconds:.0} s, and bench.timeout is {limit:.0} s"
        );
        let span = place_named_in(plan, "request_rate").unwrap_or_else(|| plan.origin.key_span(&["bench", "params"]));
        found.object(
            span,
            message,
            "send fewer prompts, raise the rate, or raise bench.timeout",
        );
    }
}

/// Reports figures that a target or an assertion bounds, or by which servers or runs are judged, and that a load does not ask for. Of
/// commands, only those like `vllm bench serve` are known.
fn check_judged_figures(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let offline = plan.bench.runner.offline();
    let is_own = plan.bench.runner == BenchRunner::Native;
    // Loads are read once for all figures, and not at all if no figure is judged.
    let known: LazyCell<Vec<_>, _> = LazyCell::new(|| {
        let read = |load: Params| {
            let settings = match matrix.bench_argv(&load) {
                Some(argv) if bench::speaks_vllm_bench(&argv) => NativeSettings::read(&bench::read_params(&argv)).ok(),
                Some(_) => None,
                None => NativeSettings::read(&load).ok().filter(|_| offline.is_none()),
            };
            (load, settings)
        };
        loads(matrix).map(read).collect()
    });
    let mut require = |key: &str, place: Span, judged_by: JudgedBy<'_>| {
        let is_about = |load: &Params| match judged_by {
            JudgedBy::Assertion(conditions) => {
                let mut own = conditions
                    .iter()
                    .filter(|condition| condition.param.side == Side::Bench);
                own.all(|condition| condition.holds(load))
            }
            JudgedBy::Target | JudgedBy::Plan => true,
        };
        let mut about = known.iter().filter(|(load, _)| is_about(load));
        let remedy = about.find_map(|(load, settings)| match offline {
            Some(offline) => bench::remedy_for_figure(offline, key, load),
            None => how_to_ask(key, settings.as_ref()?, is_own, judged_by),
        });
        if let Some(remedy) = remedy {
            found.object(place, format!("not every run will report `{key}`"), remedy);
        }
    };
    let targets = plan.sla.iter().flat_map(|sla| &sla.targets).enumerate();
    let targets = targets.map(|(i, target)| (&["sla", "target"][..], i, &target.criteria, JudgedBy::Target));
    let asserted = plan.report.requirements.iter().filter_map(Requirement::assertion);
    let asserted = asserted.enumerate().map(|(i, assertion)| {
        let judged_by = JudgedBy::Assertion(&assertion.conditions);
        (&["assert"][..], i, &assertion.criteria, judged_by)
    });
    for (table, i, criteria, judged_by) in targets.chain(asserted) {
        for criterion in criteria {
            let key = match &criterion.quantity {
                Quantity::Metric(key) => Some(&**key),
                Quantity::Attainment(limits) => {
                    let mut limited = limits.iter().map(|limit| limit.latency.name());
                    limited.find(|name| is_detail(name, is_own, judged_by))
                }
            };
            if let Some(key) = key {
                let place = plan.origin.key_span(&[table, &[&i.to_string(), key]].concat());
                require(key, place, judged_by);
            }
        }
    }
    for (name, place) in judging_figures(plan) {
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        require(split_class(name).1, plan.origin.value_span(&place), JudgedBy::Plan);
    }
}

/// Part of a plan that judges runs by a figure.
#[derive(Clone, Copy)]
enum JudgedBy<'a> {
    /// A target of a search, which computes percentiles from the requests themselves.
    Target,
    /// An assertion about the loads that meet its conditions.
    Assertion(&'a [Condition]),
    /// Another table, about all loads.
    Plan,
}

/// Returns true for a latency of single requests that only detailed results have. Every result has `e2el_ms`, but a search reads the
/// requests of a client other than vsweep's `own` only if all latencies are there.
fn is_detail(key: &str, is_own: bool, judged_by: JudgedBy<'_>) -> bool {
    let needs_all = !is_own && matches!(judged_by, JudgedBy::Target);
    matches!(key, "ttft_ms" | "tpot_ms") || (key == "e2el_ms" && needs_all)
}

/// Returns a remedy for a figure that the load does not report. If the load generator is not vsweep's `own`, some figures are unknown.
fn how_to_ask(key: &str, settings: &NativeSettings, is_own: bool, judged_by: JudgedBy<'_>) -> Option<String> {
    if key == GOODPUT {
        let remedy = "say which requests are good: goodput = [\"ttft:500\"] in [bench.params]";
        return settings.figures.targets.is_empty().then(|| remedy.to_owned());
    }
    if is_own && settings.api.choices() > 1 && (key.contains("tpot") || key.contains("itl")) {
        return Some("remove n from extra_body: several choices have no times per token".to_owned());
    }
    if is_detail(key, is_own, judged_by) {
        let is_kept = settings.figures.save_detailed || (is_own && matches!(judged_by, JudgedBy::Target));
        let remedy = "set save_detailed = true in [bench.params], or bound a percentile such as p99_ttft_ms";
        return (!is_kept).then(|| remedy.to_owned());
    }
    let (statistic, rest) = key.split_once('_')?;
    let latency = rest.strip_suffix("_ms")?;
    if !is_own && !PLAN_METRICS.split(',').any(|metric| metric == latency) {
        return None;
    }
    let percentile = statistic.strip_prefix('p').and_then(|text| text.parse::<f64>().ok());
    let has_requests = is_own || settings.figures.save_detailed;
    if percentile.is_some() && has_requests && matches!(judged_by, JudgedBy::Target) {
        return None;
    }
    if let Some(percent) = percentile.filter(|percent| statistic != format!("p{percent}")) {
        return Some(format!("write p{percent}_{rest}, as results do"));
    }
    let reported = settings.metrics();
    if !reported.iter().any(|metric| metric.name() == latency) {
        return Some(match settings.api.backend().generates() {
            true => format!("add {latency} to percentile_metrics in [bench.params]"),
            false => "name a statistic of e2el, the only latency of a backend that generates no text".to_owned(),
        });
    }
    let percentile = percentile.filter(|percentile| !settings.percentiles().contains(percentile))?;
    Some(format!("add {percentile} to metric_percentiles in [bench.params]"))
}

/// Returns the position of the class that a sentence is about, such as `class 2 of mix …`. If the sentence names a key of the class,
/// returns the position of that key.
fn place_in_mix(plan: &Plan, sentence: &str) -> Option<Span> {
    let (number, about) = sentence.strip_prefix("class ")?.split_once(" of mix")?;
    let place = (number.parse::<usize>().ok()? - 1).to_string();
    let class = ["bench", MIX, &place];
    let typed = plan.origin.root.child("bench")?.child(MIX)?.child(&place)?.entries();
    let is_named = |entry: &&Entry| words(about).any(|word| word == entry.key || spelling::flag(word) == entry.key);
    Some(match typed.iter().find(is_named) {
        Some(entry) => entry.key_span,
        None => plan.origin.value_span(&class),
    })
}

/// Returns the position of the first load parameter that the sentence names and the plan sets, or else of the mix if the sentence names the
/// mix.
fn place_named_in(plan: &Plan, sentence: &str) -> Option<Span> {
    let mut names = words(sentence).flat_map(|word| [word.to_owned(), spelling::flag(word)]);
    let named = || names.find_map(|name| place_of_param(plan, Side::Bench, |typed| typed == name, Origin::key_span));
    let mix = ["bench", MIX];
    place_in_mix(plan, sentence).or_else(named).or_else(|| {
        (words(sentence).any(|word| word == MIX) && plan.origin.has(&mix)).then(|| plan.origin.key_span(&mix))
    })
}

/// The words of a sentence that may be names.
fn words(sentence: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    sentence.split(move |c| !is_name(c)).filter(|word| !word.is_empty())
}

/// Returns a problem made from a sentence that ends in the remedy, after the last `; `.
pub(super) fn problem(span: Span, sentence: &str) -> Problem {
    let (message, remedy) = sentence.rsplit_once("; ").unwrap_or((sentence, ""));
    let unknown = message
        .split_once("has no parameter \"")
        .map(|(_, name)| name.trim_end_matches('"'));
    let remedy = match unknown.is_some_and(is_server_flag) {
        true => "it is a flag of the server: move it to [serve.params]",
        false => remedy,
    };
    Problem::new(span, message, remedy)
}
