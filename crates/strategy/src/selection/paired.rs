//! Compares two arms by pairs of server starts until every question is answered or the starts are spent.
//!
//! The order is ABBA, so that a drift of the node favours neither arm. On disjoint GPUs both arms of a pair run at once, and the arms swap
//! their sets of GPUs from pair to pair. A comparison has a family of members, each a metric at a point. Each pair gives one ratio for each
//! member. [`PairedComparison`] chooses the next start and looks at the ratios after each complete pair. At each look it decides the
//! members that it can, with Holm's correction for the size of the family. [`Member`] judges the ratios of one member.

mod member;

pub use member::Member;

use super::Arm;
use crate::stats::{Estimate, Interval, IntervalRule, RequirementVerdict, Verdict, more_units};
use member::{FIRST_LOOK, Levels, Pair, ratio};
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

/// The results of a start, one for each member: the mean logarithm of the start's runs ([`crate::stats::Start::mean`]), negative infinity
/// if all of them are 0, or `None` if the member was not measured.
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
    /// The new arm's figure divided by the base's; `None` with fewer than four pairs in which both are above 0.
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
    /// Number of members that share the probability of a false alarm: all but those whose ratio was called changed or broken.
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

    /// Returns the measured ratios of each member among the first `count` pairs. A figure of 0 makes one infinite, or no number.
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
        let all = self.pairs(self.looked);
        let series: Vec<Vec<Pair>> = all.iter().map(|pairs| finite(pairs)).collect();
        let members = 0..series.len();
        let asked = |member: usize| Some((self.family[member], ratio(&series[member])?));
        let asked: Vec<Option<(Member, Estimate)>> = members.clone().map(asked).collect();
        let levels = |this: &PairedComparison, member: usize| this.levels(series[member].len());
        for member in members.clone() {
            let is_lost = self.family[member].lost(&all[member]).is_some();
            let is_fine = asked[member].is_some_and(|(asked, ratio)| {
                asked.is_fine(ratio, levels(self, member)) && !asked.loses_figures(&all[member])
            });
            if (is_lost || is_fine) && self.settled[member].is_none() {
                self.settled[member] = Some(self.finding(member, &all[member]));
            }
        }
        // The most significant member first, because each member that is called leaves a larger share for the next.
        loop {
            let is_open = |member: &usize| {
                let loses = self.family[*member].loses_figures(&all[*member]);
                self.settled[*member].is_none() && (!loses || self.finding(*member, &all[*member]).is_final())
            };
            let open = members.clone().filter(is_open);
            let p_values = open.filter_map(|member| {
                let (asked, ratio) = asked[member]?;
                Some((member, asked.p_value(ratio)))
            });
            match p_values.min_by(|a, b| a.1.total_cmp(&b.1)) {
                Some((member, p_value)) if p_value <= levels(self, member).change => {
                    self.settled[member] = Some(self.finding(member, &all[member]));
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

    fn finding(&self, member: usize, all: &[Pair]) -> Finding {
        let asked = self.family[member];
        if let Some(pairs) = asked.lost(all) {
            return Finding {
                pairs,
                ratio: None,
                interval: None,
                verdict: Verdict::Regressed,
                requirement: asked.bound.map(|_| RequirementVerdict::Broken),
                more_starts: None,
            };
        }
        let pairs = finite(all);
        let levels = self.levels(pairs.len());
        let found = ratio(&pairs);
        let (interval, verdict) = found.map_or((None, Verdict::Undecided), |ratio| asked.verdict(ratio, levels));
        let mut finding = Finding {
            pairs: pairs.len(),
            ratio: found,
            interval,
            verdict,
            requirement: asked.requirement(interval),
            more_starts: None,
        };
        if asked.loses_figures(all) {
            finding.requirement = finding
                .requirement
                .map(|found| found.max(RequirementVerdict::Undecided));
            if verdict != Verdict::Regressed {
                finding.verdict = Verdict::Undecided;
            }
        } else if !finding.is_final() {
            finding.more_starts = found.and_then(|ratio| more_starts(&asked, ratio, pairs.len(), levels));
        }
        finding
    }
}

/// The pairs with a ratio.
fn finite(pairs: &[Pair]) -> Vec<Pair> {
    pairs.iter().copied().filter(|pair| pair.log.is_finite()).collect()
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

#[cfg(test)]
mod tests;
