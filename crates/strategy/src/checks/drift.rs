//! Whether two sets of runs on one start of a server differ by more than noise between its runs: the first run of a point and
//! its last, or the first point of a server and the same point at its end.

use crate::stats::{Error, Estimate, RunPrior, Start};
use serde::{Deserialize, Serialize};

/// A server that changed while it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Late over early.
    pub ratio: f64,
    /// The chance of such a ratio on a server that does not drift.
    pub p_value: f64,
}

/// The chance that a server that does not drift is called drifting, were it not for [`LEAST`].
const ALPHA: f64 = 0.01;
/// A drift below this changes no decision, as a ratio. A server that was up for an hour had 2.5 times the p99 TTFT (vLLM issue 42484).
pub const LEAST: f64 = 0.05;

/// The drift from the `early` runs to the `late` ones; None if there is none to speak of.
///
/// With a run or two on each side, what is known of noise between runs must come from other points: `noise` is worth its
/// degrees of freedom, and with few of them only a huge drift is seen.
pub fn drift(early: &Start, late: &Start, noise: RunPrior) -> Option<Drift> {
    let freedom = noise.freedom + (early.runs() + late.runs()) as f64 - 2.0;
    let squares = noise.freedom * noise.sd.powi(2) + early.squares() + late.squares();
    let share = 1.0 / early.runs() as f64 + 1.0 / late.runs() as f64;
    let error = Error {
        standard: (squares / freedom * share).sqrt(),
        freedom,
    };
    let log = late.mean() - early.mean();
    let p_value = Estimate {
        log,
        error: Some(error),
    }
    .p_value(0.0)?;
    let is_drift = p_value < ALPHA && log.abs() > LEAST.ln_1p();
    is_drift.then(|| Drift {
        ratio: log.exp(),
        p_value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: RunPrior = RunPrior {
        sd: 0.01,
        freedom: 10.0,
    };

    fn start(values: &[f64]) -> Start {
        Start::of(values).expect("positive")
    }

    #[test]
    fn a_drift_is_large_and_beyond_noise() {
        assert_eq!(drift(&start(&[100.0]), &start(&[103.0]), KNOWN), None, "small");
        assert_eq!(
            drift(&start(&[100.0]), &start(&[110.0]), RunPrior { sd: 0.05, ..KNOWN }),
            None,
            "noise"
        );
        assert_eq!(
            drift(&start(&[100.0]), &start(&[110.0]), RunPrior { freedom: 0.0, ..KNOWN }),
            None,
            "noise unknown"
        );
        let found = drift(&start(&[100.0]), &start(&[250.0]), KNOWN).expect("a drift");
        assert!((found.ratio - 2.5).abs() < 1e-9 && found.p_value < 1e-6);
    }
}
