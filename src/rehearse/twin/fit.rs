//! Fits the constants to measured runs. The model plays each run again, and its figures are compared with the measured ones on a
//! logarithmic scale. Then the constants are corrected, by the Gauss-Newton method with a penalty for leaving their priors. Derivatives are
//! secants over half a prior's deviation, because figures jump a little when other prompts share a step.

use super::belief::{Belief, FIGURES, Row};
use super::constants::{CONSTANTS, COUNT, Vector, scaled};
use crate::plan::{Params, Warmup};
use crate::rehearse::{Budget, ModelledServer, Play, Player, Unknown};
use crate::sim::engine::cost::Constants;
use crate::sim::engine::noise::Spread;
use crate::threads;
use std::time::Duration;

/// Number of times that derivatives are computed.
const ROUNDS: usize = 2;

/// A load on a modelled server.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server. Of its constants, only those of KV blocks and starts matter; the others are replaced.
    pub server: ModelledServer,
    /// The parameters of the benchmark, with its seed.
    pub params: Params,
    /// True if caches keep the content of earlier runs.
    pub keeps_caches: bool,
}

/// A measured run.
#[derive(Debug, Clone)]
pub struct Case {
    /// Index of the server config.
    pub server: usize,
    /// The load, with its server.
    pub load: Load,
    /// Logarithm of each figure, and its variance due to sampling.
    pub measured: [Option<(f64, f64)>; FIGURES],
}

/// Logarithms of the duration in seconds, and of mean TPOT and TTFT in milliseconds.
pub type Logs = [Option<f64>; FIGURES];

/// Names of the figures in a result.
pub const NAMES: [&str; FIGURES] = ["duration", "mean_tpot_ms", "mean_ttft_ms"];

/// Figures of a load by the model, and their derivatives by the logarithms of the constants.
#[derive(Debug, Clone)]
pub struct ModelFigures {
    pub logs: Logs,
    pub slopes: [Vector; FIGURES],
    /// Logarithm of output tokens per second.
    pub throughput: Option<f64>,
}

impl Load {
    /// Returns the figures and the logarithm of the throughput by the model, with the nominal constants times factors that have these
    /// logarithms.
    fn figures(&self, logs: &Vector, budget: &Budget) -> Result<(Logs, Option<f64>), Unknown> {
        let mut server = self.server.clone();
        let settings = server
            .settings
            .as_mut()
            .ok_or_else(|| "the server is not modelled".to_owned())?;
        let Constants { kv_blocks, start, .. } = settings.cost.constants;
        settings.cost.constants = Constants {
            kv_blocks,
            start,
            ..scaled(logs)
        };
        settings.spread = Spread::default();
        let mut player = Player::new(&server, self.keeps_caches, false);
        let (_, measurement) = player.play(Play {
            params: &self.params,
            warmup: Warmup::Requests(0),
            watch: None,
            limit: Duration::MAX,
            budget,
        })?;
        let measurement = measurement.ok_or_else(|| "no request is answered".to_owned())?;
        let figure = |name| log(measurement.result.get(name)?.as_f64()?);
        Ok((NAMES.map(figure), figure("output_throughput")))
    }

    /// Returns the figures and their derivatives at factors with these logarithms.
    pub fn modelled(&self, at: &Vector, budget: &Budget) -> Result<ModelFigures, Unknown> {
        let (logs, throughput) = self.figures(at, budget)?;
        let mut slopes = [[0.0; COUNT]; FIGURES];
        let cost = self.server.settings.as_ref().map(|settings| &settings.cost);
        for (index, constant) in CONSTANTS.iter().enumerate() {
            if !cost.is_some_and(constant.applies) {
                continue;
            }
            let step = constant.prior / 2.0;
            let mut moved = *at;
            moved[index] += step;
            let (moved_logs, _) = self.figures(&moved, budget)?;
            for ((log, moved_log), slopes) in logs.iter().zip(moved_logs).zip(&mut slopes) {
                if let (Some(log), Some(moved_log)) = (log, moved_log) {
                    slopes[index] = (moved_log - log) / step;
                }
            }
        }
        Ok(ModelFigures {
            logs,
            slopes,
            throughput,
        })
    }
}

/// Returns the logarithm of a positive finite number; `None` for others.
pub fn log(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then(|| value.ln())
}

/// Returns the belief about the constants after some runs, and the comparison of measured and modelled figures at its mean.
pub fn fit(cases: &[Case], budget: &Budget) -> Result<(Belief, Vec<Row>), Unknown> {
    let mut at = [0.0; COUNT];
    let mut modelled = Vec::new();
    for _ in 0..ROUNDS {
        let results = threads::map(threads::cores(), cases, |case| case.load.modelled(&at, budget));
        modelled = results.into_iter().collect::<Result<Vec<ModelFigures>, Unknown>>()?;
        at = Belief::after(&rows(cases, &modelled, &at)).mean;
    }
    // The figures are computed again for the final constants; the last derivatives are kept.
    let logs = threads::map(threads::cores(), cases, |case| case.load.figures(&at, budget));
    for (modelled, logs) in modelled.iter_mut().zip(logs) {
        (modelled.logs, modelled.throughput) = logs?;
    }
    let rows = rows(cases, &modelled, &at);
    Ok((Belief::after(&rows), rows))
}

/// Compares measured and modelled figures, as a linear problem.
fn rows(cases: &[Case], modelled: &[ModelFigures], at: &Vector) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, modelled) in cases.iter().zip(modelled) {
        for figure in 0..FIGURES {
            let (Some((value, sampling)), Some(predicted)) = (case.measured[figure], modelled.logs[figure]) else {
                continue;
            };
            let slopes = modelled.slopes[figure];
            let linear: f64 = slopes.iter().zip(at).map(|(slope, at)| slope * at).sum();
            rows.push(Row {
                server: case.server,
                figure,
                value: value - predicted + linear,
                slopes,
                sampling,
            });
        }
    }
    rows
}
