//! Judges shares of trials: computes their bounds, and compares them with requirements.

use vsweep_strategy::search::wilson;

/// The standard normal quantile of 95 %.
const ONE_SIDED: f64 = 1.645;

/// Certainty with which a requirement must be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// The less favourable of the 95 % bounds must meet it.
    Proven,
    /// Alarms must meet it by their upper bound, discoveries by their share: even a thousand of a thousand do not prove 99.9 %.
    Seen,
    /// The more favourable bound must meet it, because few trials can only disprove.
    NotDisproved,
}

/// Prints results next to their limits, and remembers if all were met.
#[derive(Debug)]
pub struct Judge {
    pub strictness: Strictness,
    pub failed: Vec<String>,
}

/// Number of trials, and of those that hit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub hits: u64,
    pub trials: u64,
}

impl Count {
    pub fn of(flags: impl IntoIterator<Item = bool>) -> Count {
        flags.into_iter().fold(Count::default(), |count, flag| Count {
            hits: count.hits + u64::from(flag),
            trials: count.trials + 1,
        })
    }

    /// The share in percent, with a lower and an upper bound. Each bound holds with a probability of 95 %.
    fn percents(self) -> [f64; 3] {
        let (low, high) = wilson(
            self.hits as f64 / self.trials.max(1) as f64,
            self.trials as f64,
            ONE_SIDED,
        );
        [self.hits as f64 / self.trials.max(1) as f64, low, high].map(|share| 100.0 * share)
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [share, low, high] = self.percents();
        write!(f, "{share:6.2} % ({low:5.2}..{high:5.2})")
    }
}

impl Judge {
    /// Requires less than `limit` percent.
    pub fn at_most(&mut self, what: &str, count: Count, limit: f64) {
        let [_, low, high] = count.percents();
        let seen = match self.strictness {
            Strictness::Proven | Strictness::Seen => high,
            Strictness::NotDisproved => low,
        };
        self.note(seen < limit, format!("{what:<58} {count}  < {limit} %"));
    }

    /// Requires at least `limit` percent.
    pub fn at_least(&mut self, what: &str, count: Count, limit: f64) {
        let [share, low, high] = count.percents();
        let seen = match self.strictness {
            Strictness::Proven => low,
            Strictness::Seen => share,
            Strictness::NotDisproved => high,
        };
        self.note(seen >= limit, format!("{what:<58} {count} >= {limit} %"));
    }

    /// Requires at most `limit` of a figure whose sampling error is negligible.
    pub fn value(&mut self, what: &str, value: f64, limit: f64) {
        self.note(
            value <= limit,
            format!("{what:<58} {value:6.1}                <= {limit}"),
        );
    }

    fn note(&mut self, is_met: bool, line: String) {
        println!("{} {line}", if is_met { "ok  " } else { "FAIL" });
        if !is_met {
            self.failed.push(line);
        }
    }
}

/// The mean, and the smallest value that nine of ten do not exceed.
pub fn mean_and_p90(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (0.9 * sorted.len() as f64).ceil() as usize;
    (
        values.iter().sum::<f64>() / values.len() as f64,
        sorted[rank.saturating_sub(1)],
    )
}
