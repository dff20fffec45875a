//! The metrics of an answer: those of its questions, targets and frontiers. Also the assertions of a plan as targets of its questions, each
//! with the points that the assertion is about.

use super::Evidence;
use crate::journal::Objective;
use crate::table::{Column, MetricSet, PER_GPU, PER_USER, Point, Points, Workload, natural_direction};
use itertools::Itertools;
use vsweep_answer::{Better, Metric, MetricNoise, NoisePrior, Scale, Target, TargetPoint};
use vsweep_plan::{Assertion, Params, Requirement, Side};
use vsweep_strategy::search::{Criterion, Quantity};
use vsweep_strategy::stats::split_class;

/// Metric of the price of a million output tokens, which is known if GPUs have a price.
pub(super) const COST: &str = "cost_per_million_output_tokens";
/// Metric of the energy of an output token, which is known if power was measured.
pub(super) const ENERGY: &str = "joules_per_output_token";

/// Counts of a run that have no noise.
const COUNTS: [&str; 3] = ["completed", "failed", "preemptions"];

/// Returns the metrics of an experiment, except those for which no run has a number.
pub(super) fn metrics(evidence: &Evidence<'_>, workloads: &[Workload<'_>]) -> Vec<Metric> {
    let judged = workloads.iter().flat_map(|workload| {
        let metric_set = MetricSet::of(evidence.points, workload);
        let shown = metric_set.shown.iter().map(|shown| shown.metric);
        let latency = MetricSet::measured(evidence.points, workload)[1];
        shown.chain([metric_set.throughput.1]).chain(latency)
    });
    let of_classes = MetricSet::of_classes(evidence.points.runs);
    let others = of_classes.chain([PER_USER, PER_GPU, COST, ENERGY]);
    let shares = criteria(evidence).filter(|criterion| matches!(criterion.quantity, Quantity::Attainment(_)));
    let shares = shares.map(|criterion| criterion.figure()).collect_vec();
    let bounded = criteria(evidence).map(|criterion| criterion.figure());
    let objective = evidence.objective.and_then(|objective| match objective {
        Objective::Metric(metric) => Some(metric.clone()),
        Objective::Load(_) => None,
    });
    let names = judged
        .chain(others)
        .map(str::to_owned)
        .chain(bounded)
        .chain(objective)
        .unique();
    let is_known = |name: &String| {
        let column = evidence.points.runs.column(name);
        column.is_some_and(Column::has_numbers)
    };
    names
        .filter(is_known)
        .map(|name| {
            let is_share = shares.contains(&name);
            let better = if is_share {
                Better::Higher
            } else {
                natural_direction(&name)
            };
            metric(evidence.points, &name, (better, is_share), evidence.state.known_noise())
        })
        .collect()
}

/// Returns a metric on the scale that the values of its runs allow. `known` is the noise that other experiments measured.
pub(super) fn metric(
    points: &Points<'_>,
    name: &str,
    (better, is_share): (Better, bool),
    known: &[MetricNoise],
) -> Metric {
    let is_time = name.ends_with("_ms");
    let counted = points
        .points
        .iter()
        .flat_map(|point| point.used.iter().chain(&point.alone));
    let column = points.runs.column(name);
    let mut cells = column
        .into_iter()
        .flat_map(|column| counted.clone().map(|row| column.cells.at(*row)));
    let known = known.iter().find(|noise| noise.metric == name);
    let prior = match (is_share, is_time) {
        (true, _) => NoisePrior::SHARE,
        (false, true) => NoisePrior::LATENCY,
        (false, false) => NoisePrior::THROUGHPUT,
    };
    let is_count = COUNTS.contains(&split_class(name).1);
    let is_negative = cells.any(|cell| cell.number().is_some_and(|number| number < 0.0));
    Metric {
        name: name.to_owned(),
        scale: match (is_share, is_negative) {
            (true, _) => Scale::Share,
            _ if is_count => Scale::Count,
            (false, false) => Scale::Log,
            (false, true) => Scale::Linear,
        },
        better,
        prior: known.map_or(prior, |known| prior.informed_by(known)),
    }
}

/// Returns every bound of every assertion.
pub(super) fn criteria<'e>(evidence: &Evidence<'e>) -> impl Iterator<Item = &'e Criterion> {
    evidence.requirements.iter().flat_map(Requirement::criteria)
}

/// Returns the bounds of the assertions as targets, each with the points that its assertion is about.
pub(super) fn targets(evidence: &Evidence<'_>, workloads: &[Workload<'_>]) -> Vec<Target> {
    let of_assertion = |assertion: &Assertion| {
        let about = about(evidence, workloads, assertion);
        let mut conditions = assertion.conditions.iter().map(|condition| match condition.param.side {
            Side::Serve => condition.to_string(),
            Side::Bench => condition.to_string().trim_start_matches("bench.").to_owned(),
        });
        let conditions = conditions.join(" and ");
        let target = |criterion: &Criterion| Target {
            metric: criterion.figure(),
            bound: criterion.operator,
            limit: criterion.limit,
            conditions: conditions.clone(),
            about: about.clone(),
        };
        assertion.criteria.iter().map(target).collect_vec()
    };
    let assertions = evidence.requirements.iter().filter_map(Requirement::assertion);
    assertions.flat_map(of_assertion).collect()
}

/// Returns the points that an assertion is about. The list is empty for an assertion without conditions, which is about all points.
fn about(evidence: &Evidence<'_>, workloads: &[Workload<'_>], assertion: &Assertion) -> Vec<TargetPoint> {
    if assertion.conditions.is_empty() {
        return Vec::new();
    }
    let none = Params::new();
    let is_about = |point: &Point| {
        let Some(run) = evidence.runs.get(point.row) else {
            return false;
        };
        let server = evidence.state.servers.get(&run.server);
        assertion.is_about(server.map_or(&none, |server| &server.params), &run.params)
    };
    let of_workload = |workload: &Workload<'_>| {
        let name = evidence.names.workload(workload);
        let points = workload.points.iter().map(|at| &evidence.points.points[*at]);
        let about = points.filter(|point| is_about(point)).map(|point| TargetPoint {
            config: evidence.config_of(point.row),
            workload: name.clone(),
            point: point.id.to_string(),
        });
        about.collect_vec()
    };
    let about = workloads.iter().flat_map(of_workload).collect_vec();
    match about.is_empty() {
        // An empty list would mean all points, so an assertion about no point of the plan gets an entry that matches none.
        true => vec![TargetPoint {
            config: String::new(),
            workload: String::new(),
            point: String::new(),
        }],
        false => about,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, RunRow, TableBuilder};
    use vsweep_base::validity::Validity;

    #[test]
    fn a_figure_of_zero_leaves_the_others_on_the_logarithmic_scale() {
        let scale = |values: [f64; 2]| {
            let mut builder = TableBuilder::new();
            for (point, value) in ["a", "b"].into_iter().zip(values) {
                let metrics = [("p99_tpot_ms", Cell::Float(value))].into_iter().collect();
                builder.push(RunRow {
                    point,
                    validity: Some(Validity::Valid),
                    metrics: Some(&metrics),
                    ..RunRow::default()
                });
            }
            let table = builder.finish();
            metric(&Points::of(&table), "p99_tpot_ms", (Better::Lower, false), &[]).scale
        };
        assert_eq!(scale([0.0, 20.0]), Scale::Log);
        assert_eq!(scale([-1.0, 20.0]), Scale::Linear);
    }
}
