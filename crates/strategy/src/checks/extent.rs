//! The time and the number of requests that a load needs for its results to be meaningful.

/// Shortest meaningful duration of a run, in seconds. A shorter run shows mostly its start and its end.
const SHORTEST_S: f64 = 0.5;
/// Minimum number of requests of each slot of a closed loop, so that one of them meets the server at full load.
const WAVES: f64 = 2.0;

/// Reason why a load was too short for a steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortfall {
    /// It took too little time.
    Time,
    /// Its slots sent too few requests.
    Requests,
}

/// Returns the reason if a load was too short, by its duration in seconds and, for a closed loop, by the number of requests that its slots
/// completed. Fewer requests than slots are accepted, because such a run never fills the slots.
pub fn shortfall(duration_s: f64, completed: Option<f64>, slots: Option<f64>) -> Option<Shortfall> {
    if duration_s < SHORTEST_S {
        return Some(Shortfall::Time);
    }
    let (completed, slots) = (completed?, slots.filter(|slots| *slots > 1.0)?);
    (slots..WAVES * slots)
        .contains(&completed)
        .then_some(Shortfall::Requests)
}

/// Returns the number of values that a percentile needs, so that one lies beyond it. p99 needs 100: with fewer it is an interpolation
/// towards the greatest value.
pub fn values_needed(percent: f64) -> f64 {
    (100.0 / (100.0 - percent) - 1e-9).ceil()
}

/// Returns the percentile and the latency of a key such as `p99_ttft_ms`. `None` for other keys, and for the least and the greatest value,
/// which a sample of any size has.
pub fn percentile(key: &str) -> Option<(f64, &str)> {
    let (percent, rest) = key.strip_prefix('p')?.split_once('_')?;
    let latency = rest.strip_suffix("_ms")?;
    let percent = percent.parse().ok();
    let percent = percent.filter(|percent| 0.0 < *percent && *percent < 100.0)?;
    Some((percent, latency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_waves_of_half_a_second_are_long_enough() {
        assert_eq!(shortfall(0.4, None, None), Some(Shortfall::Time));
        assert_eq!(shortfall(9.0, Some(70.0), Some(64.0)), Some(Shortfall::Requests));
        assert_eq!(shortfall(0.5, Some(128.0), Some(64.0)), None);
        assert_eq!(shortfall(9.0, Some(1.0), Some(1.0)), None);
        assert_eq!(shortfall(9.0, None, Some(64.0)), None);
    }

    #[test]
    fn percentiles_need_values_beyond_them() {
        assert_eq!([50.0, 90.0, 99.0, 99.9].map(values_needed), [2.0, 10.0, 100.0, 1000.0]);
        assert_eq!(percentile("p99.9_ttft_ms"), Some((99.9, "ttft")));
        for key in ["p100_ttft_ms", "mean_ttft_ms", "prefix_ms", "p99"] {
            assert_eq!(percentile(key), None, "{key}");
        }
    }
}
