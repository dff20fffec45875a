//! The result of the plan's own comparison, as the answer passes it on.

use crate::journal::{AskedMetric, Compared, ComparisonFound, ComparisonProgress, State};
use vsweep_answer::{Estimate, LocatedChange, PairedFinding, PlannedComparison};
use vsweep_strategy::selection::{Finding, Located};
use vsweep_strategy::stats::{self, ALPHA, Interval};

/// The comparison of a record; none without one.
pub(super) fn comparison(state: &State) -> Option<PlannedComparison> {
    let compared = state.compared()?;
    let mut found = PlannedComparison {
        servers: compared.entrants.iter().map(|entrant| entrant.name.clone()).collect(),
        ended: false,
        starts: 0,
        findings: Vec::new(),
        change: None,
    };
    if let ComparisonProgress::Ended(conclusion) = compared.progress(state, &|_, _| false) {
        found.ended = true;
        found.starts = conclusion.starts;
        match conclusion.found {
            ComparisonFound::Pairs(outcome) => found.findings = findings(compared, &outcome.findings),
            ComparisonFound::Axis(located) => found.change = located.and_then(|located| change(compared, &located)),
        }
    }
    Some(found)
}

fn findings(compared: &Compared, found: &[Finding]) -> Vec<PairedFinding> {
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

fn change(compared: &Compared, located: &Located) -> Option<LocatedChange> {
    let Located::Between(bracket) = located else {
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

/// A ratio from logarithms.
fn estimate(ratio: stats::Estimate, interval: Option<Interval>) -> Option<Estimate> {
    let (low, high) = interval?.exp();
    Some(Estimate {
        value: ratio.log.exp(),
        low,
        high,
    })
}
