//! Judges the points by the plan's goals: the targets of its searches, and each `[[assert]]`. Tables mark the points accordingly, and only
//! those that meet the goals are recommended. Requirements on the whole sweep are judged in [`super::requirements`].

use super::requirements::{ReasonedVerdict, by_server, of_each_point};
use crate::texts::criteria::phrase;
use itertools::Itertools;
use std::collections::{BTreeMap, HashMap};
use vsweep_base::ids::{PointId, SearchId, ServerId};
use vsweep_plan as plan;
use vsweep_record::journal::{RunRecord, State};
use vsweep_record::table::{Cell, Column, Point, Points, Section, search_results};
use vsweep_strategy::search::{Criterion, Probe, Target};
use vsweep_strategy::stats::RequirementVerdict::{self, Broken, Met, Undecided};

/// Longest text of a goal that serves as its name, in characters.
const LONGEST_NAME: usize = 24;

/// The plan's goals, and the points that meet them.
#[derive(Debug, Default)]
pub struct Goals {
    goals: Vec<Goal>,
    /// For each point, the verdict on all goals together: the best of the targets, and each assertion that applies.
    verdicts: Vec<RequirementVerdict>,
}

/// One target or `[[assert]]`.
#[derive(Debug)]
struct Goal {
    /// Name in tables, which is short.
    name: String,
    /// Name in sentences: the one that the plan gave it, else its bounds in words.
    name_in_sentences: String,
    /// Its bounds in words.
    text: String,
    is_target: bool,
    /// Figures of the classes of a mixed load that the goal bounds.
    of_classes: Vec<String>,
    /// The verdict for each point; `None` if the goal does not apply to the point, or the point lacks the figure. A target that was met at
    /// a load above the search's answer is undecided, because it may have been met by chance.
    meets: Vec<Option<RequirementVerdict>>,
}

impl Goals {
    /// Judges every point. `points.runs` are the runs of `state`.
    pub fn judge(required: &[plan::Requirement], state: &State, points: &Points<'_>) -> Goals {
        let runs: Vec<&RunRecord> = state.runs().collect();
        let mut goals = targets(state, &runs, points);
        // Of several targets, the one with the best verdict counts.
        let of_targets = |at: usize| goals.iter().map(|goal| goal.meets[at].unwrap_or(Undecided)).min();
        let places = 0..points.points.len();
        let mut verdicts: Vec<RequirementVerdict> = places.map(|at| of_targets(at).unwrap_or(Met)).collect();
        let assertions = required.iter();
        let assertions = assertions.filter_map(|required| Some((required, required.assertion()?)));
        for (number, (required, assertion)) in assertions.enumerate() {
            let said = of_each_point(assertion, state, &runs, points);
            for workload in points.workloads() {
                let of_servers: HashMap<&ServerId, &ReasonedVerdict> =
                    by_server(&workload, &said, &runs, points).collect();
                for at in workload.points {
                    // If the goal does not apply to the point, the other points of its server decide.
                    let of_server = || of_servers.get(&runs.get(points.points[at].row)?.server).copied();
                    let said = said[at].as_ref().or_else(of_server);
                    verdicts[at] = verdicts[at].max(said.map_or(Met, |(verdict, _)| *verdict));
                }
            }
            let text = required.what.to_string();
            let is_short = assertion.name.is_some() || text.chars().count() <= LONGEST_NAME;
            let is_free = goals.iter().all(|goal: &Goal| goal.name != text);
            let name = Some(text.clone()).filter(|_| is_short && is_free);
            let is_decided = |verdict: &RequirementVerdict| *verdict != Undecided;
            let name = name.unwrap_or_else(|| format!("assert-{}", number + 1));
            let meets = said.into_iter().map(|said| Some(said?.0).filter(is_decided)).collect();
            goals.push(Goal::of(name, &text, &assertion.criteria, meets));
        }
        Goals { goals, verdicts }
    }

    /// Returns true if the plan has no goals for points.
    pub fn is_empty(&self) -> bool {
        self.goals.is_empty()
    }

    /// The names of the targets, in the order of the plan.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let targets = self.goals.iter().filter(|goal| goal.is_target);
        targets.map(|goal| &*goal.name)
    }

    /// The targets that a point meets beyond doubt, by their indices among the targets.
    pub fn targets_met(&self, point: usize) -> Vec<usize> {
        let targets = self.goals.iter().filter(|goal| goal.is_target).enumerate();
        let met = targets.filter(|(_, goal)| goal.meets[point] == Some(Met));
        met.map(|(place, _)| place).collect()
    }

    /// Returns true if a point meets one of the targets, if there are any, and each assertion that applies to it or its server.
    pub fn competes(&self, point: usize) -> bool {
        self.verdict(point) == Met
    }

    /// The verdict on a point: the worst of its best target and of all assertions that apply to it or its server.
    pub fn verdict(&self, point: usize) -> RequirementVerdict {
        self.verdicts.get(point).copied().unwrap_or(Met)
    }

    /// The names of the goals that a point meets, `chat, batch`, with a question mark where that is in doubt; a dash for none, and empty if
    /// no goal applies to the point.
    pub fn met_by(&self, point: usize) -> String {
        let mut met = self.goals.iter().filter_map(|goal| match goal.meets[point] {
            Some(Met) => Some(goal.name.clone()),
            Some(Undecided) => Some(format!("{}?", goal.name)),
            Some(Broken) | None => None,
        });
        match met.join(", ") {
            none if none.is_empty() && self.goals.iter().any(|goal| goal.meets[point].is_some()) => "-".to_owned(),
            met => met,
        }
    }

    /// The figures of classes of a mixed load that the goals bound.
    pub fn of_classes(&self) -> impl Iterator<Item = &str> {
        let all = self.goals.iter().flat_map(|goal| &goal.of_classes);
        all.map(String::as_str).unique()
    }

    /// The condition for a recommendation: `chat or batch`, `steady and (chat or batch)`.
    pub fn wanted(&self) -> String {
        let (targets, assertions): (Vec<&Goal>, Vec<&Goal>) = self.goals.iter().partition(|goal| goal.is_target);
        let names = |goals: &[&Goal], word: &str| goals.iter().map(|goal| &goal.name_in_sentences).join(word);
        let (targets_named, assertions_named) = (names(&targets, " or "), names(&assertions, " and "));
        match (targets.len(), assertions.len()) {
            (_, 0) => targets_named,
            (0, _) => assertions_named,
            (1, _) => format!("{assertions_named} and {targets_named}"),
            _ => format!("{assertions_named} and ({targets_named})"),
        }
    }

    /// Meanings of names that are not self-explanatory: `chat: p99_ttft_ms<=500, p99_tpot_ms<=8`. The question mark is explained if one of
    /// the points in `shown` has it.
    pub fn legend(&self, shown: &[usize]) -> Vec<String> {
        let named = self.goals.iter().filter(|goal| goal.name != goal.text);
        let named = named.map(|goal| format!("{}: {}", goal.name, goal.text));
        let is_open = |at: &usize| self.goals.iter().any(|goal| goal.meets[*at] == Some(Undecided));
        let is_doubtful = shown.iter().any(is_open);
        let doubtful = is_doubtful.then(|| "?: met once, above the load that the search can vouch for".to_owned());
        named.chain(doubtful).collect()
    }

    /// Columns for the table of points, one for each goal: true, false, or empty if undecided.
    pub fn columns(&self) -> Vec<Column> {
        let cell = |meets: &Option<RequirementVerdict>| match meets {
            Some(Met) => Cell::Bool(true),
            Some(Broken) => Cell::Bool(false),
            Some(Undecided) | None => Cell::Missing,
        };
        let column = |goal: &Goal| {
            let cells = goal.meets.iter().map(cell);
            Column::of(format!("meets_{}", goal.name), Section::Identity, cells)
        };
        self.goals.iter().map(column).collect()
    }
}

impl Goal {
    /// An assertion with these criteria. `text` is its name, or lists the criteria.
    fn of(name: String, text: &str, criteria: &[Criterion], meets: Vec<Option<RequirementVerdict>>) -> Goal {
        let words = criteria.iter().map(phrase).join(", ");
        let listed = criteria.iter().join(", ");
        let of_classes = criteria.iter().filter(|criterion| criterion.class.is_some());
        Goal {
            name,
            name_in_sentences: text.replacen(&listed, &words, 1),
            text: if text == listed { listed } else { words },
            is_target: false,
            of_classes: of_classes.map(Criterion::figure).collect(),
            meets,
        }
    }
}

/// The targets of all searches, one for each name.
fn targets(state: &State, runs: &[&RunRecord], points: &Points<'_>) -> Vec<Goal> {
    let mut probes: BTreeMap<&PointId, Vec<(&RunRecord, &Probe)>> = BTreeMap::new();
    for run in runs {
        if let Some(probe) = run.probe() {
            probes.entry(&run.point).or_default().push((run, probe));
        }
    }
    let results = search_results(state);
    let answers = results.iter().filter_map(|result| {
        let (search, answer) = (&result.record().started.search, result.answer()?);
        Some((
            (search, result.target.name.as_str()),
            answer.found.value().unwrap_or(0.0),
        ))
    });
    let limits: HashMap<(&SearchId, &str), f64> = answers.collect();
    let all = state.searches().flat_map(|record| &record.started.targets);
    let goal = |target: &Target| {
        let says = |point: &Point| {
            let probed = probes.get(&runs.get(point.row)?.point)?;
            let of_point: Vec<&Probe> = probed.iter().map(|(_, probe)| *probe).collect();
            let (run, probe) = probed.first()?;
            let of_all_starts = run
                .search
                .as_ref()
                .and_then(|search| limits.get(&(search, &*target.name)));
            let limit = of_all_starts
                .copied()
                .or_else(|| limit_of_start(state, run, &target.name));
            let within = limit.is_none_or(|limit| probe.question.value <= limit);
            Some(match target.is_met_by(&of_point)? {
                true if within => Met,
                true => Undecided,
                false => Broken,
            })
        };
        let meets = points.points.iter().map(says).collect();
        Goal {
            is_target: true,
            ..Goal::of(target.name.clone(), &target.name, &target.criteria, meets)
        }
    };
    let mut goals: Vec<Goal> = all.unique_by(|target| &target.name).map(goal).collect();
    for (at, goal) in goals.iter_mut().enumerate() {
        // A target without a name is named after its bounds, which may be too long for a table.
        if goal.name.chars().count() > LONGEST_NAME && goal.name == goal.text {
            goal.name = format!("target-{}", at + 1);
        }
    }
    goals
}

/// The highest load that meets a target on the start of a run, according to the search that asked for the run. It is 0 if no load does,
/// and `None` without an answer.
fn limit_of_start(state: &State, run: &RunRecord, target: &str) -> Option<f64> {
    let search = state.search(run.search.as_ref()?, run.slot)?;
    Some(search.answer(target)?.found.value().unwrap_or(0.0))
}
