//! State of a comparison: a fold over the starts that have all their results. Only the journal decides which start comes next, so an
//! interrupted comparison continues in the same way. Starts of different nodes are never compared.

use super::declared::{AskedMetric, ComparisonDesign, Entrant};
use super::machine::Machine;
use super::state::{RunRecord, State};
use std::collections::BTreeSet;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::{PointId, ServerId};
use vsweep_base::validity::Validity;
use vsweep_strategy::selection::{
    Arm, Bisection, BisectionResult, Logs, PairStart, PairedComparison, PairedEnding, PairedOutcome, Placement,
};
use vsweep_strategy::stats::Start;

/// State of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum ComparisonProgress {
    /// The starts to measure next. Two arms that run side by side start at the same time.
    Starts(Vec<NextStart>),
    /// The comparison has ended.
    Ended(Conclusion),
}

/// A start to measure next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextStart {
    /// Index of its entrant.
    pub entrant: usize,
    /// The number of its planned start.
    pub slot: u32,
    /// Index of the set of GPUs that it gets, of two sets; `None` if all starts get the same.
    pub set: Option<usize>,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// The finding.
    pub found: ComparisonFound,
    /// Number of starts used, failed ones included.
    pub starts: usize,
    /// Number of starts that do not count, because they ran on several nodes, or on another node than the starts to compare with.
    pub apart: usize,
    /// Number of starts with a figure that does not count, because every run that measured it was disturbed.
    pub disturbed: usize,
    /// True if it ended because its time was used up.
    pub is_out_of_time: bool,
}

/// Result of a comparison of two arms in pairs, or of configs along an axis that is bisected.
#[derive(Debug, Clone, PartialEq)]
pub enum ComparisonFound {
    /// The result of two arms.
    Pairs(PairedOutcome),
    /// The result of an axis; `None` if the time or the starts were used up before the ends were compared on one node.
    Axis(Option<BisectionResult>),
}

/// The two kinds of comparison.
enum Selection {
    Pairs(PairedComparison),
    Axis(Bisection),
}

/// The figures of a start that has all its results.
struct MeasuredStart {
    /// Mean logarithm of each metric; `None` if the start failed.
    logs: Option<Logs>,
    /// Like `logs`, without the metrics that only disturbed runs measured.
    quiet_logs: Option<Logs>,
    /// Time for which its server existed, in seconds.
    seconds: f64,
    machines: BTreeSet<Machine>,
    /// True if all runs that measured some figure were disturbed.
    is_disturbed: bool,
}

/// Returns true if the disturbed starts of an entrant are fewer than its others, and so are left out. Where most starts are disturbed, too
/// little else would count.
fn are_exceptions(starts: &[MeasuredStart]) -> bool {
    let measured = || starts.iter().filter(|start| start.logs.is_some());
    2 * measured().filter(|start| start.is_disturbed).count() < measured().count()
}

impl ComparisonDesign {
    /// Returns the state of the comparison. A failed start for which `retries` returns true is measured again.
    pub fn progress(&self, state: &State, retries: &dyn Fn(&ServerId, u32) -> bool) -> ComparisonProgress {
        let mut selection = self.selection(self.max_starts);
        let mut slots = vec![0; self.entrants.len()];
        let mut seconds = vec![0.0; self.entrants.len()];
        let (mut starts, mut apart, mut disturbed) = (0, 0, 0);
        let measured: Vec<Vec<MeasuredStart>> = (0..self.entrants.len())
            .map(|entrant| {
                let starts = (0..).map_while(|slot| self.measured(entrant, slot, state, retries));
                starts.collect()
            })
            .collect();
        let mut measured_on = MeasuredOn::default();
        let (mut pending, mut next) = (Vec::new(), Vec::new());
        let ended = |found, (starts, apart, disturbed), is_out_of_time| {
            ComparisonProgress::Ended(Conclusion {
                found,
                starts,
                apart,
                disturbed,
                is_out_of_time,
            })
        };
        loop {
            let (entrant, in_pair) = match selection.ask(&pending) {
                Err(Some(wanted)) => wanted,
                Err(None) => return ComparisonProgress::Starts(next),
                Ok(found) => return ended(found.on_one_node(apart), (starts, apart, disturbed), false),
            };
            let slot = slots[entrant];
            let Some(start) = measured[entrant].get(slot as usize) else {
                if self.max_seconds.is_some_and(|most| self.spent(&seconds) >= most) {
                    return ended(selection.found_so_far(starts), (starts, apart, disturbed), true);
                }
                let has_sets = self.placement == Placement::SideBySide;
                let set = in_pair.filter(|_| has_sets).map(PairStart::set);
                next.push(NextStart { entrant, slot, set });
                match in_pair {
                    Some(in_pair) => pending.push(in_pair),
                    None => return ComparisonProgress::Starts(next),
                }
                continue;
            };
            seconds[entrant] += start.seconds;
            let is_left_out = start.is_disturbed && !self.is_axis() && are_exceptions(&measured[entrant]);
            let logs = if is_left_out { &start.quiet_logs } else { &start.logs };
            match (measured_on.add(in_pair, start), in_pair) {
                (NodeMatch::Same, _) => {
                    disturbed += usize::from(is_left_out);
                    selection.add(entrant, in_pair, logs.clone());
                }
                // The start ran on several nodes, and is measured once more.
                (NodeMatch::Mixed, _) => apart += 1,
                // The two starts of a pair ran on different nodes, so the pair has no ratio of any metric.
                (NodeMatch::Other, Some(_)) => {
                    apart += 2;
                    selection.add(entrant, in_pair, Some(vec![None; self.family.len()]));
                }
                // A bisection that has moved to another node begins anew there.
                (NodeMatch::Other, None) => {
                    apart = starts;
                    selection = self.selection(self.max_starts.saturating_sub(starts));
                    selection.add(entrant, in_pair, logs.clone());
                }
            }
            slots[entrant] += 1;
            starts += 1;
        }
    }

    /// Returns the measurements of a start: for each member of the family the mean logarithm of its runs. Disturbed runs count only if a
    /// load has no others. `None` while results are missing.
    fn measured(
        &self,
        entrant: usize,
        slot: u32,
        state: &State,
        retries: &dyn Fn(&ServerId, u32) -> bool,
    ) -> Option<MeasuredStart> {
        let Entrant { server, points, .. } = &self.entrants[entrant];
        let runs_at = |point: &PointId| -> Option<Vec<&RunRecord>> {
            let run = |run: u32| {
                let is_retried = state.outcome(point, slot, run)? == Outcome::Failed && retries(server, slot);
                state.run(point, slot, run).filter(|_| !is_retried)
            };
            (0..self.runs).map(run).collect()
        };
        let by_load: Vec<Vec<&RunRecord>> = points.iter().map(runs_at).collect::<Option<_>>()?;
        let is_valid = |run: &&RunRecord| {
            matches!(run.outcome, Outcome::Ok | Outcome::Suspect) && run.validity != Validity::Invalid
        };
        let valid = by_load.iter().map(|runs| runs.iter().copied().filter(is_valid));
        let counted = valid.map(|runs| {
            let (disturbed, others): (Vec<&RunRecord>, Vec<&RunRecord>) = runs.partition(|run| run.is_disturbed());
            match others.is_empty() {
                true => (!disturbed.is_empty(), disturbed),
                false => (false, others),
            }
        });
        let (disturbed, counted): (Vec<bool>, Vec<Vec<&RunRecord>>) = counted.unzip();
        let log = |asked: &AskedMetric| {
            let values = counted[asked.load]
                .iter()
                .filter_map(|run| run.figures().get(&asked.metric));
            let values: Vec<f64> = values.collect();
            let is_zero = !values.is_empty() && values.iter().all(|value| *value == 0.0);
            let of_zeros = is_zero.then_some(f64::NEG_INFINITY);
            of_zeros.or_else(|| Some(Start::of(&values)?.mean()))
        };
        let logs: Logs = self.family.iter().map(log).collect();
        let quiet = |(asked, log): (&AskedMetric, &Option<f64>)| log.filter(|_| !disturbed[asked.load]);
        let quiet_logs: Logs = self.family.iter().zip(&logs).map(quiet).collect();
        let runs = || by_load.iter().flatten().copied();
        let seconds = runs().map(RunRecord::seconds_with_preparation).sum();
        // A start whose runs lack a figure has not failed; it only has no value for that metric.
        let is_measured = runs().any(|run| is_valid(&run));
        Some(MeasuredStart {
            logs: is_measured.then_some(logs),
            quiet_logs: is_measured.then_some(quiet_logs),
            seconds: state.seconds_of_start(server, slot, seconds),
            machines: runs().filter_map(|run| state.measured_at(run)).collect(),
            is_disturbed: disturbed.contains(&true),
        })
    }

    /// Returns the time spent so far, in seconds. `seconds` has the time of each entrant. The times of arms that run side by side overlap,
    /// so the longer one counts.
    fn spent(&self, seconds: &[f64]) -> f64 {
        match self.placement {
            Placement::InTurn => seconds.iter().sum(),
            Placement::SideBySide => seconds.iter().copied().fold(0.0, f64::max),
        }
    }

    fn selection(&self, max_starts: usize) -> Selection {
        if self.is_axis() {
            return Selection::Axis(Bisection::new(self.entrants.len(), max_starts));
        }
        let family = self.family.iter().map(|asked| asked.member).collect();
        Selection::Pairs(PairedComparison::new(family, max_starts, self.placement))
    }
}

impl Selection {
    /// Returns the finding of a comparison in which no further start may begin.
    fn found_so_far(self, starts: usize) -> ComparisonFound {
        match self {
            Selection::Pairs(paired) => ComparisonFound::Pairs(PairedOutcome {
                findings: paired.findings(),
                ending: PairedEnding::Spent,
                starts,
            }),
            Selection::Axis(bisected) => ComparisonFound::Axis(bisected.stopped()),
        }
    }

    /// Returns the finding if the comparison has ended. Otherwise the error is the entrant to start next, with the position of the start in
    /// its pair if there are pairs, or `None` if a start must end first. `pending` are the starts under way.
    fn ask(&self, pending: &[PairStart]) -> Result<ComparisonFound, Option<(usize, Option<PairStart>)>> {
        let of_pair = |slot: PairStart| (usize::from(slot.arm == Arm::New), Some(slot));
        match self {
            Selection::Pairs(paired) => {
                let asked = paired.ask(pending);
                asked.map(ComparisonFound::Pairs).map_err(|slot| slot.map(of_pair))
            }
            Selection::Axis(bisected) => {
                let asked = bisected.ask().map(|located| ComparisonFound::Axis(Some(located)));
                asked.map_err(|entrant| Some((entrant, None)))
            }
        }
    }

    /// Adds the result of a start that was asked for.
    fn add(&mut self, entrant: usize, in_pair: Option<PairStart>, logs: Option<Logs>) {
        match (self, in_pair) {
            (Selection::Pairs(paired), Some(slot)) => paired.add(slot, logs),
            (Selection::Axis(bisected), None) => {
                let log = logs.and_then(|logs| logs.first().copied().flatten());
                let log = log.filter(|log| log.is_finite());
                bisected.add(entrant, log);
            }
            _ => unreachable!("only starts that were asked for have results"),
        }
    }
}

impl ComparisonFound {
    /// Removes the finding that no entrant of an axis can be started, if starts were left out because of their node.
    fn on_one_node(self, apart: usize) -> ComparisonFound {
        match self {
            ComparisonFound::Axis(Some(BisectionResult::Unstartable)) if apart > 0 => ComparisonFound::Axis(None),
            found => found,
        }
    }
}

/// Nodes of the starts that are compared with the next one: those of its pair, or all of an axis.
#[derive(Default)]
struct MeasuredOn {
    pair: Option<usize>,
    machines: BTreeSet<Machine>,
}

/// Comparison of a start's node with the nodes of earlier starts.
enum NodeMatch {
    /// The node is the same, or unknown.
    Same,
    /// The node is another one.
    Other,
    /// The start itself was measured on several nodes.
    Mixed,
}

impl MeasuredOn {
    fn add(&mut self, in_pair: Option<PairStart>, start: &MeasuredStart) -> NodeMatch {
        if start.logs.is_none() {
            return NodeMatch::Same;
        }
        if !Machine::are_one_node(&start.machines) {
            return NodeMatch::Mixed;
        }
        let pair = in_pair.map(|slot| slot.pair);
        if self.pair != pair {
            (self.pair, self.machines) = (pair, BTreeSet::new());
        }
        let all = &self.machines | &start.machines;
        if Machine::are_one_node(&all) {
            self.machines = all;
            return NodeMatch::Same;
        }
        self.machines = start.machines.clone();
        NodeMatch::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Figures;
    use crate::journal::declared::{LoadNames, PlanContent, RecordedPlan};
    use crate::journal::event::{
        Event, ReadPositions, RunEvidence, RunFinished, RunStarted, ServerExited, SessionStarted,
    };
    use crate::journal::rank::{Hex64, Nonce};
    use vsweep_base::validity::{Code, Doubt};
    use vsweep_plan::Params;
    use vsweep_strategy::selection::{Finding, Member};
    use vsweep_strategy::stats::{Better, Margin, Verdict};

    fn compared(max_seconds: Option<f64>) -> ComparisonDesign {
        let entrant = |name: &str| Entrant {
            server: ServerId(name.into()),
            name: name.into(),
            points: vec![PointId(format!("{name}-point").into())],
        };
        ComparisonDesign {
            entrants: vec![entrant("base"), entrant("new")],
            loads: vec!["load".into()],
            family: vec![AskedMetric {
                metric: "output_throughput".into(),
                load: 0,
                member: Member {
                    better: Better::Higher,
                    margin: Margin::percent(3.0),
                    bound: None,
                },
            }],
            runs: 1,
            max_starts: 40,
            max_seconds,
            placement: Placement::InTurn,
        }
    }

    fn note(state: &mut State, node: u64, event: Event) -> u64 {
        let mut entry = state.next_entry(event);
        // No session has nonce 0.
        entry.rank.line.journal = Hex64(1 + node);
        state.apply(entry.clone());
        entry.rank.line.seq
    }

    fn measure(compared: &ComparisonDesign, state: &mut State, entrant: usize, slot: u32, figure: Option<f64>) {
        measure_on(compared, state, 0, (entrant, slot), figure);
    }

    fn measure_on(compared: &ComparisonDesign, state: &mut State, node: u64, start: (usize, u32), figure: Option<f64>) {
        record(compared, state, node, (start, 0), figure, Vec::new());
    }

    /// Records a run of a start on a node, with doubts about it. A run without a figure has failed.
    fn record(
        compared: &ComparisonDesign,
        state: &mut State,
        node: u64,
        ((entrant, slot), run): ((usize, u32), u32),
        figure: Option<f64>,
        doubts: Vec<Doubt>,
    ) {
        let Entrant { server, points, .. } = &compared.entrants[entrant];
        let started = RunStarted {
            point: points[0].clone(),
            server: server.clone(),
            slot,
            run,
            launch: 1,
            name: String::new(),
            params: Params::new(),
            combo: None,
            search: None,
            anew: None,
        };
        let started = note(state, node, Event::RunStarted(Box::new(started)));
        let learned =
            figure.map(|figure| RunEvidence::Figures(Figures::from_iter([("output_throughput".to_owned(), figure)])));
        let outcome = match figure {
            Some(_) => Outcome::Ok,
            None => Outcome::Failed,
        };
        let finished = RunFinished {
            started,
            outcome,
            seconds: 10.0,
            learned,
            doubts,
            ..RunFinished::default()
        };
        note(state, node, Event::RunFinished(Box::new(finished)));
    }

    /// Follows a comparison to its end, with a figure for each start that is asked for, by its number and entrant.
    fn follow(
        compared: &ComparisonDesign,
        figure: impl Fn(usize, usize) -> Option<f64>,
    ) -> (Vec<(usize, u32)>, Conclusion) {
        let mut state = State::default();
        let mut starts = Vec::new();
        loop {
            match compared.progress(&state, &|_, _| false) {
                // If two arms run side by side, the second ends first.
                ComparisonProgress::Starts(next) => {
                    let NextStart { entrant, slot, .. } = next[next.len() - 1];
                    measure(compared, &mut state, entrant, slot, figure(starts.len(), entrant));
                    starts.push((entrant, slot));
                }
                ComparisonProgress::Ended(conclusion) => return (starts, conclusion),
            }
        }
    }

    fn noisy(start: usize, entrant: usize) -> f64 {
        let noise = [0.0, 0.4, -0.3, 0.2, -0.4, 0.1, 0.3, -0.2][start % 8];
        100.0 + noise - 20.0 * entrant as f64
    }

    #[test]
    fn starts_come_in_pairs_and_a_failed_one_is_tried_again() {
        let (starts, conclusion) = follow(&compared(None), |start, entrant| {
            (start != 2).then(|| noisy(start, entrant))
        });
        assert_eq!(starts[..6], [(0, 0), (1, 0), (1, 1), (1, 2), (0, 1), (0, 2)]);
        let ComparisonFound::Pairs(outcome) = conclusion.found else {
            panic!("two arms are pairs");
        };
        assert_eq!(
            (outcome.ending, outcome.starts),
            (PairedEnding::Decided, conclusion.starts)
        );
        assert!(!conclusion.is_out_of_time);
    }

    #[test]
    fn a_start_without_the_figure_that_is_asked_for_has_not_failed() {
        let before = compared(None);
        let mut state = State::default();
        for slot in 0..4 {
            for entrant in [0, 1] {
                measure(&before, &mut state, entrant, slot, Some(100.0));
            }
        }
        let now = ComparisonDesign {
            family: vec![AskedMetric {
                metric: "p99_ttft_ms".into(),
                ..before.family[0].clone()
            }],
            ..before
        };
        let progress = now.progress(&state, &|_, _| false);
        assert!(matches!(progress, ComparisonProgress::Starts(_)), "{progress:?}");
    }

    #[test]
    fn no_start_begins_after_its_time() {
        let (starts, conclusion) = follow(&compared(Some(25.0)), |start, entrant| Some(noisy(start, entrant)));
        assert_eq!((starts.len(), conclusion.is_out_of_time), (3, true));
    }

    #[test]
    fn the_time_of_failed_starts_counts() {
        let own = compared(Some(25.0));
        let mut state = State::default();
        note(&mut state, 0, session(0));
        let server = own.entrants[0].server.clone();
        let starting = Event::ServerStarting {
            server: server.clone(),
            slot: 0,
            launch: 1,
            gpus: Vec::new(),
        };
        note(&mut state, 0, starting);
        measure(&own, &mut state, 0, 0, None);
        let exited = ServerExited {
            server,
            launch: 1,
            held_seconds: Some(30.0),
            ..ServerExited::default()
        };
        note(&mut state, 0, Event::ServerExited(Box::new(exited)));
        let ComparisonProgress::Ended(conclusion) = own.progress(&state, &|_, _| false) else {
            panic!("30 s have passed");
        };
        assert!(conclusion.is_out_of_time);
    }

    /// A session on a node of this number.
    fn session(node: u64) -> Event {
        Event::SessionStarted(Box::new(SessionStarted {
            renamed: LoadNames::default(),
            optimize: None,
            host: String::new(),
            boot: String::new(),
            pid: 1,
            started: 0,
            machine: Some(Box::new(Machine {
                node: format!("n{node}"),
                ..Machine::default()
            })),
            joined: false,
            plan: RecordedPlan {
                name: "p".to_owned(),
                sha256: String::new(),
                content: PlanContent::In(Nonce::IMAGINED),
            },
            servers: 2,
            points: 2,
            starts: 1,
            runs: 2,
            searches: 0,
            compare: None,
            noise: Vec::new(),
            seen: ReadPositions::new(),
        }))
    }

    /// Follows a comparison whose starts run on the nodes of these numbers, and on the last of them from then on.
    fn follow_on(compared: &ComparisonDesign, nodes: &[u64], figure: impl Fn(usize, usize, u64) -> f64) -> Conclusion {
        let mut state = State::default();
        for node in 0..=nodes.iter().copied().max().unwrap_or(0) {
            note(&mut state, node, session(node));
        }
        for at in 0.. {
            let next = match compared.progress(&state, &|_, _| false) {
                ComparisonProgress::Starts(next) => next[0],
                ComparisonProgress::Ended(conclusion) => return conclusion,
            };
            let node = nodes[at.min(nodes.len() - 1)];
            let figure = figure(at, next.entrant, node);
            measure_on(compared, &mut state, node, (next.entrant, next.slot), Some(figure));
        }
        unreachable!("every comparison ends")
    }

    #[test]
    fn arms_on_different_nodes_are_no_pair() {
        // The second node is twice as fast, and the arms are alike.
        let figure = |at: usize, _: usize, node: u64| noisy(at, 0) * (1 + node) as f64;
        let conclusion = follow_on(&compared(None), &[0, 1], figure);
        let ComparisonFound::Pairs(outcome) = &conclusion.found else {
            panic!("two arms are pairs");
        };
        assert_eq!((conclusion.apart, outcome.findings[0].verdict), (2, Verdict::Same));
        assert!(outcome.findings[0].pairs * 2 <= conclusion.starts - 2);
        // A pair counts if both of its starts are on one node, whichever node it is.
        let conclusion = follow_on(&compared(None), &[0, 0, 1, 1, 0, 0, 1, 1, 0], figure);
        assert_eq!(conclusion.apart, 0);
        // The starts of a pair are always on different nodes, so nothing is decided.
        let apart: Vec<u64> = (0..40).map(|at| at % 2).collect();
        let conclusion = follow_on(&compared(None), &apart, figure);
        let ComparisonFound::Pairs(outcome) = &conclusion.found else {
            panic!("two arms are pairs");
        };
        assert_eq!(
            (conclusion.apart, outcome.findings[0].verdict),
            (40, Verdict::Undecided)
        );
    }

    /// Follows a comparison of two runs on each start, with the figure of each run and whether the generator stalled.
    fn follow_stalls(compared: &ComparisonDesign, figure: impl Fn(usize, u32, u32) -> (f64, bool)) -> Conclusion {
        let mut state = State::default();
        loop {
            let NextStart { entrant, slot, .. } = match compared.progress(&state, &|_, _| false) {
                ComparisonProgress::Starts(next) => next[0],
                ComparisonProgress::Ended(conclusion) => return conclusion,
            };
            for run in 0..compared.runs {
                let (figure, is_stalled) = figure(entrant, slot, run);
                let doubts = is_stalled.then(|| Doubt::new(Code::GeneratorStalled, ""));
                let doubts = doubts.into_iter().collect();
                record(compared, &mut state, 0, ((entrant, slot), run), Some(figure), doubts);
            }
        }
    }

    fn only_finding(conclusion: &Conclusion) -> &Finding {
        match &conclusion.found {
            ComparisonFound::Pairs(outcome) => &outcome.findings[0],
            _ => panic!("two arms are pairs"),
        }
    }

    /// The verdict, and the number of starts that do not count.
    fn verdict(conclusion: &Conclusion) -> (Verdict, usize) {
        (only_finding(conclusion).verdict, conclusion.disturbed)
    }

    #[test]
    fn a_disturbed_run_decides_nothing() {
        let own = ComparisonDesign {
            runs: 2,
            max_starts: 16,
            ..compared(None)
        };
        // The new arm is 10 % faster. The generator stalls in one run of its second start, and in both of its third.
        let level = |entrant: usize, slot: u32, is_stalled: bool| {
            let level = if entrant == 1 { 110.0 } else { 100.0 };
            let noise = [0.0, 0.1, -0.1, 0.05][(slot as usize + entrant) % 4];
            (level + noise) * if is_stalled { 0.66 } else { 1.0 }
        };
        let figure = |entrant: usize, slot: u32, run: u32| {
            let is_stalled = entrant == 1 && (slot == 2 || (slot == 1 && run == 0));
            (level(entrant, slot, is_stalled), is_stalled)
        };
        let conclusion = follow_stalls(&own, figure);
        assert_eq!(verdict(&conclusion), (Verdict::Improved, 1));
        let ratio = only_finding(&conclusion).ratio.expect("a ratio").log.exp();
        assert!((ratio - 1.1).abs() < 0.01, "{ratio}");
        // A disturbed first start is left out too.
        let first = |entrant: usize, slot: u32, _| {
            let is_stalled = (entrant, slot) == (0, 0);
            (level(entrant, slot, is_stalled), is_stalled)
        };
        assert_eq!(verdict(&follow_stalls(&own, first)), (Verdict::Improved, 1));
        // Where an arm is always disturbed, all its starts count.
        let one_arm = |entrant: usize, slot: u32, _| (level(entrant, slot, false), entrant == 1);
        assert_eq!(verdict(&follow_stalls(&own, one_arm)), (Verdict::Improved, 0));
        // Where every run is disturbed, all count.
        let every = |entrant: usize, slot: u32, _| (level(entrant, slot, false), true);
        assert_eq!(verdict(&follow_stalls(&own, every)), (Verdict::Improved, 0));
    }

    #[test]
    fn an_axis_that_moves_to_another_node_is_measured_anew_there() {
        let arms = compared(None);
        let more = [("middle", "middle-point"), ("last", "last-point")].map(|(name, point)| Entrant {
            server: ServerId(name.into()),
            name: name.into(),
            points: vec![PointId(point.into())],
        });
        let axis = ComparisonDesign {
            entrants: arms.entrants.iter().cloned().chain(more).collect(),
            ..arms
        };
        let figure = |at: usize, entry: usize, node: u64| {
            let level = if entry > 1 { 80.0 } else { 100.0 };
            (level + noisy(at, 0) - 100.0) * (1 + node) as f64
        };
        let conclusion = follow_on(&axis, &[0, 0, 0, 1], figure);
        assert_eq!(conclusion.apart, 3);
        let ComparisonFound::Axis(Some(BisectionResult::Between(bracket))) = conclusion.found else {
            panic!("{conclusion:?}");
        };
        assert_eq!((bracket.old, bracket.new), (1, 2));
        let apart: Vec<u64> = (0..40).map(|at| at % 2).collect();
        assert_eq!(follow_on(&axis, &apart, figure).found, ComparisonFound::Axis(None));
    }

    #[test]
    fn a_failed_start_is_measured_again_where_that_is_wanted() {
        let compared = compared(None);
        let mut state = State::default();
        measure(&compared, &mut state, 0, 0, None);
        let only = |slot| {
            let entrant = 0;
            ComparisonProgress::Starts(vec![NextStart {
                entrant,
                slot,
                set: None,
            }])
        };
        assert_eq!(compared.progress(&state, &|_, _| false), only(1));
        assert_eq!(compared.progress(&state, &|_, _| true), only(0));
    }

    #[test]
    fn arms_side_by_side_come_at_once_and_swap_their_gpus() {
        let compared = ComparisonDesign {
            placement: Placement::SideBySide,
            ..compared(None)
        };
        let mut state = State::default();
        let next = |state: &State| match compared.progress(state, &|_, _| false) {
            ComparisonProgress::Starts(next) => next
                .into_iter()
                .map(|next| (next.entrant, next.slot, next.set.expect("a set")))
                .collect(),
            ComparisonProgress::Ended(_) => Vec::new(),
        };
        assert_eq!(next(&state), [(0, 0, 0), (1, 0, 1)]);
        measure(&compared, &mut state, 1, 0, Some(80.0));
        assert_eq!(next(&state), [(0, 0, 0)], "a pair is whole before the next begins");
        measure(&compared, &mut state, 0, 0, None);
        assert_eq!(next(&state), [(0, 1, 0)], "a failed start is tried again on its GPUs");
        measure(&compared, &mut state, 0, 1, Some(100.0));
        assert_eq!(next(&state), [(1, 1, 0), (0, 2, 1)]);
        let (starts, conclusion) = follow(&compared, |start, entrant| Some(noisy(start, entrant)));
        let ComparisonFound::Pairs(outcome) = conclusion.found else {
            panic!("two arms are pairs");
        };
        assert_eq!((outcome.ending, starts.len() % 2), (PairedEnding::Decided, 0));
        // Both arms take their 10 s at once, so 25 s hold three pairs.
        let short = ComparisonDesign {
            max_seconds: Some(25.0),
            ..compared
        };
        let (starts, conclusion) = follow(&short, |start, entrant| Some(noisy(start, entrant)));
        assert_eq!((starts.len(), conclusion.is_out_of_time), (6, true));
    }
}
