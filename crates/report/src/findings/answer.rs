//! The answer of an experiment, prepared for a report: the document, and the indices of the points that it names.

use super::goals::Goals;
use super::nearest;
use super::remarks::remarks;
use super::variation::name_workload;
use crate::names::PointNames;
use crate::output::optimized;
use itertools::Itertools;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use vsweep_answer::{Answer, QuestionAnswer, answer};
use vsweep_base::units::show_many;
use vsweep_base::validity::Validity;
use vsweep_plan::ReportOptions;
use vsweep_record::evidence::{Evidence, MARGIN};
use vsweep_record::journal::{Directory, RunRecord, State};
use vsweep_record::table::{Better, Point, Points, Table, distinct, knee, machine_gpus};
use vsweep_strategy::stats::RequirementVerdict;

/// The answer with the indices of its points in [`Points::points`].
#[derive(Debug)]
pub struct Answers {
    /// The document.
    pub document: Answer,
    /// One for each workload, in the order of [`Points::workloads`].
    pub workloads: Vec<WorkloadAnswer>,
}

/// The part of the answer that is about one workload.
#[derive(Debug, Default)]
pub struct WorkloadAnswer {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// Indices of questions in the document, each with the index of the winning point.
    pub winners: Vec<(usize, usize)>,
    /// Indices of the points on the Pareto frontier, from the highest speed per user to the lowest.
    pub frontier: Vec<usize>,
    /// The frontier without points that are as good as an earlier one (see [`distinct`]): each point with the number of others that are as
    /// good.
    pub distinct: Vec<(usize, usize)>,
    /// The frontier's knee, if it has one. Charts label it.
    pub knee: Option<usize>,
    /// The indices of all measured points of a comparison, which has no winner.
    pub compared: Vec<usize>,
    /// Number of points that were measured but do not compete, because all their runs are invalid.
    pub invalid: usize,
    /// Number of measured points that do not meet the plan's goals.
    pub unmet: usize,
    /// Number of measured points for which it is undecided whether they meet the goals.
    pub undecided: usize,
    /// True if points were measured and none of them meets the targets.
    pub none_meets: bool,
    /// True if a point was measured.
    pub is_measured: bool,
}

/// Answers the questions of an experiment. `points.runs` are the runs of `state`.
pub fn judge(state: &State, points: &Points<'_>, options: &ReportOptions, gpus: Option<u32>) -> Answer {
    let progress = optimized::of(state.optimization(), state, &options.requirements);
    let mut answer = with_evidence(state, points, options, gpus, |evidence| {
        let mut experiment = evidence.experiment();
        if let Some(progress) = &progress {
            experiment.open = u64::from(progress.ended().is_none());
        }
        answer(experiment)
    });
    answer.optimization = progress.map(|progress| Box::new(optimized::found(&progress, &answer, state)));
    // Further searches, and servers that were not started yet, may come nearer to the targets.
    if answer.open == 0 && answer.optimization.is_none() {
        nearest::name(&mut answer, state);
    }
    answer.remarks = remarks(state, points, options);
    answer.price_per_gpu_hour = options.price_per_gpu_hour;
    answer
}

fn with_evidence(
    state: &State,
    points: &Points<'_>,
    options: &ReportOptions,
    gpus: Option<u32>,
    judge: impl FnOnce(Evidence<'_>) -> Answer,
) -> Answer {
    let runs: Vec<&RunRecord> = state.runs().collect();
    judge(Evidence {
        points,
        runs: &runs,
        state,
        starts: u32::MAX,
        requirements: &options.requirements,
        margin: options.margin.unwrap_or(MARGIN),
        gpus: options.gpus.or(gpus),
        objective: state.optimization().and_then(|own| own.objective.as_ref()),
        names: &PointNames::among(points, state, &runs),
    })
}

/// Judges the experiment of a directory, on the GPUs of the machine in its manifest. The points adopt its estimates.
pub fn settle(directory: &Directory, state: &State, points: &mut Points<'_>, options: &ReportOptions) -> Answer {
    let answer = judge(state, points, options, machine_gpus(directory, state));
    points.adopt(&answer);
    answer
}

/// Answers the questions of an experiment by a table of its runs, which are those of `state`.
pub fn answer_by_table(directory: &Directory, state: &State, table: &Table, options: &ReportOptions) -> Answer {
    judge(state, &Points::of(table), options, machine_gpus(directory, state))
}

/// Estimates some metrics from a table of runs, which are those of `state`. For results of other programs `state` is empty.
pub fn estimate_by_table(state: &State, table: &Table, metrics: &[&str]) -> Answer {
    with_evidence(state, &Points::of(table), &ReportOptions::default(), None, |evidence| {
        answer(evidence.about(metrics))
    })
}

/// Writes the document in the form of `answer.json`.
pub fn write_json(document: &Answer, to: impl Write) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    serde_json::to_writer_pretty(&mut to, document)?;
    to.write_all(b"\n")?;
    to.flush()
}

impl Answers {
    /// Indices of the recommended points, one for each workload or target.
    pub fn recommended(&self) -> Vec<usize> {
        let leading = self.document.leading().into_iter();
        leading
            .filter_map(|answered| self.place_of(answered))
            .unique()
            .collect()
    }

    /// The index of the point that won a question of the document, if it was measured.
    pub fn place_of(&self, answered: &QuestionAnswer) -> Option<usize> {
        let number = self.document.questions.iter().position(|own| own == answered)?;
        let mut all = self.workloads.iter().flat_map(|workload| &workload.winners);
        all.find_map(|(own, at)| (*own == number).then_some(*at))
    }

    /// Finds the points that a document names.
    pub fn of(document: Answer, points: &Points<'_>, state: &State, goals: &Goals) -> Answers {
        let runs: Vec<&RunRecord> = state.runs().collect();
        let places: HashMap<&str, usize> = (points.points.iter().enumerate())
            .map(|(at, point)| (&*point.id, at))
            .collect();
        let workloads = points.workloads().into_iter().map(|workload| {
            let name = name_workload(points, &workload);
            let questions = document.questions.iter().enumerate();
            let own = questions.filter(|(_, answered)| match answered.winner {
                Some(ref winner) if winner.point.is_none() => true,
                _ => answered.workload == name,
            });
            let winning = |answered| winning_point(answered, &places, points, (state, &runs));
            let winners = own.filter_map(|(number, answered)| Some((number, winning(answered)?)));
            let winners = winners.filter(|(_, at)| workload.points.contains(at)).collect();
            let frontier = document.frontiers.iter().find(|frontier| frontier.workload == name);
            let on_it = frontier.into_iter().flat_map(|frontier| &frontier.points);
            let (front, figures): (Vec<usize>, Vec<(f64, f64)>) = on_it
                .filter_map(|on| Some((*places.get(on.point.as_str())?, (on.x.value, on.y.value))))
                .unzip();
            let all = (0..front.len()).collect_vec();
            let directions = (Better::Higher, Better::Higher);
            let is_used = |at: &usize| !points.points[*at].used.is_empty();
            let is_invalid = |at: &&usize| points.points[**at].validity == Some(Validity::Invalid);
            let judged = |verdict: RequirementVerdict| {
                let own = workload.points.iter();
                own.filter(|at| is_used(at) && goals.verdict(**at) == verdict).count()
            };
            let is_compared = |at: &&usize| document.comparison.is_some() && is_used(at);
            WorkloadAnswer {
                winners,
                compared: workload.points.iter().filter(is_compared).copied().collect(),
                distinct: distinct(&figures, &all)
                    .into_iter()
                    .map(|(at, others)| (front[at], others))
                    .collect(),
                knee: knee(&figures, &all, directions).map(|at| front[at]),
                frontier: front,
                is_measured: workload.points.iter().any(is_used),
                none_meets: is_missed(&document, &name),
                unmet: judged(RequirementVerdict::Broken),
                undecided: judged(RequirementVerdict::Undecided),
                invalid: workload.points.iter().filter(is_invalid).count(),
                name,
            }
        });
        Answers {
            workloads: workloads.collect(),
            document,
        }
    }
}

/// True if a question about a metric of a workload has a nearest point instead of a winner.
fn is_missed(document: &Answer, workload: &str) -> bool {
    let mut own = document
        .questions
        .iter()
        .filter(|answered| answered.workload == workload);
    own.any(|answered| answered.nearest.is_some() && !answered.is_load())
}

/// The index of the winning point: the one that is named, or the one that was measured at the load that a search found. The runs are in
/// the order of the rows.
fn winning_point(
    answered: &QuestionAnswer,
    places: &HashMap<&str, usize>,
    points: &Points<'_>,
    (state, runs): (&State, &[&RunRecord]),
) -> Option<usize> {
    let winner = answered.winner.as_ref()?;
    if let Some(point) = &winner.point {
        return places.get(point.as_str()).copied();
    }
    let is_probe = |run: &&RunRecord| state.is_probe_of(run, &answered.workload, &winner.config, &winner.load);
    let was_probed = |point: &Point| runs.get(point.row).is_some_and(is_probe);
    points.points.iter().position(was_probed)
}

impl WorkloadAnswer {
    /// The indices of the points that won something or were compared, each once.
    pub fn bests(&self) -> impl Iterator<Item = usize> {
        let winners = self.winners.iter().map(|(_, at)| *at);
        winners.chain(self.compared.iter().copied()).unique()
    }

    /// Sentences about points that do not compete for what is `wanted`.
    pub fn left_out(&self, wanted: &str) -> Vec<String> {
        let sentence = |count: usize, why: String| {
            let counted = show_many(count as u64, "point");
            (count > 0).then(|| format!("{counted} left out{why}; see points.csv"))
        };
        let sentences = [
            sentence(self.invalid, ": no run measured what it claims (invalid)".to_owned()),
            sentence(self.unmet, format!(": {wanted} not met")),
            sentence(self.undecided, format!(": not known whether {wanted} is met")),
        ];
        sentences.into_iter().flatten().collect()
    }
}

/// The mark of a point whose figures are in doubt: `suspect: generator stalled`; `None` for any other point.
pub fn mark(point: &Point) -> Option<String> {
    point
        .is_suspect()
        .then(|| format!("suspect: {}", point.codes.iter().map(|code| code.in_words()).join(", ")))
}
