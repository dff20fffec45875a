//! Who is measured again on fresh starts before one is called the winner: for each question of a sweep, the configs whose intervals over
//! starts overlap the best one's. Decided by the figures in the journal alone, so that every session decides alike.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use vsweep_plan::ids::{PointId, ServerId};
use vsweep_plan::matrix::Matrix;
use vsweep_plan::plan::{Assertion, Params, Plan, Required, Runs};
use vsweep_record::journal::{RunRecord, State};
use vsweep_record::table::{Better, Cell, LATENCIES, Point, Points, Row, TableBuilder, count_gpus};
use vsweep_strategy::search::Criterion;

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
        let bounded = assertions(plan).flat_map(|assertion| &assertion.criteria);
        figures.extend(bounded.map(Criterion::figure));
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
    let mut measured: HashMap<&str, &RunRecord> = HashMap::new();
    for run in state.runs().filter(|run| run.slot < plan.starts && !state.is_lost(run)) {
        let Some((serve, gpus)) = servers.get(&run.server) else {
            continue;
        };
        measured.insert(&run.point.0, run);
        push(&mut builder, run, serve, *gpus);
        builder.measured_on(run.slot, state.start_of(run).map(|launch| launch.to_string()));
    }
    let table = builder.finish();
    let table = Points::of(&table);
    let run_at = |place: usize| measured[&*table.points[place].id];
    let mut found: BTreeMap<ServerId, BTreeSet<PointId>> = BTreeMap::new();
    for workload in table.workloads() {
        let misses = |place: &usize| {
            let run = run_at(*place);
            let own = workload
                .points
                .iter()
                .copied()
                .filter(|other| run_at(*other).server == run.server);
            let own: Vec<usize> = own.collect();
            assertions(plan).any(|assertion| {
                let is_about = |place: &usize| assertion.is_about(&servers[&run.server].0, &run_at(*place).params);
                let fails = |place: &usize| is_missed(assertion, &table, &table.points[*place]);
                match is_about(place) {
                    true => fails(place),
                    false => own.iter().any(|other| is_about(other) && fails(other)),
                }
            })
        };
        let entrants: Vec<usize> = workload.points.iter().copied().filter(|place| !misses(place)).collect();
        for (metric, better) in questions(&table, &entrants) {
            for place in table.finalists(&entrants, metric, better) {
                let run = run_at(place);
                found.entry(run.server.clone()).or_default().insert(run.point.clone());
            }
        }
    }
    found
}

/// What makes a winner.
fn questions(table: &Points<'_>, entrants: &[usize]) -> Vec<(&'static str, Better)> {
    let has = |metric: &&str| {
        entrants
            .iter()
            .any(|place| table.spread(&table.points[*place], metric).is_some())
    };
    let is_prefill = |place: &usize| table.reads_prompts_only(&table.points[*place]);
    let [of_output, of_all] = THROUGHPUTS;
    let throughput = if entrants.iter().all(is_prefill) {
        of_all
    } else {
        of_output
    };
    let throughputs = [throughput, "tokens_per_gpu"].into_iter().filter(has);
    let latency = LATENCIES.into_iter().find(has);
    let throughputs = throughputs.map(|metric| (metric, Better::Higher));
    throughputs
        .chain(latency.map(|metric| (metric, Better::Lower)))
        .collect()
}

fn assertions(plan: &Plan) -> impl Iterator<Item = &Assertion> {
    plan.report
        .requirements
        .iter()
        .filter_map(|requirement| match &requirement.what {
            Required::Points(assertion) => Some(assertion),
            Required::Target(_) => None,
        })
}

/// Whether a point is known to break a bound. One whose figures do not say stays in.
fn is_missed(assertion: &Assertion, table: &Points<'_>, point: &Point) -> bool {
    assertion.criteria.iter().any(|criterion| {
        let median = table.spread(point, &criterion.figure()).map(|spread| spread.median);
        median.is_some_and(|median| !criterion.comparison.holds(median, criterion.limit))
    })
}

fn push(builder: &mut TableBuilder, run: &RunRecord, serve: &Params, gpus: f64) {
    let metrics = run.figures.iter();
    let metrics: Vec<(Box<str>, Cell)> = metrics
        .map(|(name, value)| (name.as_str().into(), (*value).into()))
        .collect();
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
