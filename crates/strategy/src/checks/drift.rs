//! Detects servers that became slower or faster from their first run to their last, by a straight line through the runs of all loads
//! measured on one start. Each load has a level of its own.

use crate::stats::{RunPrior, student_quantile};

/// One run on a start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The load, by any number of its own.
    pub load: usize,
    /// Position among the runs of the start: an index, or a time.
    pub at: f64,
    /// The figure's natural logarithm.
    pub log: f64,
}

/// The chance that a steady start is called drifting, were it not for [`LEAST_DRIFT`].
const ALPHA: f64 = 0.001;
/// A drift below this changes no mean by more than half of it.
pub const LEAST_DRIFT: f64 = 0.05;
/// Without a belief, fewer degrees of freedom say nothing of the noise.
const FEWEST: f64 = 3.0;

/// Returns the change of a figure from the first run to the last, as a ratio, if noise does not explain it. With a prior of no weight, the
/// noise is estimated from the runs alone.
pub fn drift(steps: &[Step], prior: RunPrior) -> Option<f64> {
    let mut sorted = steps.to_vec();
    sorted.sort_by_key(|step| step.load);
    let by_load = sorted.chunk_by(|a, b| a.load == b.load);
    let loads: Vec<&[Step]> = by_load.filter(|group| group.len() > 1).collect();
    // Distances from the means of each load.
    let mean = |group: &[Step], of: fn(&Step) -> f64| group.iter().map(of).sum::<f64>() / group.len() as f64;
    let apart: Vec<(f64, f64)> = loads
        .iter()
        .flat_map(|group| {
            let (at, log) = (mean(group, |step| step.at), mean(group, |step| step.log));
            group.iter().map(move |step| (step.at - at, step.log - log))
        })
        .collect();
    // A line is not drawn beyond the runs of the load that was measured for the longest time.
    let extent = |group: &&[Step]| {
        let times = || group.iter().map(|step| step.at);
        Some(times().reduce(f64::max)? - times().reduce(f64::min)?)
    };
    let span = loads.iter().filter_map(extent).reduce(f64::max)?;
    let squares: f64 = apart.iter().map(|(at, _)| at * at).sum();
    let slope = apart.iter().map(|(at, log)| at * log).sum::<f64>() / squares;
    let left: f64 = apart.iter().map(|(at, log)| (log - slope * at).powi(2)).sum();
    let own = apart.len() as f64 - loads.len() as f64 - 1.0;
    let freedom = own + prior.freedom;
    if freedom < FEWEST || squares <= 0.0 {
        return None;
    }
    let variance = (left + prior.freedom * prior.sd.powi(2)) / freedom;
    let change = slope * span;
    let limit = student_quantile(ALPHA, freedom) * (variance / squares).sqrt() * span;
    (change.abs() > limit.max(LEAST_DRIFT)).then(|| change.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSED: RunPrior = RunPrior {
        sd: 0.015,
        freedom: 8.0,
    };
    const NONE: RunPrior = RunPrior { sd: 0.0, freedom: 0.0 };

    /// Rounds of all loads, the figure falling by `fall` from first to last, with noise of 1 %.
    fn rounds(loads: usize, runs: usize, fall: f64) -> Vec<Step> {
        let last = (loads * runs - 1) as f64;
        (0..loads * runs)
            .map(|at| Step {
                load: at % loads,
                at: at as f64,
                log: (at % loads) as f64 - fall * at as f64 / last + 0.01 * (at as f64 * 12.9898).sin(),
            })
            .collect()
    }

    #[test]
    fn a_fall_over_rounds_is_found_and_noise_is_not() {
        assert_eq!(drift(&rounds(6, 3, 0.0), CLOSED), None);
        let found = drift(&rounds(6, 3, 0.08), CLOSED).expect("a drift");
        assert!((0.90..0.95).contains(&found), "{found}");
        assert!(drift(&rounds(6, 3, 0.08), NONE).is_some());
        assert_eq!(drift(&rounds(6, 3, 0.03), CLOSED), None, "too small to matter");
    }

    #[test]
    fn two_runs_show_only_what_no_usual_noise_explains() {
        let pair = |change: f64| {
            let step = |at: f64| Step {
                load: 0,
                at,
                log: change * at,
            };
            [step(0.0), step(1.0)]
        };
        assert_eq!(drift(&pair(-0.06), CLOSED), None);
        assert!(drift(&pair(-0.15), CLOSED).is_some());
        assert_eq!(drift(&pair(-0.15), NONE), None);
        assert_eq!(drift(&[], CLOSED), None);
        // Loads with one run each say nothing, however they differ.
        assert_eq!(drift(&rounds(8, 1, 0.5), CLOSED), None);
    }
}
