//! The starts that a comparison or an optimisation chooses by the results so far. The `[compare]` table of a plan becomes entrants and
//! questions about each metric at each load.

use super::optimization::{Predictions, optimization};
use super::schedule::{Schedule, Start};
use vsweep_base::ids::ServerId;
use vsweep_plan::matrix::{Matrix, ServerConfig};
use vsweep_plan::{Compare, Parallel, Plan};
use vsweep_record::evidence::{NextProposal, OptimizationProgress};
use vsweep_record::journal::{AskedMetric, ComparisonDesign, ComparisonProgress, Entrant, NextStart, State};
use vsweep_record::table::{Better, Measure};
use vsweep_strategy::selection::{Member, Placement};
use vsweep_strategy::stats::{Bound, Margin};

impl Schedule<'_> {
    /// Returns true if the plan chooses its starts one after another by their results: a comparison, or an optimisation.
    pub fn chooses_starts(self) -> bool {
        self.plan.compare.is_some() || self.plan.optimize.is_some()
    }

    /// Returns the starts that a comparison or an optimisation wants next. The starts in `tried` are under way in this session, or were
    /// tried by it. They are not retried.
    pub fn wanted_starts(self, state: &State, tried: &[(ServerId, u32)]) -> Vec<Start> {
        let retries = |server: &ServerId, slot: u32| {
            let is_tried = tried.iter().any(|(other, at)| other == server && *at == slot);
            self.retry_failed && !is_tried
        };
        match self.plan.optimize {
            Some(_) => self.promising_starts(state, tried, &retries),
            None => self.paired_starts(state, &retries),
        }
    }

    /// Returns a start of a server of the plan, on which everything is measured.
    pub fn start_of(self, server: &ServerId, slot: u32) -> Option<Start> {
        let server = self.matrix.servers().find(|own| own.id == *server)?;
        Some(Start::of(server, slot))
    }

    /// Returns the starts that a comparison wants next.
    fn paired_starts(self, state: &State, retries: &dyn Fn(&ServerId, u32) -> bool) -> Vec<Start> {
        let Some(compared) = compared(self.plan, self.matrix) else {
            return Vec::new();
        };
        let ComparisonProgress::Starts(next) = compared.progress(state, retries) else {
            return Vec::new();
        };
        let start = |next: NextStart| {
            Some(Start {
                set: next.set,
                ..self.start_of(&compared.entrants[next.entrant].server, next.slot)?
            })
        };
        next.into_iter().filter_map(start).collect()
    }

    /// Returns the starts that an optimisation wants next.
    fn promising_starts(
        self,
        state: &State,
        tried: &[(ServerId, u32)],
        retries: &dyn Fn(&ServerId, u32) -> bool,
    ) -> Vec<Start> {
        let recorded = state.optimization();
        let Some(optimization) = optimization(self.plan, self.matrix, recorded, &Predictions::new(), None) else {
            return Vec::new();
        };
        let progress = OptimizationProgress::of(&optimization, state, &self.plan.report.requirements, retries);
        let Ok(next) = progress.next(self.at_once, tried) else {
            return Vec::new();
        };
        let start = |next: NextProposal| {
            Some(Start {
                proposed: next.reason,
                ..self.start_of(&optimization.contestants[next.contestant].server, next.slot)?
            })
        };
        next.into_iter().filter_map(start).collect()
    }
}

/// Returns the comparison of a plan, as its session records it; `None` if the plan asks for none.
pub fn compared(plan: &Plan, matrix: &Matrix) -> Option<ComparisonDesign> {
    let compare = plan.compare.as_ref()?;
    let servers: Vec<ServerConfig> = matrix.servers().collect();
    let first = servers.first()?;
    let loads: Vec<String> = matrix
        .points_of(first)
        .map(|point| plan.secrets.redact(&point.name))
        .collect();
    let entrants = servers.iter().map(|server| Entrant {
        server: server.id.clone(),
        name: plan.secrets.redact(&server.name),
        points: matrix.points_of(server).map(|point| point.id).collect(),
    });
    let family = (0..loads.len()).flat_map(|load| metrics_at(compare, load)).collect();
    Some(ComparisonDesign {
        entrants: entrants.collect(),
        family,
        loads,
        runs: plan.runs.least(),
        max_starts: compare.max_starts as usize,
        placement: match (plan.exec.parallel, servers.len()) {
            (Parallel::No, _) | (_, 3..) => Placement::InTurn,
            _ => Placement::SideBySide,
        },
        max_seconds: compare.max_time.map(|time| time.as_secs_f64()),
    })
}

/// Returns the questions at one load. A metric with a limit is judged by the limit alone.
fn metrics_at(compare: &Compare, load: usize) -> Vec<AskedMetric> {
    let limited = |metric: &String| compare.fail_on.iter().any(|limit| limit.metric == *metric);
    let unlimited = compare.metrics.iter().filter(|metric| !limited(metric));
    let unlimited = unlimited.map(|metric| (metric, None));
    let limits = compare.fail_on.iter();
    let limits = limits.map(|limit| (&limit.metric, Some(Bound::percent(limit.percent))));
    let metrics = unlimited.chain(limits).map(|(metric, bound)| AskedMetric {
        member: Member {
            better: Measure::parse(metric).map_or(Better::Higher, |measure| measure.better),
            margin: Margin::percent(compare.margins.percent_of(metric)),
            bound,
        },
        metric: metric.clone(),
        load,
    });
    metrics.collect()
}
