//! The twin: the engine model with constants fitted to measured runs of one kind of GPU and one model. It predicts runs of servers that
//! were not started, with intervals, and shows which constants the runs identify.
//!
//! [`Twin::predict`] is for tests and benchmarks of the twin: a server config and a load give duration, latencies and throughput as
//! log-normal estimates. The deviations of these estimates include the uncertainty of the constants, the error of the model for a server,
//! and that for a single figure. [`Twin::prior`] is the twin if nothing was measured: all constants are nominal.

mod belief;
mod constants;
mod fit;
mod known;
mod record;
mod starts;

use self::belief::{Belief, FIGURES, Row};
use self::constants::{CONSTANTS, EAGER, LINK, QUANTISED, scaled};
use self::fit::{ModelFigures, fit};
use self::starts::Starts;
use super::spread::{ServerConstants, Special, Z};
use super::{Budget, TimeFactor, Unknown};
use crate::sim::engine::cost::{Constants, CostModel};
use crate::sim::engine::model::Model;
use crate::stats::dot;
use crate::units::show_many;
pub use constants::{COUNT, applies};
pub use fit::{Case, Load, NAMES};
pub use known::TwinSource;
use serde::Serialize;

/// A constant is identified if its deviation is below this share of its prior's.
const IDENTIFIED_BELOW: f64 = 0.8;

/// The engine model with fitted constants.
#[derive(Debug, Clone, PartialEq)]
pub struct Twin {
    gpu: &'static str,
    model: Model,
    belief: Belief,
    starts: Starts,
    kv_blocks: TimeFactor,
    /// Names of the experiments to which it was fitted, with the numbers of their runs.
    sources: Vec<(String, usize)>,
    /// Variance of the logarithm of a fitted run's duration that is due to the uncertainty of the constants: the mean over all runs.
    constants_variance: f64,
    /// Median error of the logarithms of durations, each predicted from other servers.
    score: Option<f64>,
}

/// A figure whose logarithm is normally distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median.
    pub likely: f64,
    /// Standard deviation of the logarithm.
    pub deviation: f64,
}

impl Estimate {
    /// Returns the ends of the 80 % interval.
    pub fn interval(&self) -> (f64, f64) {
        let factor = (Z * self.deviation).exp();
        (self.likely / factor, self.likely * factor)
    }
}

/// Prediction for one run. A figure that the run does not have is absent, such as the TPOT of answers of one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Duration of the load in seconds.
    pub duration: Option<Estimate>,
    /// Mean time per output token in milliseconds.
    pub mean_tpot_ms: Option<Estimate>,
    /// Mean time to first token in milliseconds.
    pub mean_ttft_ms: Option<Estimate>,
    /// Output tokens per second.
    pub output_throughput: Option<Estimate>,
}

/// A fitted constant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FittedConstant {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its likely value.
    pub value: f64,
    /// Lower end of its 80 % interval.
    pub low: f64,
    /// Upper end of its 80 % interval.
    pub high: f64,
    /// False if the runs hardly narrow what was assumed about it.
    pub identified: bool,
}

/// Measurements to which a twin is fitted.
#[derive(Debug, Clone, Default)]
pub struct Measurements {
    /// The runs.
    pub cases: Vec<Case>,
    /// Ratios of measured to modelled KV blocks.
    pub kv_blocks: Vec<f64>,
    starts: Vec<starts::StartTimes>,
    /// Names of the experiments, with the numbers of their runs.
    pub sources: Vec<(String, usize)>,
    /// Size of the runs, in tokens.
    tokens: f64,
}

impl Twin {
    /// Returns the twin of servers like this one without any measurement.
    pub fn prior(cost: &CostModel) -> Twin {
        Twin {
            gpu: cost.gpu.name,
            model: cost.model.clone(),
            belief: Belief::prior(),
            starts: Starts::prior(),
            kv_blocks: KV_PRIOR,
            sources: Vec::new(),
            constants_variance: 0.0,
            score: None,
        }
    }

    /// Fits the twin of servers like this one to measurements.
    ///
    /// # Errors
    ///
    /// [`Unknown::TooMuch`] if that takes more computing than the budget allows, [`Unknown::Because`] if a run cannot be played.
    pub fn fitted(cost: &CostModel, measured: &Measurements, budget: &Budget) -> Result<Twin, Unknown> {
        let (belief, rows) = fit(&measured.cases, budget)?;
        let check = CrossValidation::of(&rows);
        let belief = Belief {
            excess: std::array::from_fn(|figure| check.excess(figure)),
            ..belief
        };
        let durations: Vec<&Row> = rows.iter().filter(|row| row.figure == 0).collect();
        let variances = durations.iter().map(|row| belief.variance(&row.slopes));
        Ok(Twin {
            constants_variance: variances.sum::<f64>() / durations.len().max(1) as f64,
            score: check.median_error(),
            belief,
            starts: Starts::after(&measured.starts),
            kv_blocks: KV_PRIOR.after(&measured.kv_blocks),
            sources: measured.sources.clone(),
            ..Twin::prior(cost)
        })
    }

    /// Returns a twin with one constant, given by its index, a standard deviation larger.
    pub(super) fn moved(&self, constant: usize) -> Twin {
        let mut moved = self.clone();
        moved.belief.mean[constant] += moved.belief.deviation(constant);
        moved
    }

    /// Returns the constants.
    pub fn constants(&self) -> Constants {
        Constants {
            kv_blocks: self.kv_blocks.factor,
            start: self.starts.factors(),
            ..scaled(&self.belief.mean)
        }
    }

    /// Returns the constants and uncertainties for modelled servers.
    pub fn calibrated(&self) -> ServerConstants {
        ServerConstants {
            gpu: self.gpu,
            model: self.model.clone(),
            constants: self.constants(),
            run: TimeFactor {
                factor: 1.0,
                common: (self.constants_variance + self.belief.excess[0] * self.belief.shared).sqrt(),
                own: (self.belief.excess[0] * self.belief.own).sqrt(),
            },
            start: self.starts.total(),
            special: Special {
                quantised: self.belief.deviation(QUANTISED),
                eager: self.belief.deviation(EAGER),
                link: self.belief.deviation(LINK),
            },
        }
    }

    /// Predicts one run on a server of this GPU and model. The constants of the load's server are replaced.
    ///
    /// # Errors
    ///
    /// [`Unknown::TooMuch`] if the budget does not suffice, [`Unknown::Because`] if the load cannot be played.
    pub fn predict(&self, load: &Load, budget: &Budget) -> Result<Prediction, Unknown> {
        let mut load = load.clone();
        if let Some(settings) = load.server.settings.as_mut() {
            settings.cost.constants = self.constants();
        }
        let ModelFigures {
            logs,
            slopes,
            throughput,
        } = load.modelled(&self.belief.mean, budget)?;
        let estimate = |figure: usize, log: Option<f64>| {
            let variance = self.belief.variance(&slopes[figure]) + self.belief.model_variance(figure);
            let estimate = |log: f64| Estimate {
                likely: log.exp(),
                deviation: variance.sqrt(),
            };
            log.map(estimate)
        };
        Ok(Prediction {
            duration: estimate(0, logs[0]),
            mean_tpot_ms: estimate(1, logs[1]),
            mean_ttft_ms: estimate(2, logs[2]),
            output_throughput: estimate(0, throughput),
        })
    }

    /// Number of runs to which it was fitted.
    pub fn runs(&self) -> usize {
        self.sources.iter().map(|(_, runs)| runs).sum()
    }

    /// Median error of the logarithms of durations, each predicted from the runs of other servers; `None` if fewer than two servers were
    /// measured.
    pub fn score(&self) -> Option<f64> {
        self.score
    }

    /// Returns every constant with its interval.
    pub fn fitted_constants(&self) -> Vec<FittedConstant> {
        let layers = self.model.layers as f64;
        let constants = self.constants();
        let of_steps = CONSTANTS.iter().enumerate().map(|(at, constant)| FittedConstant {
            name: constant.name,
            unit: constant.unit,
            ..with_interval(
                (constant.value)(&constants, layers),
                self.belief.deviation(at),
                constant.prior,
            )
        });
        let kv_blocks = FittedConstant {
            name: "KV blocks",
            unit: " times as many as modelled",
            ..with_interval(self.kv_blocks.factor, self.kv_blocks.common, KV_PRIOR.common)
        };
        let of_starts = self.starts.phases().map(|(name, phase)| FittedConstant {
            name,
            unit: " times as long as modelled",
            ..with_interval(phase.factor, phase.common, starts::PRIOR.common)
        });
        of_steps.chain([kv_blocks]).chain(of_starts).collect()
    }

    /// Returns its constants and their sources as a sentence.
    pub fn in_words(&self) -> String {
        let sources = self.sources.iter();
        let sources = sources.map(|(name, runs)| format!("{} of {name}", show_many(*runs as u64, "run")));
        let (known, unknown): (Vec<_>, Vec<_>) = self
            .fitted_constants()
            .into_iter()
            .partition(|fitted| fitted.identified);
        let known = known.iter().map(|fitted| {
            let FittedConstant {
                name,
                value,
                unit,
                low,
                high,
                ..
            } = fitted;
            format!(
                "{name} {}{unit} ({} to {})",
                rounded(*value),
                rounded(*low),
                rounded(*high)
            )
        });
        let mut parts: Vec<String> = known.collect();
        if !unknown.is_empty() {
            let mut names: Vec<&str> = unknown.iter().map(|fitted| fitted.name).collect();
            names.dedup();
            parts.push(format!("not identified: {}", names.join(", ")));
        }
        if let Some(score) = self.score {
            parts.push(format!(
                "durations predicted within {:.0} % in median, each server by the others",
                100.0 * score.exp_m1()
            ));
        }
        format!("by {}: {}", sources.collect::<Vec<_>>().join(" and "), parts.join("; "))
    }
}

/// Factor of the number of KV blocks before any was measured. An H100 had 1.5 % more than modelled.
const KV_PRIOR: TimeFactor = TimeFactor::of(0.03, 0.05);

fn with_interval(value: f64, deviation: f64, prior: f64) -> FittedConstant {
    let factor = (Z * deviation).exp();
    FittedConstant {
        name: "",
        unit: "",
        value,
        low: value / factor,
        high: value * factor,
        identified: deviation < IDENTIFIED_BELOW * prior,
    }
}

/// Formats a value with two significant digits, or all digits of its whole part.
fn rounded(value: f64) -> String {
    let digits = (1.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.digits$}")
}

/// Weight, in servers, of the assumption that the deviations of predictions are right.
const TRUSTED_SERVERS: f64 = 6.0;

/// The errors of predictions of each server by the figures of the others, for each kind of figure.
#[derive(Debug, Default)]
struct CrossValidation {
    /// Errors of logarithms.
    errors: [Vec<f64>; FIGURES],
    /// For each server, the mean square of its errors, each divided by the deviation that was predicted for it.
    squares: [Vec<f64>; FIGURES],
}

impl CrossValidation {
    fn of(rows: &[Row]) -> CrossValidation {
        let servers = rows.iter().map(|row| row.server + 1).max().unwrap_or(0);
        let mut check = CrossValidation::default();
        for server in 0..servers {
            let (own, others): (Vec<Row>, Vec<Row>) = rows.iter().cloned().partition(|row| row.server == server);
            if own.is_empty() || others.is_empty() {
                continue;
            }
            let belief = Belief::after(&others);
            for figure in 0..FIGURES {
                let own: Vec<&Row> = own.iter().filter(|row| row.figure == figure).collect();
                let miss = |row: &Row| row.value - dot(&row.slopes, &belief.mean);
                let square = |row: &Row| {
                    let variance = belief.variance(&row.slopes) + belief.model_variance(figure) + row.sampling;
                    miss(row).powi(2) / variance
                };
                check.errors[figure].extend(own.iter().map(|row| miss(row).abs()));
                if !own.is_empty() {
                    let squares = own.iter().map(|row| square(row)).sum::<f64>();
                    check.squares[figure].push(squares / own.len() as f64);
                }
            }
        }
        check
            .errors
            .iter_mut()
            .for_each(|errors| errors.sort_by(f64::total_cmp));
        check
    }

    /// Median error of the logarithms of durations.
    fn median_error(&self) -> Option<f64> {
        let durations = &self.errors[0];
        durations.get(durations.len() / 2).copied()
    }

    /// Factor, at least 1, by which the predicted variances of a kind of figure were too small.
    fn excess(&self, figure: usize) -> f64 {
        let squares = &self.squares[figure];
        let seen: f64 = squares.iter().sum();
        ((TRUSTED_SERVERS + seen) / (TRUSTED_SERVERS + squares.len() as f64)).max(1.0)
    }
}

const _: () = assert!(FIGURES == NAMES.len() && COUNT == CONSTANTS.len());
