//! Who is measured again on fresh starts before one is called the winner: for each question of a sweep, the configs whose intervals over
//! starts overlap the best one's. Decided by the figures in the journal alone, so that every session decides alike.

use std::collections::{BTreeMap, BTreeSet};
use vsweep_plan::ids::{PointId, ServerId};
use vsweep_plan::matrix::Matrix;
use vsweep_plan::plan::{Params, Plan, Runs};
use vsweep_record::journal::{RunRecord, State};
use vsweep_record::table::{Better, Cell, LATENCIES, Points, Row, TableBuilder, count_gpus};

/// What tokens a second are called, of output and of all.
const THROUGHPUTS: [&str; 2] = ["output_throughput", "total_throughput"];

/// The metrics by which a plan decides how often a point is measured. Its runs keep them in the journal.
pub(super) fn figures(plan: &Plan) -> Vec<String> {
    let mut figures = BTreeSet::new();
    if let Runs::Until { metric, .. } = &plan.runs {
        figures.insert(metric.clone());
    }
    if plan.starts > 1 {
        figures.extend(THROUGHPUTS.into_iter().chain(LATENCIES).map(str::to_owned));
    }
    figures.into_iter().collect()
}

/// The points of the finalists, by their server; none where every winner is clear.
pub(super) fn finalists(plan: &Plan, matrix: &Matrix, state: &State) -> BTreeMap<ServerId, BTreeSet<PointId>> {
    let servers: BTreeMap<ServerId, (Params, f64)> = matrix
        .servers()
        .map(|server| {
            let gpus = count_gpus(&server.params, &server.argv);
            (server.id, (server.params, gpus))
        })
        .collect();
    let mut builder = TableBuilder::new();
    builder.plan_starts(plan.starts);
    let mut points: BTreeMap<&str, (&ServerId, &PointId)> = BTreeMap::new();
    for run in state.runs().filter(|run| run.slot < plan.starts && !state.is_lost(run)) {
        let Some((serve, gpus)) = servers.get(&run.server) else {
            continue;
        };
        points.insert(&run.point.0, (&run.server, &run.point));
        push(&mut builder, run, serve, *gpus);
        builder.measured_on(run.slot, state.start_of(run).map(|launch| launch.to_string()));
    }
    let table = builder.finish();
    let table = Points::of(&table);
    let mut found: BTreeMap<ServerId, BTreeSet<PointId>> = BTreeMap::new();
    for workload in table.workloads() {
        let entrants = &workload.points;
        let has = |metric: &&str| entrants.iter().any(|place| table.spread(&table.points[*place], metric).is_some());
        let latency = LATENCIES.into_iter().find(has).map(|metric| (metric, Better::Lower));
        let throughput = THROUGHPUTS.into_iter().find(has).map(|metric| (metric, Better::Higher));
        let questions = [throughput, Some(("tokens_per_gpu", Better::Higher)), latency];
        for (metric, better) in questions.into_iter().flatten() {
            for place in table.finalists(entrants, metric, better) {
                let (server, point) = points[&*table.points[place].id];
                found.entry(server.clone()).or_default().insert(point.clone());
            }
        }
    }
    found
}

fn push(builder: &mut TableBuilder, run: &RunRecord, serve: &Params, gpus: f64) {
    let metrics = run.figures.iter();
    let metrics: Vec<(Box<str>, Cell)> = metrics.map(|(name, value)| (name.as_str().into(), (*value).into())).collect();
    builder.push(Row {
        point: &run.point.0,
        run: run.run,
        outcome: run.outcome,
        validity: Some(run.validity),
        doubts: &[],
        cause: None,
        detail: "",
        serve,
        bench: &run.params,
        simulated: None,
        gpus: Some(gpus),
        metrics: &metrics,
    });
}
