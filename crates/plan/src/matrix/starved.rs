//! Loads that send fewer requests than they are to hold in flight: such a run cannot measure what it claims. The plan is
//! valid all the same, so this is a warning.

use super::Matrix;
use super::space::{Slot, Space};
use crate::plan::{Diagnostics, Plan, Problem, Side, Span, number, spelling};
use crate::units::show_many;
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_strategy::search::Vary;

const NUM_PROMPTS: &str = "num_prompts";
/// Requests of a run for which the plan says nothing, as in `vllm bench serve`.
const USUAL: u64 = 1000;
/// Loads looked at: far more than the distinct ones of any plan that is not generated.
const MOST_LOADS: usize = 100_000;

/// What one place of the plan says of how many requests are sent.
#[derive(Default)]
struct Starved {
    requests: u64,
    /// The most in flight that these are too few for, and where that stands.
    users: u64,
    users_at: Span,
    loads: usize,
    /// Whether the number of requests follows that of users.
    is_derived: bool,
}

/// Warns of each place that gives a number of requests below a number in flight, once.
pub(super) fn warn(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    if matrix.finds_its_loads() {
        return;
    }
    let mut starved: BTreeMap<Span, Starved> = BTreeMap::new();
    for index in 0..matrix.sides.bench.len().min(MOST_LOADS) {
        let Some((requests, users)) = matrix.starved(index) else {
            continue;
        };
        if !(0..matrix.sides.serve.len()).any(|serve| matrix.keeps(serve, index)) {
            continue;
        }
        let users_at = place(plan, &matrix.sides.bench, index, Vary::MaxConcurrency.name()).unwrap_or_default();
        let at = place(plan, &matrix.sides.bench, index, NUM_PROMPTS).unwrap_or(users_at);
        let entry = starved.entry(at).or_default();
        entry.loads += 1;
        entry.is_derived = matrix.sides.bench.derived(NUM_PROMPTS).is_some();
        if users > entry.users {
            (entry.requests, entry.users, entry.users_at) = (requests, users, users_at);
        }
    }
    for (at, starved) in starved {
        found.warn(starved.problem(at));
    }
}

impl Starved {
    fn problem(&self, at: Span) -> Problem {
        let Starved { requests, users, .. } = self;
        let more = match self.loads {
            1 => String::new(),
            loads => format!(
                ", nor do those of {} keep theirs",
                show_many(loads as u64 - 1, "other load")
            ),
        };
        let message =
            format!("{requests} requests (num_prompts) cannot keep {users} in flight (max_concurrency){more}");
        let remedy = match self.is_derived {
            true => format!(
                "raise `times` and `max` here until num_prompts is at least {users}, or lower max_concurrency to {requests}"
            ),
            false => format!(
                "write num_prompts = {{ per = \"max_concurrency\", times = 10 }}, or lower max_concurrency to {requests}"
            ),
        };
        let problem = Problem::new(at, message, remedy);
        match self.users_at == at {
            true => problem,
            false => problem
                .note(format!("{requests} requests"))
                .and(self.users_at, format!("{users} in flight")),
        }
    }
}

impl Matrix {
    /// Requests and users of a load that has fewer of the former. Where requests come at a rate, the number in flight is a
    /// limit and not the load.
    fn starved(&self, index: usize) -> Option<(u64, u64)> {
        let value = |name: &str| self.sides.bench.value(index, name);
        let users = number(&*value(Vary::MaxConcurrency.name())?)?;
        let requests = match value(NUM_PROMPTS) {
            Some(requests) => number(&requests)?,
            // What another program takes by itself is not known.
            None if self.is_own_load() => USUAL as f64,
            None => return None,
        };
        let has_rate = value(Vary::RequestRate.name())
            .and_then(|rate| number(&rate))
            .is_some_and(f64::is_finite)
            || value("ramp_up_strategy").is_some_and(|strategy| !strategy.is_null());
        // No number of requests stands for all rows of a dataset.
        (!has_rate && requests > 0.0 && users.is_finite() && requests < users)
            .then_some((requests as u64, users as u64))
    }
}

/// Where the plan gives a parameter of a load: the item of a list, the combination, or the whole value.
fn place(plan: &Plan, space: &Space, index: usize, name: &str) -> Option<Span> {
    let table = Side::Bench.table();
    let position = |dimension: usize| space.position(index, dimension).to_string();
    if space
        .combo(index)
        .is_some_and(|combo| spelling::find(&combo.params, name).is_some())
    {
        let keys = [table, "combos", &position(0)];
        return Some(match plan.origin.has(&keys) {
            true => {
                let typed = plan.combos(Side::Bench)[space.position(index, 0)].params.keys();
                let typed = typed.into_iter().find(|typed| spelling::same(typed, name));
                plan.origin
                    .value_span(&[&keys[..], &typed.map(String::as_str).into_iter().collect_vec()].concat())
            }
            false => plan.origin.key_span(&[table, "params_file"]),
        });
    }
    let (typed, slot) = space.slot(name)?;
    Some(match slot {
        Slot::Axis { dimension, .. } => plan.origin.value_span(&[table, "params", typed, &position(*dimension)]),
        Slot::Fixed(_) | Slot::Derived(_) => plan.origin.value_span(&[table, "params", typed]),
    })
}
