//! The configs to choose from, the rules of the choice and the results of starts, as plain data.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// A setting in which candidates differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// True if its levels are numbers, so that near ones behave alike.
    pub is_ordered: bool,
}

/// The position of a candidate on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The position on an ordered axis, in any unit. Equal distances should have similar effects, so a size is given as its logarithm.
    Number(f64),
    /// An unordered value or an unset parameter, by a number that identifies it.
    Choice(u32),
}

/// A server config that may be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its level on each axis.
    pub levels: Vec<Level>,
    /// Number of settings that differ from the server's defaults.
    pub changes: u32,
    /// The prediction of the twin, the engine model fitted to measured runs.
    pub predicted: Option<Predicted>,
    /// Change of the prediction for each constant of the twin, if this constant is a standard deviation larger; empty if unknown. With
    /// these, a measured candidate corrects the predictions of all others, as a fit of the constants would.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slopes: Vec<f64>,
    /// Share of the GPU's memory that it is predicted to need; above 1 it does not fit if the prediction holds.
    pub memory: Option<f64>,
    /// Logarithm of the largest value that a measurement can find, because the plan allows no more; `None` without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
    /// Predicted seconds until the server is ready, if nothing is compiled yet.
    pub start_s: f64,
    /// Its start with graphs that are compiled already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<WarmStart>,
    /// Predicted seconds of a full measurement of the candidate.
    pub measure_s: f64,
    /// Number of GPUs that it occupies.
    pub gpus: u32,
    /// Number of starts like its own that the machine can run at the same time; 0 is read as 1.
    #[serde(default)]
    pub at_once: u32,
}

/// A start that finds its graphs compiled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WarmStart {
    /// A number that identifies the graphs, which several candidates may share.
    pub graphs: u32,
    /// Predicted seconds until the server is ready.
    pub start_s: f64,
}

/// A value that a model predicts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Logarithm of the value; higher is better.
    pub ln_value: f64,
    /// Standard deviation of its error.
    pub sd: f64,
}

/// The candidates' levels as indices, with positions between 0 and 1 on ordered axes.
#[derive(Debug, Clone)]
pub(super) struct Space {
    axes: Vec<Positions>,
}

/// The distinct levels of an axis.
#[derive(Debug, Clone)]
struct Positions {
    /// Position of each level on the axis, from 0 to 1; `None` for a level without a number.
    place: Vec<Option<f64>>,
    /// Index of each candidate's level.
    level_of: Vec<usize>,
}

impl Space {
    /// Returns the space of some candidates. Axes on which they do not differ are left out.
    pub(super) fn of(axes: &[Axis], candidates: &[Candidate]) -> Space {
        let all = (0..axes.len())
            .map(|axis| Positions::of(axes[axis], candidates.iter().map(|candidate| candidate.levels[axis])));
        Space {
            axes: all.filter(|axis| axis.place.len() > 1).collect(),
        }
    }

    /// Number of axes.
    pub(super) fn len(&self) -> usize {
        self.axes.len()
    }

    /// Returns true if an axis has at least two levels with a position.
    pub(super) fn is_ordered(&self, axis: usize) -> bool {
        self.axes[axis].place.iter().flatten().count() > 1
    }

    /// Number of an axis's levels.
    pub(super) fn levels(&self, axis: usize) -> usize {
        self.axes[axis].place.len()
    }

    /// Returns the index of a candidate's level on an axis.
    pub(super) fn level(&self, axis: usize, candidate: usize) -> usize {
        self.axes[axis].level_of[candidate]
    }

    /// Returns the correlation of two levels of an axis for a length scale (Matérn 5/2); 0 if they differ and one has no position.
    pub(super) fn correlation(&self, axis: usize, levels: [usize; 2], length: f64) -> f64 {
        match levels.map(|level| self.axes[axis].place[level]) {
            _ if levels[0] == levels[1] => 1.0,
            [Some(a), Some(b)] => {
                let far = 5f64.sqrt() * (a - b).abs() / length;
                (1.0 + far + far * far / 3.0) * (-far).exp()
            }
            _ => 0.0,
        }
    }
}

impl Positions {
    fn of(axis: Axis, levels: impl Iterator<Item = Level>) -> Positions {
        let mut seen: HashMap<(bool, u64), usize> = HashMap::new();
        let mut place = Vec::new();
        let level_of = levels.map(|level| {
            let (key, number) = match level {
                Level::Number(number) => ((true, number.to_bits()), Some(number)),
                Level::Choice(choice) => ((false, u64::from(choice)), None),
            };
            *seen.entry(key).or_insert_with(|| {
                place.push(number.filter(|number| axis.is_ordered && number.is_finite()));
                place.len() - 1
            })
        });
        let level_of = level_of.collect();
        let numbers = || place.iter().flatten().copied();
        let (low, high) = (
            numbers().fold(f64::INFINITY, f64::min),
            numbers().fold(f64::NEG_INFINITY, f64::max),
        );
        let scaled = |number: f64| if high > low { (number - low) / (high - low) } else { 0.5 };
        let place = place.iter().map(|number| number.map(scaled)).collect();
        Positions { place, level_of }
    }
}

/// The rules of an optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Difference of logarithms that does not matter in practice.
    pub margin: f64,
    /// Required probability that the best known candidate lies within the margin of the best of all.
    pub certainty: f64,
    /// Limit of the starts or their time; `None` without a limit.
    pub budget: Option<Budget>,
    /// The candidate with the server's defaults, which is measured first.
    pub defaults: Option<usize>,
    /// Number of starts on which the best candidate is measured, as far as the budget allows; `None` for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_starts: Option<usize>,
}

/// A limit of the starts or their time. Starts that were asked for before the limit was reached may exceed it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Time of the machine in seconds. The time of a start is divided by the number of starts like it that the machine can run at the same
    /// time. In earlier journals the time of each start counts in full.
    #[serde(alias = "server_seconds")]
    MachineSeconds(f64),
    /// In earlier journals only: the time of each start in seconds, times its GPUs.
    GpuSeconds(f64),
    /// Number of starts, failed ones included.
    Starts(usize),
}

/// The result of one start of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trial {
    /// It was measured.
    Measured {
        /// Logarithm of its value; higher is better.
        ln_value: f64,
        /// Standard error of `ln_value` from the runs of this start, without the difference between starts.
        sd: f64,
    },
    /// Its search ended early, because it cannot be better than the best candidate at that time.
    Beaten {
        /// Upper bound of the logarithm of its value.
        ln_below: f64,
    },
    /// Its search ended before it was decided which load it holds, or whether it holds any. Or a figure of it is unknown.
    Undecided {
        /// Upper bound of the logarithm of its value; `None` if nothing bounds it.
        ln_below: Option<f64>,
    },
    /// It ran out of memory.
    DidNotFit,
    /// It failed for another reason.
    Failed,
    /// It was measured and misses the targets.
    Unmet,
}

impl Trial {
    /// Returns the logarithm of its value, if it was measured.
    pub fn ln_value(&self) -> Option<f64> {
        match self {
            Trial::Measured { ln_value, .. } => Some(*ln_value),
            _ => None,
        }
    }

    /// Returns the logarithm of the largest value that it allows; `None` if nothing bounds the value, or if there is none.
    pub fn upper(&self) -> Option<f64> {
        match self {
            Trial::Measured { ln_value, .. } => Some(*ln_value),
            Trial::Beaten { ln_below } => Some(*ln_below),
            Trial::Undecided { ln_below } => *ln_below,
            Trial::DidNotFit | Trial::Failed | Trial::Unmet => None,
        }
    }
}

/// The compiled graphs that servers left behind.
#[derive(Debug, Clone, Default)]
pub struct CompiledGraphs(BTreeSet<u32>);

impl CompiledGraphs {
    /// Returns the predicted seconds until the server of a candidate is ready.
    pub fn start_s(&self, candidate: &Candidate) -> f64 {
        let warm = candidate.warm.filter(|warm| self.0.contains(&warm.graphs));
        warm.map_or(candidate.start_s, |warm| warm.start_s)
    }

    /// Adds the graphs of a candidate, if its trial shows that the server was ready.
    pub fn note(&mut self, candidate: &Candidate, trial: &Trial) {
        if !matches!(trial, Trial::DidNotFit | Trial::Failed) {
            self.0.extend(candidate.warm.map(|warm| warm.graphs));
        }
    }
}

/// A candidate to start next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Its position in the list of candidates.
    pub candidate: usize,
    /// The reason for it.
    pub reason: Reason,
}

/// The reason for a start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The server's defaults are always measured.
    Defaults,
    /// Its result reveals the most about all other candidates.
    Spread,
    /// It may be better than the best candidate.
    Promising {
        /// Logarithm of the expected value.
        ln_value: f64,
        /// Upper bound of the logarithm of the value.
        ln_upper: f64,
        /// Lower bound of the logarithm of the best candidate's value.
        ln_best: f64,
    },
    /// It is among the best and is measured on a further start.
    Finalist,
}

/// The reason why an optimisation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The best candidate is known with the requested certainty.
    Certain,
    /// The budget is spent.
    Budget,
    /// There were as many starts as an optimisation without a budget makes.
    Starts,
    /// More starts are not expected to bring the requested certainty.
    Undecidable,
    /// No candidate is left that may be started again.
    Exhausted,
}

/// The value that a candidate is expected to have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Logarithm of the value.
    pub ln_value: f64,
    /// Standard deviation of its error.
    pub sd: f64,
    /// The reason why it needs no (further) start, if there is one.
    pub excluded: Option<Exclusion>,
}

/// The reason why a candidate needs no (further) start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// Its upper bound lies below the lower bound of the best candidate.
    CannotWin,
    /// It did not fit into memory, or almost certainly does not, because similar candidates did not.
    Memory,
    /// It failed for another reason.
    Failed,
    /// It was measured and misses the targets.
    Unmet,
}

/// The best of the measured candidates, as judged by the model of the answer, which knows more than their values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Incumbent {
    /// Its position in the list of candidates.
    pub winner: usize,
    /// The probability that it lies within the margin of the best measured candidate.
    pub probability: f64,
    /// False if more starts of the measured candidates are not expected to raise the probability enough.
    pub is_decidable: bool,
}

/// The starts that may still raise the certainty about the best candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlook {
    /// A start of any candidate.
    Open,
    /// Only more starts of the measured candidates: no other is likely to be better.
    Finalists,
    /// No start: more starts of the measured candidates are not expected to suffice.
    Undecidable,
    /// No start: without a budget, no more starts are made.
    Spent,
    /// No start is needed: the best candidate is known well enough.
    Certain,
}
