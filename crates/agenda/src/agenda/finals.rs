//! Who is measured again on fresh starts before one is called the winner: for each question of a sweep, the configs whose intervals over
//! starts overlap the best one's. Decided by the figures in the journal alone, so that every session decides alike.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use vsweep_plan::ids::{PointId, SearchId, ServerId};
use vsweep_plan::matrix::{Matrix, ServerConfig};
use vsweep_plan::plan::{Assertion, Params, Plan, Required, Runs};
use vsweep_record::journal::{RunRecord, State};
use vsweep_record::table::{
    Better, Cell, LATENCIES, Point, Points, RunRow, TableBuilder, count_gpus, searches_of_finalists,
};
use vsweep_strategy::search::Criterion;

/// What tokens a second are called, of output and of all.
const THROUGHPUTS: [&str; 2] = ["output_throughput", "total_throughput"];

/// The finalists, and what of them is measured on fresh starts.
#[derive(Debug, Default)]
pub struct Finals {
    /// The servers.
    pub servers: BTreeSet<ServerId>,
    /// The points.
    pub points: BTreeSet<PointId>,
    /// The searches.
    pub searches: BTreeSet<SearchId>,
}

/// The metrics by which a plan decides how often a point is measured. Its runs keep them in the journal.
pub(super) fn figures(plan: &Plan) -> Vec<String> {
    let mut figures = BTreeSet::new();
    if let Runs::Until { metric, .. } = &plan.runs {
        figures.insert(metric.clone());
    }
    if let Some(compare) = &plan.compare {
        figures.extend(compare.metrics.iter().cloned());
        figures.extend(compare.fail_on.iter().map(|limit| limit.metric.clone()));
    } else if plan.starts > 1 {
        figures.extend(all_figures());
        let bounded = assertions(plan).flat_map(|assertion| &assertion.criteria);
        figures.extend(bounded.map(Criterion::figure));
    }
    figures.into_iter().collect()
}

/// Those by which points are ranked.
fn all_figures() -> impl Iterator<Item = String> {
    THROUGHPUTS.into_iter().chain(LATENCIES).map(str::to_owned)
}

/// Who is measured again; nobody where every winner is clear.
pub(super) fn finalists(plan: &Plan, matrix: &Matrix, state: &State) -> Finals {
    if plan.sla.is_some() {
        let searches = searches_of_finalists(state);
        let is_finalist = |server: &ServerConfig| matrix.searches_of(server).any(|own| searches.contains(&own.id));
        return Finals {
            servers: matrix.servers().filter(is_finalist).map(|server| server.id).collect(),
            searches,
            ..Finals::default()
        };
    }
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
    for run in state.runs().filter(|run| run.slot < plan.starts && !run.is_lost()) {
        let Some((serve, gpus)) = servers.get(&run.server) else {
            continue;
        };
        measured.insert(&run.point.0, run);
        let metrics = run.figures().iter();
        let metrics: Vec<(Box<str>, Cell)> = metrics
            .map(|(name, value)| (name.as_str().into(), (*value).into()))
            .collect();
        builder.push(RunRow {
            point: &run.point.0,
            run: run.run,
            outcome: run.outcome,
            validity: Some(run.validity),
            serve: Some(serve),
            bench: Some(&run.params),
            gpus: Some(*gpus),
            metrics: &metrics,
            slot: run.slot,
            launch: state.start_of(run).map(|launch| launch.to_string()),
            order: run.rank.line.seq,
            ..RunRow::default()
        });
    }
    let table = builder.finish();
    let table = Points::of(&table);
    let run_at = |place: usize| measured[&*table.points[place].id];
    let mut found = Finals::default();
    for workload in table.workloads() {
        let misses = |place: &usize| {
            let run = run_at(*place);
            let own = || {
                workload
                    .points
                    .iter()
                    .filter(|other| run_at(**other).server == run.server)
            };
            assertions(plan).any(|assertion| {
                let is_about = |place: &usize| assertion.is_about(&servers[&run.server].0, &run_at(*place).params);
                let fails = |place: &usize| is_missed(assertion, &table, &table.points[*place]);
                match is_about(place) {
                    true => fails(place),
                    false => own().any(|other| is_about(other) && fails(other)),
                }
            })
        };
        let entrants: Vec<usize> = workload.points.iter().copied().filter(|place| !misses(place)).collect();
        for (metric, better) in questions(&table, &entrants) {
            for place in table.finalists(&entrants, metric, better) {
                let run = run_at(place);
                found.servers.insert(run.server.clone());
                found.points.insert(run.point.clone());
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
    let throughput = match entrants.iter().all(is_prefill) {
        true => of_all,
        false => of_output,
    };
    let throughputs = [throughput, "tokens_per_gpu"].into_iter().filter(has);
    let questions = throughputs.map(|metric| (metric, Better::Higher));
    let latency = LATENCIES.into_iter().find(has).map(|metric| (metric, Better::Lower));
    questions.chain(latency).collect()
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
        median.is_some_and(|median| !criterion.operator.holds(median, criterion.limit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vsweep_plan::plan::{Format, World, parse};
    use vsweep_record::journal::{Event, Learned, RunFinished, RunStarted};

    const PLAN: &str = "version = 1\nstarts = 3\nruns = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [1, 2, 3]\n\
                        [bench.params]\nnum_prompts = 9\n";

    /// The finalists, by what they are called, if their starts have these throughputs.
    fn found(text: &str, throughputs: &[(&str, [f64; 3])]) -> Vec<String> {
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let matrix = Matrix::expand(&plan).expect("it expands");
        let mut state = State::default();
        for slot in 0..plan.starts {
            for server in matrix.servers() {
                let values = throughputs
                    .iter()
                    .find(|(name, _)| server.name.contains(name))
                    .expect("told")
                    .1;
                let point = matrix.points_of(&server).next().expect("a point");
                let launch = slot + 1;
                let server = server.id;
                state.imagine(Event::ServerStarting {
                    server: server.clone(),
                    slot,
                    launch,
                    gpus: Vec::new(),
                });
                let figures = [("output_throughput".to_owned(), values[slot as usize])];
                let started = RunStarted {
                    point: point.id,
                    server,
                    slot,
                    launch,
                    params: point.params,
                    ..RunStarted::default()
                };
                let started = state.imagine(Event::RunStarted(Box::new(started)));
                state.imagine(Event::RunFinished(Box::new(RunFinished {
                    started: started.rank.line.seq,
                    seconds: 1.0,
                    learned: Some(Learned::Figures(figures.into())),
                    ..RunFinished::default()
                })));
            }
        }
        let finalists = finalists(&plan, &matrix, &state);
        let names = matrix.servers().filter(|server| finalists.servers.contains(&server.id));
        names.map(|server| server.name).collect()
    }

    const CLOSE: [(&str, [f64; 3]); 3] = [
        ("seqs=1", [100.0, 102.0, 98.0]),
        ("seqs=2", [101.0, 99.0, 103.0]),
        ("seqs=3", [50.0, 51.0, 49.0]),
    ];

    #[test]
    fn who_overlaps_the_best_is_a_finalist() {
        assert_eq!(found(PLAN, &CLOSE), ["max_num_seqs=1", "max_num_seqs=2"]);
    }

    #[test]
    fn a_clear_winner_needs_no_final() {
        let clear = [CLOSE[0], ("seqs=2", [200.0, 201.0, 199.0]), CLOSE[2]];
        assert!(found(PLAN, &clear).is_empty());
    }

    #[test]
    fn who_breaks_a_requirement_is_no_finalist() {
        let text = format!("{PLAN}[[assert]]\noutput_throughput = \">=100.5\"\n");
        assert!(found(&text, &CLOSE).is_empty(), "only one of them keeps it");
    }
}
