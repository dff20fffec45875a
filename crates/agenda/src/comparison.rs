//! Turns the `[compare]` table of a plan into entrants and questions about each metric at each load.

use vsweep_plan::matrix::{Matrix, ServerConfig};
use vsweep_plan::{Compare, Parallel, Plan};
use vsweep_record::journal::{AskedMetric, Compared, Entrant};
use vsweep_record::table::{Better, Measure};
use vsweep_strategy::selection::{Member, Placement};
use vsweep_strategy::stats::{Bound, Margin};

/// The comparison of a plan, as its session records it; none if it asks for none.
pub fn compared(plan: &Plan, matrix: &Matrix) -> Option<Compared> {
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
    Some(Compared {
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

/// The questions at one load. A metric with a limit is judged by the limit alone.
fn metrics_at(compare: &Compare, load: usize) -> Vec<AskedMetric> {
    let limited = |metric: &String| compare.fail_on.iter().any(|limit| limit.metric == *metric);
    let plain = compare.metrics.iter().filter(|metric| !limited(metric));
    let plain = plain.map(|metric| (metric, None));
    let limits = compare.fail_on.iter();
    let limits = limits.map(|limit| (&limit.metric, Some(Bound::percent(limit.percent))));
    let metrics = plain.chain(limits).map(|(metric, bound)| AskedMetric {
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
