//! The comparison that a plan asks for: its result as data, and its ratio so far by the model of noise.

use super::recorded::{Identities, push};
use super::{MARGIN, side};
use crate::journal::{
    AskedMetric, ComparisonDesign, ComparisonFound, ComparisonProgress, RunRecord, ServerRecord, State,
};
use crate::table::{Measure, Points, TableBuilder};
use vsweep_answer::{
    BrokenServer, ComparisonInput, Estimate, LocatedChange, PairedFinding, PlannedComparison, compare,
};
use vsweep_strategy::selection::{Arm, BisectionResult, Finding, PairedEnding};
use vsweep_strategy::stats::{self, ALPHA, Interval};

/// Returns the ratio of new to base in the first question of a comparison of two servers, by the model of noise. The ratio is known as soon
/// as both servers have results, long before the pairs of starts decide. `None` for an axis, or without results of both servers.
pub fn ratio_so_far(compared: &ComparisonDesign, state: &State) -> Option<Estimate> {
    let asked = compared.family.first()?;
    let [base, new] = compared.entrants.as_slice() else {
        return None;
    };
    let [base, new] = [base, new].map(|entrant| entrant.points.get(asked.load));
    let (base, new) = (base?, new?);
    let is_asked = |run: &&RunRecord| !run.is_lost() && (run.point == *base || run.point == *new);
    let runs: Vec<&RunRecord> = state.runs().filter(is_asked).collect();
    let mut builder = TableBuilder::new();
    for run in &runs {
        push(&mut builder, run, state, None);
    }
    let table = builder.finish();
    let measure = Measure {
        metric: asked.metric.clone(),
        better: asked.member.better,
    };
    let points = Points::of(&table);
    let names = Identities {
        runs: &runs,
        points: &points,
    };
    let both = side(&points, &[measure], &names, state.known_noise(), &|_| String::new());
    let found = compare(&ComparisonInput {
        base: &both,
        new: &both,
        pairs: vec![(base.to_string(), new.to_string())],
        margin: &|_| MARGIN,
        limits: Vec::new(),
    });
    Some(found.points.first()?.ratio)
}

/// Returns the comparison of a record, or `None` if its plan asks for none.
pub(super) fn planned(state: &State) -> Option<PlannedComparison> {
    let compared = state.compared()?;
    let mut found = PlannedComparison {
        servers: compared.entrants.iter().map(|entrant| entrant.name.clone()).collect(),
        ..PlannedComparison::default()
    };
    if let ComparisonProgress::Ended(conclusion) = compared.progress(state, &|_, _| false) {
        found.ended = true;
        found.starts = conclusion.starts;
        match conclusion.found {
            ComparisonFound::Pairs(outcome) => {
                found.broken = broken(compared, outcome.ending, state);
                found.findings = findings(compared, &outcome.findings);
            }
            ComparisonFound::Axis(located) => found.change = located.and_then(|located| change(compared, &located)),
        }
    }
    Some(found)
}

/// Returns the server that ended a comparison because it gives no result.
pub fn broken(compared: &ComparisonDesign, ending: PairedEnding, state: &State) -> Option<BrokenServer> {
    let PairedEnding::Unstartable(arm) = ending else {
        return None;
    };
    let entrant = &compared.entrants[usize::from(arm == Arm::New)];
    let runs = state.runs().filter(|run| run.server == entrant.server);
    Some(BrokenServer {
        server: entrant.name.clone(),
        was_ready: state.servers.get(&entrant.server).is_some_and(ServerRecord::was_ready),
        cause: runs.filter_map(|run| run.cause).last(),
    })
}

fn findings(compared: &ComparisonDesign, found: &[Finding]) -> Vec<PairedFinding> {
    let finding = |(asked, found): (&AskedMetric, &Finding)| PairedFinding {
        metric: asked.metric.clone(),
        load: compared.loads[asked.load].clone(),
        pairs: found.pairs,
        ratio: found.ratio.and_then(|ratio| estimate(ratio, found.interval)),
        verdict: found.verdict,
        requirement: found.requirement,
        more_starts: found.more_starts,
    };
    compared.family.iter().zip(found).map(finding).collect()
}

fn change(compared: &ComparisonDesign, located: &BisectionResult) -> Option<LocatedChange> {
    let BisectionResult::Between(bracket) = located else {
        return None;
    };
    let [old, new] = [bracket.old, bracket.new].map(|at| compared.entrants[at].name.clone());
    Some(LocatedChange {
        metric: compared.family.first()?.metric.clone(),
        old,
        new,
        ratio: estimate(bracket.change, bracket.change.interval(ALPHA)),
        doubt: bracket.doubt,
    })
}

/// Converts a ratio and its interval from logarithms; `None` without an interval.
fn estimate(ratio: stats::Estimate, interval: Option<Interval>) -> Option<Estimate> {
    let (low, high) = interval?.exp();
    Some(Estimate {
        value: ratio.log.exp(),
        low,
        high,
    })
}
