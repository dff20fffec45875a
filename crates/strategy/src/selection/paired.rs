//! Compares two arms by pairs of server starts until every question is answered or the starts are spent.
//!
//! The order is ABBA, so that a drift of the node favours neither arm. On disjoint GPUs both arms of a pair run at once, and the arms swap
//! their sets of GPUs from pair to pair. A comparison has a family of members, each a metric at a point. Each pair gives one ratio for each
//! member. [`PairedComparison`] chooses the next start and looks at the ratios after each complete pair. At each look it decides the
//! members that it can, with Holm's correction for the size of the family. [`Member`] judges the ratios of one member.

use super::Arm;
use crate::stats::{
    Better, Bound, Estimate, Interval, IntervalRule, Margin, RequirementVerdict, Verdict, level_of_look, more_units,
};
use serde::{Deserialize, Serialize};

/// Placement of the two arms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On the same GPUs, one after the other.
    #[default]
    InTurn,
    /// On two sets of GPUs at once, which are swapped between pairs.
    SideBySide,
}

/// One start of one arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PairStart {
    /// Index of the pair that the start belongs to.
    pub pair: usize,
    /// The arm to start.
    pub arm: Arm,
}

impl PairStart {
    /// Returns the set of GPUs, 0 or 1, that the start gets if both arms run at the same time.
    pub fn set(self) -> usize {
        usize::from((self.arm == Arm::New) != (self.pair % 2 == 1))
    }
}

/// The results of a start, one for each member: the mean logarithm of the start's runs ([`crate::stats::Start::mean`]), or `None` if the
/// member was not measured.
pub type Logs = Vec<Option<f64>>;

/// Outcome of a comparison in pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairedOutcome {
    /// Findings of the members, in the family's order.
    pub findings: Vec<Finding>,
    /// Reason for the end of the comparison.
    pub ending: PairedEnding,
    /// Number of starts used, failed ones included.
    pub starts: usize,
}

/// Reason for the end of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairedEnding {
    /// Every question is answered.
    Decided,
    /// The starts are spent.
    Spent,
    /// Four starts of this arm in a row failed or died before they were measured.
    Unstartable(Arm),
}

/// Finding about one member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Number of pairs that the finding is based on: those up to the decision, or all if it is undecided.
    pub pairs: usize,
    /// The new arm's figure divided by the base's; `None` with fewer than four pairs.
    pub ratio: Option<Estimate>,
    /// An interval with the confidence that the family's correction requires. It is valid at any number of looks.
    pub interval: Option<Interval>,
    /// The verdict.
    pub verdict: Verdict,
    /// The state of the member's requirement, if there is one.
    pub requirement: Option<RequirementVerdict>,
    /// If undecided, the number of further starts that would decide in four of five cases if the estimate were the truth. `None` if the
    /// question is decided, the ratio is unknown, or 1000 pairs would not suffice.
    pub more_starts: Option<usize>,
}

/// The probability that some member of the family is called changed or broken although no member is.
const ALPHA: f64 = 0.04;
/// Number of failures in a row after which an arm counts as unstartable.
const FAILURES: usize = 4;

/// A comparison under way.
#[derive(Debug, Clone)]
pub struct PairedComparison {
    family: Vec<Member>,
    max_starts: usize,
    placement: Placement,
    /// The result of each start; `None` if it failed.
    results: Vec<(PairStart, Option<Logs>)>,
    /// Number of complete pairs at the last look.
    looked: usize,
    /// Final finding of each member, once it has one.
    settled: Vec<Option<Finding>>,
    /// Number of members that share the probability of a false alarm: all but those that were called changed or broken.
    sharing: usize,
}

impl PairedComparison {
    /// Returns a comparison without measurements. `family` has a question for each metric at each point. The comparison asks for at most
    /// `max_starts` starts, failed ones included; fewer than eight decide nothing.
    pub fn new(family: Vec<Member>, max_starts: usize, placement: Placement) -> PairedComparison {
        PairedComparison {
            looked: 0,
            settled: vec![None; family.len()],
            sharing: family.len(),
            results: Vec::new(),
            family,
            max_starts,
            placement,
        }
    }

    /// Adds the result of a start; `None` if it did not start, or died before it was measured.
    pub fn add(&mut self, slot: PairStart, logs: Option<Logs>) {
        self.results.push((slot, logs));
        while self.looked < self.complete() {
            self.looked += 1;
            self.look();
        }
    }

    /// Returns the outcome, or as an error the next start. The starts in `pending` were asked for and have no result yet; `Err(None)` means
    /// that one of them must end first.
    pub fn ask(&self, pending: &[PairStart]) -> Result<PairedOutcome, Option<PairStart>> {
        let starts = self.results.len();
        let done = |ending: PairedEnding| match pending.is_empty() {
            true => Ok(PairedOutcome {
                findings: self.findings(),
                ending,
                starts,
            }),
            false => Err(None),
        };
        if let Some(arm) = [Arm::Base, Arm::New].into_iter().find(|arm| self.is_unstartable(*arm)) {
            return done(PairedEnding::Unstartable(arm));
        }
        let mut open = slots(self.complete()).to_vec();
        open.retain(|slot| self.measured(*slot).is_none());
        if open.len() == 2 && pending.is_empty() && self.settled.iter().all(Option::is_some) {
            return done(PairedEnding::Decided);
        }
        if starts + open.len() > self.max_starts {
            return done(PairedEnding::Spent);
        }
        let may_start = |slot: &PairStart| match self.placement {
            Placement::InTurn => pending.is_empty(),
            Placement::SideBySide => !pending.contains(slot),
        };
        Err(open.into_iter().find(may_start))
    }

    fn measured(&self, slot: PairStart) -> Option<&[Option<f64>]> {
        let mut of_slot = self.results.iter().filter(|(other, _)| *other == slot);
        of_slot.find_map(|(_, logs)| logs.as_deref())
    }

    /// Number of pairs, from the first, of which both starts were measured.
    fn complete(&self) -> usize {
        let is_complete = |pair: &usize| slots(*pair).into_iter().all(|slot| self.measured(slot).is_some());
        (0..).take_while(is_complete).count()
    }

    fn is_unstartable(&self, arm: Arm) -> bool {
        let of_arm = self.results.iter().rev().filter(|(slot, _)| slot.arm == arm);
        of_arm.take_while(|(_, logs)| logs.is_none()).count() >= FAILURES
    }

    /// Returns the measured ratios of each member among the first `count` pairs.
    fn pairs(&self, count: usize) -> Vec<Vec<Pair>> {
        let mut series = vec![Vec::new(); self.family.len()];
        for pair in 0..count {
            let of = |arm: Arm| self.measured(PairStart { pair, arm });
            let (Some(base), Some(new)) = (of(Arm::Base), of(Arm::New)) else {
                continue;
            };
            let turn = if pair % 2 == 0 { 1.0 } else { -1.0 };
            for (pairs, logs) in series.iter_mut().zip(new.iter().zip(base)) {
                if let (Some(new), Some(base)) = logs {
                    pairs.push(Pair { log: new - base, turn });
                }
            }
        }
        series
    }

    /// Decides members by the pairs so far, with Holm's procedure for repeated looks (Ye, Li, Liu and Yao 2013; Maurer and Bretz 2013). A
    /// decision is final. If a member is called changed or broken, its share of the probability of a false alarm goes to the others.
    fn look(&mut self) {
        let series = self.pairs(self.looked);
        let members = 0..series.len();
        let asked = |member: usize| Some((self.family[member], ratio(&series[member])?));
        let asked: Vec<Option<(Member, Estimate)>> = members.clone().map(asked).collect();
        let levels = |this: &PairedComparison, member: usize| this.levels(series[member].len());
        for member in members.clone() {
            let is_fine = asked[member].is_some_and(|(asked, ratio)| asked.is_fine(ratio, levels(self, member)));
            if is_fine && self.settled[member].is_none() {
                self.settled[member] = Some(self.finding(member, &series[member]));
            }
        }
        // The most significant member first, because each member that is called leaves a larger share for the next.
        loop {
            let open = members.clone().filter(|member| self.settled[*member].is_none());
            let p_values = open.filter_map(|member| {
                let (asked, ratio) = asked[member]?;
                Some((member, asked.p_value(ratio)))
            });
            match p_values.min_by(|a, b| a.1.total_cmp(&b.1)) {
                Some((member, p_value)) if p_value <= levels(self, member).change => {
                    self.settled[member] = Some(self.finding(member, &series[member]));
                    self.sharing -= 1;
                }
                _ => break,
            }
        }
    }

    /// Returns the findings of the pairs so far, one for each member, in the family's order.
    pub fn findings(&self) -> Vec<Finding> {
        let series = self.pairs(self.looked);
        let found = self.settled.iter().zip(&series).enumerate();
        found
            .map(|(member, (settled, pairs))| settled.clone().unwrap_or_else(|| self.finding(member, pairs)))
            .collect()
    }

    fn levels(&self, pairs: usize) -> Levels {
        let last = (self.max_starts / 2).max(FIRST_LOOK);
        Levels::at(pairs, last, ALPHA / self.sharing.max(1) as f64)
    }

    fn finding(&self, member: usize, pairs: &[Pair]) -> Finding {
        let asked = self.family[member];
        let levels = self.levels(pairs.len());
        let found = ratio(pairs);
        let (interval, verdict) = found.map_or((None, Verdict::Undecided), |ratio| asked.verdict(ratio, levels));
        let mut finding = Finding {
            pairs: pairs.len(),
            ratio: found,
            interval,
            verdict,
            requirement: asked.requirement(interval),
            more_starts: None,
        };
        if !finding.is_final() {
            finding.more_starts = found.and_then(|ratio| more_starts(&asked, ratio, pairs.len(), levels));
        }
        finding
    }
}

fn more_starts(asked: &Member, ratio: Estimate, pairs: usize, levels: Levels) -> Option<usize> {
    let sd = ratio.error?.standard * (pairs as f64).sqrt();
    let rule = IntervalRule {
        alpha: levels.change,
        alpha_same: levels.same,
        freedom: |pairs| pairs as f64 - 2.0,
    };
    Some(2 * more_units((asked.margin, asked.bound), ratio.log, sd, pairs, &rule)?)
}

impl Finding {
    /// Returns true if the question about the member is answered.
    fn is_final(&self) -> bool {
        match self.requirement {
            Some(requirement) => requirement != RequirementVerdict::Undecided,
            None => self.verdict != Verdict::Undecided,
        }
    }
}

/// Returns the two starts of a pair, in the order in which they are made.
fn slots(pair: usize) -> [PairStart; 2] {
    let arms = match pair.is_multiple_of(2) {
        true => [Arm::Base, Arm::New],
        false => [Arm::New, Arm::Base],
    };
    arms.map(|arm| PairStart { pair, arm })
}

/// A metric at a point, and the question about its ratio of new to base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The better direction.
    pub better: Better,
    /// A change below this does not matter.
    pub margin: Margin,
    /// A requirement of the plan. If there is one, pairs are added until the requirement is decided, otherwise until the verdict is.
    pub bound: Option<Bound>,
}

/// The ratio of new to base in one pair of starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    /// The difference of logarithms.
    pub log: f64,
    /// 1 or -1 in turn, because the arms swap their order or their GPUs from pair to pair.
    pub turn: f64,
}

/// Fewest pairs from which a look can decide. With three pairs, only one degree of freedom would be left.
pub(super) const FIRST_LOOK: usize = 4;

/// The probability, at the last look, that an interval within the margin misses the truth. It is smaller than the probability of a false
/// alarm, because a regression that is called `same` is shipped.
const ALPHA_SAME: f64 = 0.0005;

/// The confidence of intervals at one look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Levels {
    /// The probability that an interval that shows a change, or is compared with a bound, misses the truth.
    pub change: f64,
    /// The probability that an interval that lies within the margin misses the truth.
    pub same: f64,
}

impl Levels {
    /// Returns the levels after `pairs` of at most `last` pairs, if the family may spend `alpha` on this member.
    ///
    /// Early looks at the margin are the strictest, because four pairs may agree by luck. The level grows with the cube of the number of
    /// pairs, as in the power family of Kim and DeMets (1987).
    pub fn at(pairs: usize, last: usize, alpha: f64) -> Levels {
        Levels {
            change: level_of_look(FIRST_LOOK, last, alpha),
            same: ALPHA_SAME * (pairs as f64 / last as f64).powi(3),
        }
    }
}

/// Returns the mean over pairs without the effect of the turn, by least squares on a constant and the turn. A linear drift and a difference
/// between the GPU sets have such an effect. `None` with fewer than [`FIRST_LOOK`] pairs, or if all pairs have the same turn.
pub(super) fn ratio(pairs: &[Pair]) -> Option<Estimate> {
    let n = pairs.len() as f64;
    let sum = |value: fn(&Pair) -> f64| pairs.iter().map(value).sum::<f64>();
    let (turns, logs, products) = (sum(|p| p.turn), sum(|p| p.log), sum(|p| p.turn * p.log));
    let determinant = n * n - turns * turns;
    if pairs.len() < FIRST_LOOK || determinant <= 0.0 {
        return None;
    }
    let log = (n * logs - turns * products) / determinant;
    let effect = (n * products - turns * logs) / determinant;
    let residuals: f64 = pairs
        .iter()
        .map(|pair| (pair.log - log - effect * pair.turn).powi(2))
        .sum();
    let freedom = n - 2.0;
    let standard = (residuals / freedom * n / determinant).sqrt();
    Some(Estimate::new(log, standard, freedom))
}

impl Member {
    /// Returns the p-value of the alarm: that the ratio has changed or, with a bound, that the bound is broken.
    pub(super) fn p_value(&self, ratio: Estimate) -> f64 {
        match self.bound {
            Some(bound) => bound.p_value(ratio),
            None => ratio.p_value(0.0).unwrap_or(1.0),
        }
    }

    /// Returns true if the result is harmless: within the margin, or the bound met.
    pub(super) fn is_fine(&self, ratio: Estimate, levels: Levels) -> bool {
        match self.bound {
            Some(_) => self.requirement(ratio.interval(levels.change)) == Some(RequirementVerdict::Met),
            None => self.is_same(ratio, levels),
        }
    }

    fn is_same(&self, ratio: Estimate, levels: Levels) -> bool {
        let strict = ratio.interval(levels.same);
        strict.is_some_and(|interval| self.margin.holds(interval))
    }

    /// Returns the interval and the verdict of a ratio. The verdict `same` requires a stricter level than that of the interval.
    pub(super) fn verdict(&self, ratio: Estimate, levels: Levels) -> (Option<Interval>, Verdict) {
        let interval = ratio.interval(levels.change);
        let no_margin = Margin { log: 0.0 };
        let verdict = match interval {
            _ if self.is_same(ratio, levels) => Verdict::Same,
            Some(interval) => Verdict::of(interval, no_margin, self.better),
            None => Verdict::Undecided,
        };
        (interval, verdict)
    }

    /// Returns the verdict on the requirement, if there is one.
    pub(super) fn requirement(&self, interval: Option<Interval>) -> Option<RequirementVerdict> {
        let bound = self.bound?;
        Some(interval.map_or(RequirementVerdict::Undecided, |interval| bound.judge(interval)))
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod pairs_tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn drift_and_gpu_sets_cancel(
            noise in prop::collection::vec(-0.02f64..0.02, 4..20), change in -0.1f64..0.1, effect in -0.5f64..0.5,
        ) {
            let turn = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
            let pairs = |effect: f64| -> Vec<Pair> {
                noise.iter().enumerate().map(|(i, e)| Pair { log: change + e + effect * turn(i), turn: turn(i) }).collect()
            };
            let (without, with) = (ratio(&pairs(0.0)).expect("pairs"), ratio(&pairs(effect)).expect("pairs"));
            prop_assert!((without.log - with.log).abs() < 1e-9);
            let (a, b) = (without.error.expect("known"), with.error.expect("known"));
            prop_assert!((a.standard - b.standard).abs() < 1e-9);
        }
    }

    #[test]
    fn as_statsmodels_fits() {
        // statsmodels 0.15.0: OLS([0.01, 0.03, -0.01, 0.02, 0.025], [[1, 1], [1, -1], [1, 1], [1, -1], [1, 1]]).fit()
        let logs = [0.01, 0.03, -0.01, 0.02, 0.025];
        let pairs: Vec<Pair> = logs
            .iter()
            .zip([1.0, -1.0, 1.0, -1.0, 1.0])
            .map(|(log, turn)| Pair { log: *log, turn })
            .collect();
        let found = ratio(&pairs).expect("pairs");
        let error = found.error.expect("known");
        assert!((found.log - 0.016_666_666_666_666_666).abs() < 1e-12, "{}", found.log);
        assert!(
            (error.standard - 0.006_804_138_174_397_718).abs() < 1e-12,
            "{}",
            error.standard
        );
        assert_eq!(ratio(&pairs[..3]), None);
    }
}
