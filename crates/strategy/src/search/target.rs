//! One target of a search: what the probes so far say about it, and its answer.
//!
//! Owns the step from readings to margins, the spread from run to run and the rules an answer obeys. Which load to
//! measure next is the search's decision.

use super::boundary::Observation;
use super::criterion::Criterion;
use super::probe::Probe;
use super::reading::maybe_infinite;
use super::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// A named set of criteria that must all hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Its name in plan, table and report.
    pub name: String,
    /// Its criteria.
    pub criteria: Vec<Criterion>,
}

/// What a search found for one target on one server config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The target's name.
    pub target: String,
    /// The verdict with its value.
    pub found: Found,
    /// The boundary lies above this load, with the confidence of the search.
    #[serde(with = "maybe_infinite")]
    pub low: f64,
    /// The boundary lies below this load, with the same confidence; infinite beyond the highest load tried.
    #[serde(with = "maybe_infinite")]
    pub high: f64,
    /// Text of the criterion nearest to its limit at the answer, or that fails where none is found.
    pub binding: Option<String>,
    /// Runs that said something about the target.
    pub probes: usize,
    /// What a reader should know, e.g. that the response is not monotone.
    pub notes: Vec<String>,
}

/// The verdict of a search about one target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "value")]
pub enum Found {
    /// The highest load found to meet the target, measured as such.
    Met(f64),
    /// Not even the lowest allowed load meets it.
    None,
    /// The highest allowed load, this one, still meets it.
    Beyond(f64),
    /// The probes allowed were too few to tell.
    Undecided,
    /// Another server config holds more than this one can, so it was not searched further.
    Skipped,
}

impl Found {
    /// The load, if one was found.
    pub fn value(self) -> Option<f64> {
        match self {
            Found::Met(value) | Found::Beyond(value) => Some(value),
            Found::None | Found::Undecided | Found::Skipped => None,
        }
    }

    /// The verdict's word in `sla.csv`.
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

/// Spread of a margin from run to run before anything was repeated, and how many repeats that belief is worth.
const TYPICAL_SPREAD: f64 = 0.025;
const BELIEF: f64 = 6.0;

/// The margin, on either side, of a load whose own margin cannot be measured.
const FAR: f64 = 1.0;

/// Standard errors beyond which a load is taken to pass or fail.
const CLEAR: f64 = 2.5;

/// All runs at one load, pooled for one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level {
    pub value: f64,
    pub runs: usize,
    /// How many of the runs were asked for as confirmations.
    pub confirmations: usize,
    pub margin: f64,
    pub error: f64,
}

impl Level {
    pub fn verdict(&self) -> Verdict {
        match self.margin / self.error {
            z if z <= -CLEAR => Verdict::Pass,
            z if z >= CLEAR => Verdict::Fail,
            _ => Verdict::Undecided,
        }
    }
}

impl Target {
    /// The largest margin over the criteria that bound the load from above, its own standard error and its criterion; None
    /// if a criterion was not measured and the server did not fall either.
    fn worst<'a>(&'a self, probe: &Probe) -> Option<(f64, f64, &'a Criterion)> {
        let readings = self
            .criteria
            .iter()
            .map(|criterion| (criterion, probe.readings.get(&criterion.to_string())));
        let known: Vec<_> = readings
            .filter_map(|(criterion, reading)| Some((criterion, reading?)))
            .collect();
        // What only a higher load can bring says nothing about how high is too high.
        let bounding = known
            .iter()
            .filter(|(criterion, reading)| !criterion.wants_load() && !reading.starved);
        let worst = bounding.max_by(|a, b| a.1.margin().total_cmp(&b.1.margin()));
        let complete = known.len() == self.criteria.len();
        match (worst, probe.stopped) {
            (Some((criterion, reading)), _) if complete || !reading.met => {
                Some((reading.margin(), reading.standard_error(), *criterion))
            }
            // The server fell: the load is far too high, whatever the criterion. A run that another target stopped did not.
            (None, Some(Verdict::Fail)) if probe.readings.is_empty() => Some((FAR, 0.0, self.criteria.first()?)),
            (None, _) if complete => Some((-FAR, 0.0, self.criteria.first()?)),
            _ => None,
        }
    }

    /// Whether the requests of all runs at `value` together miss a criterion about single requests.
    fn is_missed(&self, probes: &[Probe], value: f64) -> bool {
        let at_it = || probes.iter().filter(|probe| probe.question.value == value);
        self.criteria.iter().any(|criterion| {
            let text = criterion.to_string();
            let readings = at_it().filter_map(|probe| probe.readings.get(&text));
            let (missed, requests) = readings.fold((0, 0), |(missed, requests), reading| {
                (missed + reading.missed, requests + reading.requests)
            });
            let needed = criterion.needed(requests).filter(|_| requests > 0);
            needed.is_some_and(|(least, _)| requests - missed < least)
        })
    }

    /// How many runs at `value` say something about the target, and how many of them were measured as missing it.
    pub(super) fn runs_missing(&self, probes: &[Probe], value: f64) -> (usize, usize) {
        let at_it = probes.iter().filter(|probe| probe.question.value == value);
        let margins: Vec<f64> = at_it.filter_map(|probe| Some(self.worst(probe)?.0)).collect();
        (margins.len(), margins.iter().filter(|margin| **margin > 0.0).count())
    }

    /// The criterion for which the load `value` brings too little by its runs, and the factor by which it does.
    pub(super) fn starving(&self, probes: &[Probe], value: f64) -> Option<(&Criterion, f64)> {
        let at_it = || probes.iter().filter(|probe| probe.question.value == value);
        self.criteria.iter().find_map(|criterion| {
            let text = criterion.to_string();
            let readings: Vec<_> = at_it().filter_map(|probe| probe.readings.get(&text)).collect();
            let margin = readings.iter().map(|reading| reading.margin()).sum::<f64>() / readings.len() as f64;
            let is_starving = margin > 0.0 && readings.iter().any(|reading| reading.starved);
            is_starving.then(|| (criterion, margin.exp()))
        })
    }

    /// The text of the criterion nearest to its limit in the last run at `value`.
    pub(super) fn binding(&self, probes: &[Probe], value: f64) -> Option<String> {
        let last = probes.iter().rev().filter(|probe| probe.question.value == value);
        last.filter_map(|probe| self.worst(probe))
            .map(|(_, _, criterion)| criterion.to_string())
            .next()
    }

    /// The margin of every probe that says something about the target, with the spread that its repeats have shown.
    pub(super) fn observations(&self, probes: &[Probe]) -> Vec<Observation> {
        let mut observations: Vec<Observation> = probes
            .iter()
            .filter_map(|probe| {
                let (margin, error, _) = self.worst(probe)?;
                // A run stopped as a pass is an unbiased short one; one stopped by its failures ends at their worst.
                let stopped = probe.stopped == Some(Verdict::Fail);
                Some(Observation {
                    value: probe.question.value,
                    margin,
                    error,
                    stopped,
                })
            })
            .collect();
        let spread = spread(&observations);
        for observation in &mut observations {
            observation.error = observation.error.hypot(spread);
        }
        observations
    }
}

/// Standard deviation of a margin from run to run: the typical one, corrected by what repeats at one load have shown
/// beyond their own sampling error.
fn spread(observations: &[Observation]) -> f64 {
    let (mut squares, mut freedom) = (BELIEF * TYPICAL_SPREAD * TYPICAL_SPREAD, BELIEF);
    for (i, observation) in observations.iter().enumerate() {
        let earlier = |other: &&Observation| other.value == observation.value && !other.stopped;
        let before: Vec<_> = observations[..i].iter().filter(earlier).collect();
        if before.is_empty() || observation.stopped {
            continue;
        }
        // Helmert's contrasts: each run against the mean of those before it, independent of one another.
        let n = before.len() as f64;
        let mean = before.iter().map(|other| other.margin).sum::<f64>() / n;
        let sampling =
            observation.error.powi(2) + before.iter().map(|other| other.error.powi(2)).sum::<f64>() / (n * n);
        squares += (((observation.margin - mean).powi(2) - sampling) * n / (n + 1.0)).max(0.0);
        freedom += 1.0;
    }
    (squares / freedom).sqrt()
}

/// Pools the runs at each load, in ascending order of loads.
pub(super) fn levels(target: &Target, probes: &[Probe], observations: &[Observation]) -> Vec<Level> {
    let mut sorted: Vec<&Observation> = observations.iter().collect();
    sorted.sort_by(|a, b| a.value.total_cmp(&b.value));
    sorted
        .chunk_by(|a, b| a.value == b.value)
        .map(|runs| {
            let precision: f64 = runs.iter().map(|run| run.error.powi(-2)).sum();
            let margin = runs.iter().map(|run| run.margin * run.error.powi(-2)).sum::<f64>() / precision;
            let value = runs[0].value;
            // Whatever the weights of the runs, what all their requests miss is measured as missed.
            let is_missed = margin <= 0.0 && target.is_missed(probes, value);
            let margin = if is_missed { f64::EPSILON } else { margin };
            let confirmations = probes
                .iter()
                .filter(|p| p.question.confirm && p.question.value == value)
                .count();
            Level {
                value,
                runs: runs.len(),
                confirmations,
                margin,
                error: precision.powf(-0.5),
            }
        })
        .collect()
}
