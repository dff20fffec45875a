//! One target of a search: the evidence of the probes so far, and its answer.
//!
//! Converts readings to margins, pools the runs at each load, and defines the answer. The search decides which load to measure next.

use super::Vary;
use super::boundary::{FAR, Observation, TYPICAL_ERROR, Tail};
use super::criterion::Criterion;
use super::posterior::LimitPosterior;
use super::probe::Probe;
use super::reading::{CLEAR, Reading, is_zero, maybe_infinite};
use super::stalls::STALLED;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A named set of criteria that must all hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Its name in plan, table and report.
    pub name: String,
    /// Its criteria.
    pub criteria: Vec<Criterion>,
}

/// Result of a search for one target on one server config.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The target's name.
    pub target: String,
    /// The verdict with its value.
    pub found: Found,
    /// Lower end of the interval around the limit. For a search on one start, the risk that the limit lies below is `RISK_BELOW`.
    #[serde(with = "maybe_infinite")]
    pub low: f64,
    /// Upper end of the interval around the limit; infinite if nothing bounds the limit. For a search on one start, the risk that the limit
    /// lies above is `RISK_ABOVE`.
    #[serde(with = "maybe_infinite")]
    pub high: f64,
    /// Greatest distance of the limit above the answer, as a ratio to the answer: 0.05 for 5 %. Only for a load that meets the target while
    /// a higher one does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
    /// True if `within` exceeds the requested tolerance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_coarse: bool,
    /// Text of the criterion that limits the load: the one with the largest margin at the answer or, without an answer, near the limit.
    pub binding: Option<String>,
    /// Number of runs that the target asked for, or that show something about it.
    pub probes: usize,
    /// Number of disturbed runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disturbed: usize,
    /// The codes of the disturbances.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub disturbances: BTreeSet<String>,
    /// Notes for the reader, e.g. that the response is not monotone.
    pub notes: Vec<String>,
    /// Reasons why the load found may not last, each a sentence without its full stop. They qualify the answer, as notes do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_not_last: Vec<String>,
    /// The distribution of the limit. `None` for an answer of several starts, and if no limit between two loads was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posterior: Option<LimitPosterior>,
}

impl Answer {
    /// Returns the answer in words: `met`, or `met, within 14 %` if the distance exceeds the tolerance.
    pub fn words(&self) -> String {
        match self.within.filter(|_| self.is_coarse) {
            Some(within) => format!("{}, within {:.0} %", self.found.word(), (within * 100.0).ceil()),
            None => self.found.word().to_owned(),
        }
    }

    /// Returns its notes, and the reasons why its load may not last.
    pub fn remarks(&self) -> impl Iterator<Item = &String> {
        self.notes.iter().chain(&self.may_not_last)
    }

    /// Returns the disturbances: `3 of 12 runs disturbed (generator stalled)`; `None` if there are none. `in_words` gives a code in words.
    pub fn disturbance(&self, in_words: impl Fn(&str) -> String) -> Option<String> {
        let codes: Vec<String> = self.disturbances.iter().map(|code| in_words(code)).collect();
        let Answer { disturbed, probes, .. } = self;
        (*disturbed > 0).then(|| format!("{disturbed} of {probes} runs disturbed ({})", codes.join(", ")))
    }
}

/// The verdict of a search about one target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "value")]
pub enum Found {
    /// This is the highest load that was found to meet the target.
    Met(f64),
    /// Not even the lowest allowed load meets the target.
    None,
    /// Even this load, the highest allowed one, meets the target.
    Beyond(f64),
    /// The probes could not decide, for example because too few were allowed.
    #[default]
    Undecided,
    /// Another server config holds at least as much as this one can, so this one was not searched further.
    Skipped,
}

impl Found {
    /// Returns the load, if one was found.
    pub fn value(self) -> Option<f64> {
        match self {
            Found::Met(value) | Found::Beyond(value) => Some(value),
            Found::None | Found::Undecided | Found::Skipped => None,
        }
    }

    /// Returns its word in `sla.csv`.
    pub fn word(self) -> &'static str {
        match self {
            Found::Met(_) => "met",
            Found::None => "none",
            Found::Beyond(_) => "beyond",
            Found::Undecided => "undecided",
            Found::Skipped => "skipped",
        }
    }
}

/// Largest factor between loads whose runs get a common error.
const ALIKE: f64 = 1.3;
/// Number of standard errors from which on a load clearly passes or fails.
pub(super) const BEYOND_DOUBT: f64 = 2.5;

/// All runs at one load, pooled for one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PooledLevel {
    pub value: f64,
    pub runs: usize,
    /// Number of runs that were measured to their end.
    pub whole: usize,
    /// Weighted mean of the margins, as in [`Observation`].
    pub margin: f64,
    /// Standard error of the margin.
    pub error: f64,
}

impl PooledLevel {
    /// The margin in standard errors.
    pub fn score(&self) -> f64 {
        self.margin / self.error
    }
}

/// Converts a run's reading at `value` to an observation of the boundary.
fn observe(value: f64, criterion: &Criterion, reading: &Reading, is_cut: bool) -> Observation {
    let margin = reading.margin();
    let bound = match margin.abs() {
        size if is_cut => Some(size.min(CLEAR.ln())),
        // The margin of a goodput that is met may be small only because the load is low, so only its side is known.
        _ if margin <= 0.0 && criterion.is_goodput() => Some(0.0),
        // A ratio of zero, or the infinite one of failed requests, has no margin: only the side is known.
        _ if reading.ratio == 0.0 || reading.ratio.is_infinite() => Some(0.0),
        size if size >= FAR => Some(FAR),
        _ => None,
    };
    let share = criterion.per_request().map(|(share, _)| share);
    let share = share.filter(|share| *share > 0.5 && reading.requests > 0);
    Observation {
        value,
        margin: margin.clamp(-FAR, FAR),
        // A run that was cut has a certain side, but its figure has no error of its own, so the typical one counts alone.
        error: match is_cut {
            true => TYPICAL_ERROR,
            false => reading.standard_error().hypot(TYPICAL_ERROR),
        },
        slack: 0.0,
        bound,
        tail: share.map(|share| Tail {
            growth: reading.tail,
            error: reading.tail / (reading.requests as f64 * (1.0 - share)).sqrt(),
        }),
    }
}

/// Returns the runs at a load, in order.
pub(super) fn at(probes: &[Probe], value: f64) -> impl DoubleEndedIterator<Item = &Probe> {
    probes.iter().filter(move |probe| probe.question.value == value)
}

impl Target {
    /// Returns the criterion with the largest margin, of those that bound the load from above, and its observation. `None` if the run does
    /// not show whether the target is met.
    fn worst(&self, probe: &Probe) -> Option<(&Criterion, Observation)> {
        let criteria = self.criteria.iter();
        let known: Vec<_> = criteria
            .filter_map(|criterion| Some((criterion, probe.reading(criterion)?)))
            .collect();
        // Criteria that only a higher load can meet do not bound the load.
        let bounding = known
            .iter()
            .filter(|(criterion, reading)| !criterion.wants_load() && !reading.starved);
        let worst = bounding.max_by(|a, b| a.1.margin().total_cmp(&b.1.margin()));
        let complete = known.len() == self.criteria.len();
        let value = probe.question.value;
        // The observation of a run that shows only the side of the limit.
        let on_side = |margin| Observation {
            value,
            margin,
            error: TYPICAL_ERROR,
            slack: 0.0,
            bound: Some(0.0),
            tail: None,
        };
        let side = |margin| Some((self.criteria.first()?, on_side(margin)));
        match (worst, probe.stopped) {
            (Some((criterion, reading)), stopped) if !reading.met || (complete && !probe.is_outrun) => {
                Some((criterion, observe(value, criterion, reading, stopped.is_some())))
            }
            // The server crashed, or the rate outran it: the load is too high, whatever the criterion. A run that another target stopped did
            // not crash.
            _ if probe.is_overloaded() => side(FAR),
            (None, _) if complete => side(-FAR),
            _ => None,
        }
    }

    /// Reads an observation of the boundary from a probe; `None` if it has none. A disturbed run that met the target shows that an
    /// undisturbed one meets it too. A disturbed run that missed the target gives no observation, because the disturbance may be the
    /// reason. It gives one if the part of the margin that the disturbance explains is known. A burst can only miss the target.
    fn observe(&self, probe: &Probe, vary: Vary) -> Option<Observation> {
        let (_, observation) = self.worst(probe)?;
        if observation.margin <= 0.0 && probe.is_burst(vary) {
            return None;
        }
        if !probe.is_disturbed() {
            return Some(observation);
        }
        let margin = observation.margin;
        if let Some(least) = self.least_margin(probe).filter(|_| margin > -FAR) {
            let slack = (margin - least.clamp(-FAR, FAR)).max(0.0);
            return Some(Observation {
                slack,
                bound: observation.bound.filter(|_| slack == 0.0),
                ..observation
            });
        }
        (margin <= 0.0).then_some(Observation {
            bound: Some(observation.bound.unwrap_or(-margin)),
            ..observation
        })
    }

    /// Returns the least margin that a run may have had without the stalls of its generator. `None` if something else disturbed it, or the
    /// stalls are not known for each request.
    fn least_margin(&self, probe: &Probe) -> Option<f64> {
        let is_known =
            !probe.is_outrun && probe.stopped.is_none() && probe.disturbances.iter().all(|code| code == STALLED);
        let bounding = self.criteria.iter().filter(|criterion| !criterion.wants_load());
        let readings = bounding.filter_map(|criterion| probe.reading(criterion));
        let least = readings.filter_map(|reading| Some(reading.margin() - reading.slack?));
        least.reduce(f64::max).filter(|_| is_known)
    }

    /// Returns true if the target asked for a probe, or the probe shows something about it.
    pub(super) fn concerns(&self, probe: &Probe) -> bool {
        probe.question.target == self.name || self.worst(probe).is_some()
    }

    /// Returns true if a probe was disturbed or a burst, and gives no observation, so its load is measured again.
    pub(super) fn is_spoilt(&self, probe: &Probe, vary: Vary) -> bool {
        (probe.is_disturbed() || probe.is_burst(vary)) && self.observe(probe, vary).is_none()
    }

    /// Returns true if the runs at one load, taken together, met the target. `None` if no run shows this.
    pub fn is_met_by(&self, probes: &[&Probe]) -> Option<bool> {
        let margin = |probe: &&Probe| {
            let readings = self.criteria.iter().filter_map(|criterion| probe.reading(criterion));
            let known: Vec<f64> = readings.map(|reading| reading.margin().clamp(-FAR, FAR)).collect();
            let worst = match probe.is_overloaded() {
                true => FAR,
                false => known.iter().copied().reduce(f64::max)?,
            };
            let is_conclusive = worst > 0.0 || known.len() == self.criteria.len();
            (is_conclusive && !(worst > 0.0 && probe.is_disturbed())).then_some(worst)
        };
        let margins: Vec<f64> = probes.iter().filter_map(margin).collect();
        (!margins.is_empty()).then(|| margins.iter().sum::<f64>() <= 0.0)
    }

    /// Returns true if the pooled requests of all undisturbed runs at `value` miss a criterion about single requests.
    fn is_missed(&self, probes: &[Probe], value: f64) -> bool {
        self.criteria.iter().any(|criterion| {
            let undisturbed = at(probes, value).filter(|probe| !probe.is_disturbed());
            let readings = undisturbed.filter_map(|probe| probe.reading(criterion));
            let (missed, requests) = readings.fold((0, 0), |(missed, requests), reading| {
                (missed + reading.missed, requests + reading.requests)
            });
            let needed = criterion.needed(requests).filter(|_| requests > 0);
            needed.is_some_and(|(least, _)| requests - missed < least)
        })
    }

    /// Returns the number of runs at `value` that give an observation, and how many of them missed the target.
    pub(super) fn runs_missing(&self, probes: &[Probe], value: f64, vary: Vary) -> (usize, usize) {
        let margins: Vec<f64> = at(probes, value)
            .filter_map(|probe| Some(self.observe(probe, vary)?.margin))
            .collect();
        (margins.len(), margins.iter().filter(|margin| **margin > 0.0).count())
    }

    /// Returns the criterion for which the load `value` was too low in its runs, and the factor that is lacking.
    pub(super) fn starving(&self, probes: &[Probe], value: f64) -> Option<(&Criterion, f64)> {
        self.criteria.iter().find_map(|criterion| {
            let counts = |reading: &&Reading, probe: &Probe| reading.met || !probe.is_disturbed();
            let readings = at(probes, value).filter_map(|probe| {
                let reading = probe.reading(criterion);
                reading.filter(|reading| counts(reading, probe))
            });
            let readings: Vec<&Reading> = readings.collect();
            let margin = readings.iter().map(|reading| reading.margin()).sum::<f64>() / readings.len() as f64;
            let is_starving = margin > 0.0 && readings.iter().any(|reading| reading.starved);
            is_starving.then(|| (criterion, margin.exp()))
        })
    }

    /// Returns the text of the criterion with the largest margin in the last run at `value`.
    pub(super) fn binding(&self, probes: &[Probe], value: f64) -> Option<String> {
        let (criterion, _) = at(probes, value).rev().find_map(|probe| self.worst(probe))?;
        Some(criterion.to_string())
    }

    /// Returns the observation of every probe that has one for this target.
    pub(super) fn observations(&self, probes: &[Probe], vary: Vary) -> Vec<Observation> {
        let probes = probes.iter();
        with_common_errors(probes.filter_map(|probe| self.observe(probe, vary)).collect())
    }
}

/// Gives runs at similar loads a common error. Slow requests raise both a run's margin and its estimated error; with separate errors, low
/// margins would weigh more than high ones.
fn with_common_errors(observations: Vec<Observation>) -> Vec<Observation> {
    let common = |at: &Observation, of: &dyn Fn(&Observation) -> Option<f64>| {
        let near = |run: &&Observation| run.bound.is_none() && (run.value / at.value).ln().abs() <= ALIKE.ln();
        let values: Vec<f64> = observations.iter().filter(near).filter_map(of).collect();
        (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt()
    };
    let pooled = |run: &Observation| Observation {
        error: common(run, &|run| Some(run.error)),
        tail: run.tail.map(|_| Tail {
            growth: common(run, &|run| Some(run.tail?.growth)),
            error: common(run, &|run| Some(run.tail?.error)),
        }),
        ..*run
    };
    let runs = observations.iter();
    runs.map(|run| if run.bound.is_none() { pooled(run) } else { *run })
        .collect()
}

/// Pools the runs at each load, in ascending order of loads. `noise` is the ratio of the scatter of runs to their stated errors.
pub(super) fn levels(
    target: &Target,
    (probes, vary): (&[Probe], Vary),
    observations: &[Observation],
    noise: f64,
) -> Vec<PooledLevel> {
    let mut sorted: Vec<&Observation> = observations.iter().collect();
    sorted.sort_by(|a, b| a.value.total_cmp(&b.value));
    sorted
        .chunk_by(|a, b| a.value == b.value)
        .map(|runs| {
            let weight = |run: &&Observation| run.error.hypot(run.slack).powi(-2);
            let precision: f64 = runs.iter().map(weight).sum();
            let margin = runs.iter().map(|run| run.margin * weight(run)).sum::<f64>() / precision;
            let value = runs[0].value;
            // If the pooled requests of the runs miss the target, the load misses it, whatever the weights of the runs.
            let is_missed = margin <= 0.0 && target.is_missed(probes, value);
            PooledLevel {
                value,
                runs: runs.len(),
                whole: at(probes, value)
                    .filter(|probe| probe.stopped.is_none() && target.observe(probe, vary).is_some())
                    .count(),
                margin: if is_missed { f64::EPSILON } else { margin },
                error: noise * precision.powf(-0.5),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: f64, margin: f64, error: f64) -> Observation {
        Observation {
            value,
            margin,
            error,
            slack: 0.0,
            bound: None,
            tail: None,
        }
    }

    #[test]
    fn runs_at_like_loads_count_alike() {
        let cut = Observation {
            bound: Some(0.2),
            ..run(50.0, 0.2, 0.006)
        };
        let runs = with_common_errors(vec![
            run(50.0, -0.02, 0.01),
            run(52.0, 0.03, 0.03),
            run(90.0, 0.8, 0.1),
            cut,
        ]);
        let errors: Vec<f64> = runs.iter().map(|run| run.error).collect();
        let pooled = 0.0005f64.sqrt();
        assert!(
            (errors[0] - pooled).abs() < 1e-12 && (errors[1] - pooled).abs() < 1e-12,
            "{errors:?}"
        );
        assert_eq!(errors[2..], [0.1, 0.006]);
    }
}
