//! Warns of loads that send fewer requests than they should hold in flight. Their runs cannot measure the load that they claim. The plan is
//! valid all the same, so this is not an error.

use super::Matrix;
use super::search::NUM_PROMPTS;
use super::space::Space;
use crate::{Diagnostics, Plan, Problem, Side, Span, number_or_text, spelling};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use vsweep_base::units::show_many;
use vsweep_strategy::search::Vary;

/// Number of requests of a run if the plan does not set it, as in `vllm bench serve`.
const DEFAULT_REQUESTS: u64 = 1000;
/// Maximum number of loads that are checked. A plan that was written by hand has far fewer.
const MOST_LOADS: usize = 100_000;

/// Warns once of each place in the plan that sets fewer requests than should be in flight. The warning names the load that should have the
/// most requests in flight.
pub(super) fn warn(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    if matrix.finds_its_loads() {
        return;
    }
    let bench = &matrix.sides.bench;
    let mut starved: BTreeMap<Span, Vec<(u64, u64, Span)>> = BTreeMap::new();
    for index in 0..bench.len().min(MOST_LOADS) {
        if let Some((requests, users)) = matrix.starved(index)
            && matrix.is_kept(index)
        {
            let users_at = span_of_param(plan, bench, index, Vary::MaxConcurrency.name()).unwrap_or_default();
            let requests_at = span_of_param(plan, bench, index, NUM_PROMPTS).unwrap_or(users_at);
            starved
                .entry(requests_at)
                .or_default()
                .push((requests, users, users_at));
        }
    }
    for (at, loads) in starved {
        let Some((requests, users, users_at)) = loads.iter().min_by_key(|(_, users, _)| Reverse(users)) else {
            continue;
        };
        let others = match loads.len() - 1 {
            0 => String::new(),
            others => format!("; the same holds for {}", show_many(others as u64, "other load")),
        };
        let message = format!(
            "{requests} {} (num_prompts) cannot keep {users} in flight (max_concurrency){others}",
            if *requests == 1 { "request" } else { "requests" }
        );
        let instead = match bench.derived(NUM_PROMPTS) {
            Some(_) => format!("raise `times` and `max` here until num_prompts is at least {users}"),
            None => String::from("write num_prompts = { per = \"max_concurrency\", times = 10 }"),
        };
        let problem = Problem::of(message, format!("{instead}, or lower max_concurrency to {requests}"));
        found.warn(match *users_at == at {
            true => problem.at(at),
            false => problem
                .and(at, format!("{requests} requests"))
                .and(*users_at, format!("{users} in flight")),
        });
    }
}

impl Matrix {
    /// Returns the number of requests of a load and the number that should be in flight, if the first is lower. With a request rate, the
    /// number in flight is only a limit, so such a load is never starved.
    fn starved(&self, index: usize) -> Option<(u64, u64)> {
        let value = |name: &str| self.sides.bench.value(index, name);
        let users = number_or_text(&*value(Vary::MaxConcurrency.name())?)?;
        let requests = match value(NUM_PROMPTS) {
            Some(requests) => number_or_text(&requests)?,
            None if self.is_own_load() && !self.is_timed(index) => DEFAULT_REQUESTS as f64,
            // The default of another program is unknown.
            None => return None,
        };
        let has_rate = value(Vary::RequestRate.name())
            .and_then(|rate| number_or_text(&rate))
            .is_some_and(f64::is_finite)
            || value("ramp_up_strategy").is_some_and(|strategy| !strategy.is_null());
        // 0 requests stand for the whole dataset, whose size is not known here.
        (!has_rate && requests > 0.0 && users.is_finite() && requests < users)
            .then_some((requests as u64, users as u64))
    }
}

/// Position of a load's parameter in the plan: the item of a list, the combination's value, or the whole value.
pub(super) fn span_of_param(plan: &Plan, space: &Space, index: usize, name: &str) -> Option<Span> {
    let table = Side::Bench.table();
    if !space.combos.is_empty() {
        let position = space.position(index, 0);
        let mut typed = plan.combos(Side::Bench)[position].params.keys();
        if let Some(typed) = typed.find(|typed| spelling::same(typed, name)) {
            let path = [table, "combos", &position.to_string(), typed];
            return Some(match plan.origin.has(&path) {
                true => plan.origin.value_span(&path),
                false => plan.origin.combo_span(Side::Bench, position, None),
            });
        }
    }
    let param = space.param(name)?;
    let position = param
        .dimension
        .map(|dimension| space.position(index, dimension).to_string());
    let path = [table, "params", &param.name].into_iter().chain(position.as_deref());
    Some(plan.origin.value_span(&path.collect::<Vec<_>>()))
}
