//! Checks that need both sides of a plan expanded: size, duplicates, exclusions that match nothing, points that are left, and what a
//! search, a comparison or an optimisation needs.

use super::search::NUM_PROMPTS;
use super::space::{MOST_PAIRS, Sides, Space, zip_group};
use super::starved::span_of_param;
use super::{FilterKind, Matrix, ServerConfig};
use crate::spelling::find;
use crate::value::{number, read_text};
use crate::{Condition, Diagnostics, Link, Parallel, Plan, Problem, Side, Span, equality_key};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use vsweep_base::ids::ServerId;
use vsweep_base::units::{show_count, show_duration};

/// Reports a matrix that is too large, and returns false for it.
pub(super) fn size(plan: &Plan, sides: &Sides, found: &mut Diagnostics) -> bool {
    if sides.fit() {
        return true;
    }
    let shown = sides.pairs().map_or(String::from("more than 10^38"), show_count);
    let most = show_count(MOST_PAIRS);
    let mut problem = Problem::of(
        format!("the plan has {shown} pairs of server and load"),
        format!("at most {most} are allowed; give fewer values, or zip axes"),
    );
    for side in [Side::Serve, Side::Bench] {
        let params = sides.of(side).table_params.iter();
        for param in params.filter(|param| param.axis.values().len() > 1) {
            let span = plan.origin.key_span(&[side.table(), "params", &param.name]);
            let values = show_count(param.axis.values().len() as u64);
            problem = problem.and(span, format!("{values} values"));
        }
    }
    found.add(problem);
    false
}

/// Reports exclusions that match nothing. If only a part of the plan could be read (`is_whole` is false), an exclusion that names an unread
/// parameter may match, and is not reported.
pub(super) fn exclusions(plan: &Plan, matrix: &Matrix, is_whole: bool, found: &mut Diagnostics) {
    let is_read = |Condition { param, .. }: &Condition| plan.param(param.side, &param.name).is_some();
    let filters = matrix
        .filters
        .iter()
        .filter(|filter| filter.kind == FilterKind::Exclusion);
    let blocks = plan.exclude.iter().enumerate().filter(|(_, block)| !block.is_empty());
    for (filter, (position, block)) in filters.zip(blocks) {
        if !filter.pairs.is_possible() && (is_whole || block.iter().all(is_read)) {
            let span = plan.origin.value_span(&["exclude", &position.to_string()]);
            // An option of the command line may leave only values that need no exclusion.
            match plan.origin.options().is_empty() {
                true => {
                    let remedy = "correct a condition, or remove the block";
                    found.object(span, "this exclusion matches nothing", remedy);
                }
                false => {
                    let remedy = "correct a condition, if the options are not the reason";
                    let message = "with the options given, this exclusion matches nothing";
                    found.warn(Problem::new(span, message, remedy));
                }
            }
        }
    }
}

/// Reports configurations of one side that are the same measurement. Dimensions never set each other's parameters. So if there are
/// duplicates, some dimension has two equal positions, and comparing the positions of each dimension finds them without visiting the
/// product.
///
/// If only a part of the plan could be read, only values that are given twice are reported, except those of axes that the plan's links
/// (`tied`) zip. Other configurations may be equal only because a part is missing.
pub(super) fn duplicates(plan: &Plan, matrix: &Matrix, tied: &Link, found: &mut Diagnostics) {
    let is_whole = found.is_empty();
    for side in [Side::Serve, Side::Bench] {
        let space = matrix.sides.of(side);
        for dimension in 0..space.lengths.len() {
            if let Some((first, second)) = equal_positions(matrix, side, dimension) {
                let label = |position| space.label(space.index_at(dimension, position));
                let (one, other) = (label(first), label(second));
                let mut along = space.along(dimension);
                let is_tied = along.any(|param| zip_group(tied, side, &param.name).is_some());
                if !is_whole && (one != other || is_tied) {
                    continue;
                }
                let message = match one == other {
                    true => format!("`{one}` is the same {} twice", side.noun()),
                    false => format!("`{one}` and `{other}` are the same {}", side.noun()),
                };
                let params = [first, second].map(|position| space.params(space.index_at(dimension, position)));
                let shown = params.each_ref().map(|params| matrix.secrets.redact_params(params));
                let remedy = match params[0] != params[1] && shown[0] == shown[1] {
                    true => "remove one: only a secret differs, and a secret cannot be an axis",
                    false => "remove one",
                };
                let span = |position| position_span(plan, space, side, dimension, position);
                let problem = Problem::new(span(second), message, remedy);
                found.add(problem.and(span(first), "first here"));
            }
        }
    }
}

/// Returns the first two positions along a dimension that have the same identity or equal values (`1` and `1.0`, for a load
/// also `"1"`).
fn equal_positions(matrix: &Matrix, side: Side, dimension: usize) -> Option<(usize, usize)> {
    let space = matrix.sides.of(side);
    if side == Side::Bench && are_distinct_numbers(matrix, dimension) {
        return None;
    }
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(space.lengths[dimension]);
    (0..space.lengths[dimension]).find_map(|position| {
        let index = space.index_at(dimension, position);
        let identity = side_identity(matrix, side, index);
        let mut params = space.params(index);
        if side == Side::Bench {
            params
                .values_mut()
                .for_each(|value| *value = read_text(value).into_owned());
        }
        let values = equality_key(&Value::Object(params));
        let earlier = seen.insert(identity, position);
        earlier.or(seen.insert(values, position)).map(|first| (first, position))
    })
}

/// Identity of one side's configuration, used to find duplicates.
fn side_identity(matrix: &Matrix, side: Side, index: usize) -> String {
    match side {
        Side::Serve => {
            let server = matrix.server(index);
            match matrix.plan.bench.runner.offline() {
                None => server.id.to_string(),
                // Flags of the HTTP server have no effect on an offline benchmark.
                Some(offline) => format!("{:?} {:?}", matrix.offline_argv(offline, &server.argv), server.env),
            }
        }
        Side::Bench => matrix.point(index, &ServerId::default()).id.to_string(),
    }
}

/// Returns true if some parameter has a different number at each position along a dimension of the loads. Then all these loads differ,
/// because a load's identity holds its parameters, except secrets. The check saves time: an axis may have a million values.
fn are_distinct_numbers(matrix: &Matrix, dimension: usize) -> bool {
    matrix.sides.bench.along(dimension).any(|param| {
        let values = param.axis.values();
        let are_numbers = !matrix.secrets.announces(&param.name) && values.iter().all(Value::is_number);
        are_numbers && values.iter().map(equality_key).collect::<HashSet<String>>().len() == values.len()
    })
}

/// Returns the place in the text of a position of a dimension: the item of a list, the combination, or the expression that produces it.
fn position_span(plan: &Plan, space: &Space, side: Side, dimension: usize, position: usize) -> Span {
    match space.along(dimension).next() {
        Some(param) => {
            let path = [side.table(), "params", &param.name, &position.to_string()];
            plan.origin.value_span(&path)
        }
        None => plan.origin.combo_span(side, position, None),
    }
}

/// Reports searches that cannot work: the number of requests of a run is not known, they are not sent within `bench.timeout` at any rate, or
/// are fewer than a number in flight that the search may try.
pub(super) fn searches(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let is_uncounted = |bench: &usize| matrix.is_uncounted(*bench) && matrix.is_kept(*bench);
    let uncounted = || (0..matrix.sides.bench.len()).find(is_uncounted);
    if let Some(bench) = matrix.finds_its_loads().then(uncounted).flatten() {
        let message =
            "num_prompts = 0 stands for every row of a file, and a search has to know how many requests it sends";
        let span = span_of_param(plan, &matrix.sides.bench, bench, NUM_PROMPTS).unwrap_or_default();
        found.object(
            span,
            message,
            "write the number of rows, or remove it if there is a duration",
        );
    }
    let Some(sla) = &plan.sla else { return };
    let span = plan.origin.key_span(&["sla"]);
    let mut loads = 0..matrix.sides.bench.len();
    if loads.clone().any(|bench| matrix.lowest(bench) > sla.upper) {
        let (rate, timeout) = (sla.upper, show_duration(plan.bench.timeout));
        let message =
            format!("at no rate up to {rate} are the requests of a run sent within bench.timeout ({timeout})");
        let remedy = "raise bench.timeout, send fewer (num_prompts), or raise sla.max";
        found.object(span, message, remedy);
    }
    if let Some((load, requests)) = loads.find_map(|bench| matrix.unreachable(bench)) {
        let message = format!("[sla] may try {load} requests in flight, but a run sends only {requests} (num_prompts)");
        let remedy = "write num_prompts = { per = \"max_concurrency\", times = 10 }, or lower sla.max to what num_prompts brings";
        found.object(span, message, remedy);
    }
}

/// If no point is left, reports the links that no pair meets, or else the links and exclusions together.
pub(super) fn leftovers(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    if matrix.points_of_server.iter().any(|count| *count > 0) {
        return;
    }
    let mut blamed = false;
    for (position, link) in matrix.filters.iter().take(plan.link.equal.len()).enumerate() {
        if !link.pairs.is_possible() {
            blamed = true;
            let span = plan.origin.value_span(&["link", "equal", &position.to_string()]);
            let message = "no pair of server and load meets this link";
            found.object(span, message, "give the axes common values");
        }
    }
    if !blamed && found.is_empty() {
        let table = if plan.exclude.is_empty() { "link" } else { "exclude" };
        let message = "links and exclusions leave no point";
        found.object(plan.origin.key_span(&[table]), message, "loosen one of them");
    }
}

/// Checks that the servers of a comparison can run at the same time, if the plan wants that.
fn side_by_side(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let servers = matrix.counts().servers;
    let (message, remedy) = match plan.exec.parallel {
        Parallel::Servers(1) => (
            "the two servers of a comparison cannot run at once where one server runs at a time",
            "write parallel = 2, or remove [exec] to measure them in turn on the same GPUs",
        ),
        Parallel::Gpus | Parallel::Servers(_) if servers > 2 => (
            "an axis is bisected one start after another, so nothing can run side by side",
            "remove [exec]",
        ),
        _ => return,
    };
    found.object(plan.origin.value_span(&["exec", "parallel"]), message, remedy);
}

/// Checks that an optimisation has something to choose, and that the latencies of the servers are comparable.
pub(super) fn optimization(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let Some(optimize) = &plan.optimize else { return };
    let span = plan.origin.value_span(&["optimize"]);
    if matrix.counts().servers < 2 {
        let remedy = "give parameters in [serve.params] several values";
        found.object(
            span,
            "there is nothing to choose: the plan has at most one server",
            remedy,
        );
    }
    let is_latency = |metric: &String| metric.ends_with("_ms") && plan.sla.is_none();
    if !optimize.objective.as_ref().is_some_and(is_latency) {
        return;
    }
    // The best latency of a server is that at its lowest load.
    for name in ["max_concurrency", "request_rate"] {
        let lowest = |server: ServerConfig| {
            let loads = matrix.points_of(&server);
            let loads = loads.filter_map(|point| number(find(&point.params, name)?));
            loads.reduce(f64::min)
        };
        let mut all = matrix.servers().map(lowest);
        let first = all.next();
        if all.any(|other| Some(other) != first) {
            let message = format!("the servers differ in their lowest `{name}`, so their latencies cannot be compared");
            let remedy = "remove the link or exclusion that takes the lowest load from some of them";
            found.object(span, message, remedy);
        }
    }
}

/// Checks that the servers of a comparison are comparable.
pub(super) fn comparison(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let Some(compare) = &plan.compare else { return };
    side_by_side(plan, matrix, found);
    let span = plan.origin.value_span(&["compare"]);
    let mut refuse = |message: &str, remedy: &str| found.object(span, message, remedy);
    let mut loads = matrix.servers().map(|server| {
        let points = matrix.points_of(&server);
        points.map(|point| point.params).collect::<Vec<_>>()
    });
    let first = loads.next().unwrap_or_default();
    let others: Vec<_> = loads.collect();
    if others.is_empty() {
        let remedy = "give two, for example command = { base = \"...\", new = \"...\" } or a parameter with two values";
        refuse("there is nothing to compare: the plan has one server", remedy);
    }
    if others.iter().any(|other| *other != first) {
        let remedy = "remove the link or exclusion that takes a load from one of them";
        refuse("the servers to compare have different loads", remedy);
    }
    if others.len() > 1 {
        let axis = format!(
            "the plan compares {} servers, so they are bisected as an axis",
            others.len() + 1
        );
        if first.len() > 1 {
            let remedy = "leave one load, the one at which the metric changed";
            refuse(&format!("{axis}, with one load instead of {}", first.len()), remedy);
        }
        if compare.metrics.len() != 1 || !compare.fail_on.is_empty() {
            let remedy = "leave one of `metrics` and no `fail_on`, or two servers";
            refuse(&format!("{axis}, by a single metric"), remedy);
        }
    }
}
