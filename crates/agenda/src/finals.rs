//! The starts after the planned ones: more starts of the configs between which the answer does not decide, and starts of winners and their
//! ties without other servers on the machine. They follow from the figures in the journal alone, so that all sessions agree.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use vsweep_answer::{Answer, Entrant, Experiment, Goal, QuestionAnswer, answer};
use vsweep_base::ids::{PointId, SearchId, ServerId};
use vsweep_plan::matrix::{Matrix, Point, ServerConfig};
use vsweep_plan::{Params, Plan, Requirement, Runs};
use vsweep_record::evidence::{JournalSources, MARGIN};
use vsweep_record::journal::{ALONE_SLOT, RunRecord, SearchStarted, State};
use vsweep_record::table::{MetricSet, SOURCES, used_gpus};
use vsweep_strategy::search::Criterion;

/// The servers that are started again, and the points and searches that are measured on them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finals {
    /// The servers.
    pub servers: BTreeSet<ServerId>,
    /// The points.
    pub points: BTreeSet<PointId>,
    /// The searches.
    pub searches: BTreeSet<SearchId>,
    /// Slots of the starts.
    pub slots: Range<u32>,
    /// True if nothing else may run on the machine at the same time.
    pub is_alone: bool,
}

/// Metrics that an edited plan may ask for. A run whose journal line lacks one may have to be measured again.
const OFTEN_ASKED: [&str; 5] = [
    "mean_itl_ms",
    "median_tpot_ms",
    "request_goodput",
    "request_throughput",
    "total_token_throughput",
];

/// Returns the metrics that a run keeps in the journal: those by which points are judged, or may be judged by an edited plan, and by which
/// the number of runs is decided.
pub fn kept_metrics(plan: &Plan) -> Vec<String> {
    let mut metrics = BTreeSet::new();
    if let Runs::Until { metric, .. } = &plan.runs {
        metrics.insert(metric.clone());
    }
    if let Some(compare) = &plan.compare {
        metrics.extend(compare.metrics.iter().cloned());
        metrics.extend(compare.fail_on.iter().map(|limit| limit.metric.clone()));
    }
    let all = MetricSet::all_metrics().chain(SOURCES).chain(OFTEN_ASKED);
    metrics.extend(all.map(str::to_owned));
    let required = plan.report.requirements.iter();
    metrics.extend(required.flat_map(Requirement::criteria).map(Criterion::figure));
    let objective = plan.optimize.as_ref().and_then(|optimize| optimize.objective.clone());
    metrics.extend(objective.filter(|_| plan.sla.is_none()));
    metrics.into_iter().collect()
}

/// Returns the servers between which the planned starts do not decide, with as many fresh starts as planned ones. Empty if every winner is
/// clear.
pub(super) fn finalists(plan: &Plan, matrix: &Matrix, state: &State) -> Finals {
    let found = judge(plan, matrix, state, plan.starts);
    let undecided = found.questions.iter();
    let undecided = undecided.filter(|answered| answered.finalists().count() > 1);
    finalists_of(matrix, state, undecided, plan.starts..2 * plan.starts)
}

/// Returns the extra starts that the answer advises; none if it is already sure. Their first slot is the first one after the planned slots
/// that some of these servers has not used.
pub fn advised(plan: &Plan, matrix: &Matrix, state: &State) -> Finals {
    let found = judge(plan, matrix, state, u32::MAX);
    let advised = || found.questions.iter().filter(|answered| answered.advice.is_some());
    let starts = advised().filter_map(|answered| answered.advice.as_ref());
    let starts = starts.map(|advice| advice.starts).max().unwrap_or(0);
    let finals = finalists_of(matrix, state, advised(), 0..0);
    if starts == 0 || finals.servers.is_empty() {
        return Finals::default();
    }
    let has = |server: &ServerId, slot: u32| state.launches_of(server).iter().any(|start| start.slot == slot);
    let is_open = |slot: &u32| finals.servers.iter().any(|server| !has(server, *slot));
    let mut free = (plan.starts..).filter(is_open);
    let first = free.next().expect("there are fewer starts than numbers");
    Finals {
        slots: first..first + starts,
        ..finals
    }
}

/// Returns the finalists of some questions, with the points and searches by which they compete. Servers that are not in the matrix are left
/// out.
fn finalists_of<'q>(
    matrix: &Matrix,
    state: &State,
    questions: impl Iterator<Item = &'q QuestionAnswer>,
    slots: Range<u32>,
) -> Finals {
    let mut finals = Finals {
        slots,
        ..Finals::default()
    };
    for answered in questions {
        let is_finalist = |config: &str| answered.finalists().any(|finalist| finalist == config);
        for entrant in answered.entrants.iter().filter(|entrant| is_finalist(&entrant.config)) {
            finals.servers.insert(ServerId((*entrant.config).into()));
            finals
                .points
                .extend(entrant.point.as_deref().map(|point| PointId(point.into())));
        }
        if let Goal::Load { .. } = answered.goal {
            let own = state.searches().map(|record| &record.started);
            let is_asked = |started: &&SearchStarted| started.workload() == answered.workload;
            let own = own.filter(is_asked).filter(|started| is_finalist(&started.server.0));
            finals.searches.extend(own.map(|started| started.search.clone()));
        }
    }
    let known = |server: &ServerConfig| finals.servers.contains(&server.id);
    let known: BTreeSet<ServerId> = matrix.servers().filter(known).map(|server| server.id).collect();
    finals.servers = known;
    finals
}

thread_local! {
    /// The last experiment and its answer. They are kept because the remaining work is asked for more often than figures change.
    static LAST: RefCell<Option<(Experiment, Answer)>> = const { RefCell::new(None) };
}

/// Returns the answer from the starts whose slots are below `starts`.
pub(super) fn judge(plan: &Plan, matrix: &Matrix, state: &State, starts: u32) -> Answer {
    let servers: BTreeMap<ServerId, (Params, Option<f64>)> = matrix
        .servers()
        .map(|server| {
            let gpus = used_gpus(&server.params, &server.argv, state.launches_of(&server.id));
            (server.id, (server.params, gpus))
        })
        .collect();
    let objective = state.optimization().and_then(|own| own.objective.as_ref());
    let recorded = JournalSources {
        state,
        servers: &servers,
        starts,
        requirements: &plan.report.requirements,
        margin: plan.report.margin.unwrap_or(MARGIN),
        gpus: plan.report.gpus,
        objective,
    };
    let experiment = recorded.experiment(|run| run.slot < starts);
    LAST.with_borrow_mut(|last| match last {
        Some((known, answer)) if *known == experiment => answer.clone(),
        _ => {
            let found = answer(experiment.clone());
            *last = Some((experiment, found.clone()));
            found
        }
    })
}

/// Maximum number of servers, besides the first, that are measured alone for one question. Measuring more, one at a time, could take longer
/// than the sweep.
const MOST_ALONE: usize = 3;

/// Returns the servers and points to measure alone: the winners and their ties that ran next to other servers.
pub(super) fn alone(plan: &Plan, matrix: &Matrix, state: &State) -> Finals {
    let mut alone = Finals {
        slots: ALONE_SLOT..ALONE_SLOT + 1,
        is_alone: true,
        ..Finals::default()
    };
    let found = judge(plan, matrix, state, ALONE_SLOT);
    for answered in found.leading() {
        // For a search, the report may recommend any of the servers that are as good, so these are measured as well.
        let equals = answered
            .as_good
            .iter()
            .filter(|config| answered.is_load() && answered.undecided(config).is_none())
            .map(String::as_str);
        for config in answered.finalists().chain(equals).take(1 + MOST_ALONE) {
            let entrant = answered.entrants.iter().find(|entrant| entrant.config == config);
            let point = entrant.and_then(|entrant| point_of(answered, entrant, state));
            let runs = || state.measured().filter(|run| point.as_ref() == Some(&run.point));
            if runs().any(had_neighbours) {
                alone.servers.insert(ServerId(config.into()));
                alone.points.extend(point);
            }
        }
    }
    alone
}

/// Returns true if some run had neighbours. Otherwise nothing needs to be measured alone.
pub(super) fn is_packed(state: &State) -> bool {
    state.measured().any(had_neighbours)
}

fn had_neighbours(run: &RunRecord) -> bool {
    run.neighbours.as_ref().is_some_and(|shares| shares.servers > 0.0)
}

/// Returns the point by which an entrant competes. For a search, it is the point of the probe at the load that the search found.
fn point_of(answered: &QuestionAnswer, entrant: &Entrant, state: &State) -> Option<PointId> {
    if let Some(point) = &entrant.point {
        return Some(PointId(point.as_str().into()));
    }
    let is_its_probe = |run: &&RunRecord| state.is_probe_of(run, &answered.workload, &entrant.config, &entrant.load);
    state.measured().find(is_its_probe).map(|run| run.point.clone())
}

/// Returns the points of a server's searches that are to be measured alone.
pub(super) fn probed_points(finals: &Finals, server: &ServerConfig, matrix: &Matrix, state: &State) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for search in matrix.searches_of(server) {
        let own = state.measured().filter(|run| run.search.as_ref() == Some(&search.id));
        for run in own.filter(|run| finals.points.contains(&run.point)) {
            let is_new = !points.iter().any(|point| point.id == run.point);
            if let Some(probe) = run.probe().filter(|_| is_new) {
                points.push(matrix.point_for(&search, &probe.question));
            }
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schedule;
    use std::path::Path;
    use vsweep_plan::{Format, World, parse};
    use vsweep_record::journal::{Event, RunEvidence, RunFinished, RunStarted, Shard};

    const PLAN: &str = "version = 1\nstarts = 3\nruns = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [1, 2, 3]\n\
                        [bench.params]\nnum_prompts = 9\n";

    /// A plan, and a state in which every start has these throughputs.
    fn measured(text: &str, throughputs: &[(&str, [f64; 3])]) -> (Plan, Matrix, State) {
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let matrix = Matrix::expand(&plan).expect("it expands");
        let mut state = State::default();
        for slot in 0..plan.starts {
            for server in matrix.servers() {
                let values = throughputs
                    .iter()
                    .find(|(name, _)| server.name.contains(name))
                    .expect("throughputs of the server")
                    .1;
                let point = matrix.points_of(&server).next().expect("a point");
                let launch = slot + 1;
                state.apply_hypothetical(Event::ServerStarting {
                    server: server.id.clone(),
                    slot,
                    launch,
                    gpus: Vec::new(),
                });
                let latency = if server.name.contains("seqs=1") { 100.0 } else { 300.0 };
                let figures = [
                    ("output_throughput".to_owned(), values[slot as usize]),
                    ("p99_ttft_ms".to_owned(), latency),
                ];
                let server = server.id;
                let started = RunStarted {
                    point: point.id,
                    server,
                    slot,
                    launch,
                    params: point.params,
                    ..RunStarted::default()
                };
                let started = state.apply_hypothetical(Event::RunStarted(Box::new(started)));
                state.apply_hypothetical(Event::RunFinished(Box::new(RunFinished {
                    started: started.rank.line.seq,
                    seconds: 1.0,
                    learned: Some(RunEvidence::Figures(figures.into_iter().collect())),
                    ..RunFinished::default()
                })));
            }
        }
        (plan, matrix, state)
    }

    /// The names of the finalists.
    fn found(text: &str, throughputs: &[(&str, [f64; 3])]) -> Vec<String> {
        let (plan, matrix, state) = measured(text, throughputs);
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
        let (plan, matrix, state) = measured(PLAN, &CLOSE);
        let schedule = Schedule::new(&plan, &matrix, Shard::WHOLE, false);
        assert_eq!(schedule.runs_of_finals(&state), 6, "three fresh starts of each");
    }

    #[test]
    fn a_shard_takes_all_finals_and_its_own_servers_first() {
        let (plan, matrix, state) = measured(PLAN, &CLOSE);
        let found = [1, 2].map(|index| {
            let shard = Shard { index, count: 2 };
            let starts = Schedule::new(&plan, &matrix, shard, false).finals(&state);
            let starts = starts.map(|start| format!("{}: {}", start.server.name, start.slot));
            starts.collect::<Vec<String>>().join(", ")
        });
        let [one, two] = ["max_num_seqs=1", "max_num_seqs=2"];
        let both = |own: &str, other: &str| format!("{own}: 3, {own}: 4, {own}: 5, {other}: 5, {other}: 4, {other}: 3");
        assert_eq!(found, [both(one, two), both(two, one)]);
    }

    #[test]
    fn a_clear_winner_needs_no_final() {
        let clear = [CLOSE[0], ("seqs=2", [200.0, 201.0, 199.0]), CLOSE[2]];
        assert!(found(PLAN, &clear).is_empty());
    }

    #[test]
    fn a_sure_answer_advises_nothing() {
        let clear = [CLOSE[0], ("seqs=2", [200.0, 201.0, 199.0]), CLOSE[2]];
        let (plan, matrix, state) = measured(PLAN, &clear);
        assert_eq!(advised(&plan, &matrix, &state), Finals::default());
        let (plan, matrix, state) = measured(PLAN, &CLOSE);
        assert_eq!(advised(&plan, &matrix, &state).servers.len(), 2);
    }

    #[test]
    fn who_breaks_a_requirement_is_no_finalist() {
        let text = format!("{PLAN}[[assert]]\np99_ttft_ms = \"<=200\"\n");
        assert!(found(&text, &CLOSE).is_empty(), "only one of them keeps it");
    }
}
