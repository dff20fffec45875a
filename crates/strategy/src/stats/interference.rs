//! How much slower something is beside others than alone, from pairs of runs of the same load on the same start of a server, and
//! whether that matters. Which runs make a pair is decided elsewhere.
//!
//! A sequential test with a look after each pair, on the logarithm of each pair's ratio (a paired t, with the repeated confidence
//! intervals of [`level_of_look`]). A slowdown as large as the threshold and none at all are the two truths that it is made to tell apart: the
//! chance to take one for the other is half a percent. What lies between them is called by the side on which it is seen.

use super::{Estimate, Interval, level_of_look};

/// Pairs at the first look and at the last one. With runs that scatter by 1 %, six to twelve pairs decide.
const FIRST_LOOK: usize = 4;
const LAST_LOOK: usize = 16;
/// The chance that an interval of any look misses the truth, on both sides together.
const ALPHA: f64 = 0.01;

/// What pairs of runs say so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Interference {
    /// Pairs that were looked at.
    pub pairs: usize,
    /// The logarithm of the time beside others over the time alone, and its interval, which holds at all looks at once (99 %). None
    /// before the second pair.
    pub ratio: Option<(f64, Interval)>,
    /// What follows.
    pub slowdown: Slowdown,
}

/// Whether servers slow one another down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Slowdown {
    /// Too few pairs to tell.
    #[default]
    Undecided,
    /// The slowdown is shown to be below the threshold.
    Harmless,
    /// The slowdown is nearer to the threshold than to nothing, or above it.
    Slows,
}

impl Interference {
    /// What pairs say, in the order in which they were measured: logarithms of the time beside others over the time alone. Pairs after
    /// the one that decided change neither the answer nor its figures.
    pub fn of(log_ratios: &[f64], threshold_percent: f64) -> Interference {
        let threshold = (threshold_percent / 100.0).ln_1p();
        let mut looks = (2..=log_ratios.len().min(LAST_LOOK)).map(|pairs| look(&log_ratios[..pairs], threshold));
        let decided = looks.clone().find(|seen| !seen.is_open());
        decided.or(looks.next_back()).unwrap_or(Interference {
            pairs: log_ratios.len().min(1),
            ..Interference::default()
        })
    }

    /// The slowdown and its interval, in percent.
    pub fn percent(&self) -> Option<(f64, f64, f64)> {
        let percent = |log: f64| log.exp_m1() * 100.0;
        self.ratio
            .map(|(log, interval)| (percent(log), percent(interval.low), percent(interval.high)))
    }

    /// Whether more pairs could decide.
    pub fn is_open(&self) -> bool {
        self.slowdown == Slowdown::Undecided
    }

    /// The most pairs that are looked at.
    pub const MOST_PAIRS: usize = LAST_LOOK;
}

fn look(pairs: &[f64], threshold: f64) -> Interference {
    let estimate = Estimate::of_mean(pairs);
    let log = estimate.log;
    let interval = estimate
        .interval(level_of_look(FIRST_LOOK, LAST_LOOK, ALPHA))
        .expect("its error is known");
    let is_last = pairs.len() == LAST_LOOK;
    let middle = threshold / 2.0;
    let slowdown = match pairs.len() >= FIRST_LOOK {
        false => Slowdown::Undecided,
        true if interval.high < threshold => Slowdown::Harmless,
        true if interval.low > middle || (is_last && log > middle) => Slowdown::Slows,
        true if is_last => Slowdown::Harmless,
        true => Slowdown::Undecided,
    };
    Interference {
        pairs: pairs.len(),
        ratio: Some((log, interval)),
        slowdown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal number from uniform ones (Irwin and Hall), of a stream of its own.
    fn normal(draw: &mut u64) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            *draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            sum += (*draw >> 11) as f64 / (1u64 << 53) as f64;
        }
        sum
    }

    /// How many of 2000 series end with a slowdown that matters, and their mean number of pairs.
    fn tripped(truth: f64, run_noise: f64) -> (usize, f64) {
        let mut draw = 14;
        let (mut tripped, mut pairs) = (0, 0);
        for _ in 0..2000 {
            let noise = |draw: &mut u64| run_noise * (normal(draw) - normal(draw));
            let series: Vec<f64> = (0..LAST_LOOK).map(|_| f64::ln_1p(truth) + noise(&mut draw)).collect();
            let found = Interference::of(&series, 5.0);
            assert_ne!(found.slowdown, Slowdown::Undecided, "the last look decides");
            tripped += usize::from(found.slowdown == Slowdown::Slows);
            pairs += found.pairs;
        }
        (tripped, pairs as f64 / 2000.0)
    }

    #[test]
    fn what_there_is_is_found_and_what_there_is_not_is_not() {
        for noise in [0.003, 0.01, 0.02] {
            let ((none, at_none), (five, at_five)) = (tripped(0.0, noise), tripped(0.05, noise));
            println!(
                "runs scatter by {noise}: {none} of 2000 trip without ({at_none:.1} pairs), {five} with 5 % ({at_five:.1} pairs)"
            );
            assert!(none <= 10, "{none} at {noise}");
            assert!(five >= 1985, "{five} at {noise}");
        }
    }

    #[test]
    fn the_finding_stays_whatever_is_measured_later() {
        let calm = [0.001, -0.002, 0.0, 0.001, -0.001, 0.002];
        let found = Interference::of(&calm, 5.0);
        assert_eq!(found.slowdown, Slowdown::Harmless);
        let more = [&calm[..], &[0.2; 10]].concat();
        assert_eq!(Interference::of(&more, 5.0), found);
        assert_eq!(Interference::of(&calm[..3], 5.0).slowdown, Slowdown::Undecided);
        assert_eq!(Interference::of(&[0.1], 5.0).percent(), None);
    }
}
