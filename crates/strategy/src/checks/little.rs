//! Little's law: requests in flight are requests a second times seconds a request (Little 1961). It holds for any system over a long
//! time, so figures that break it were not measured over the same time, or not on the same requests.

/// The residual beyond which figures contradict each other, as a ratio; an assumption. Requests in flight are usually sampled once
/// a second, and a minute of such samples of a steady load is good to a few percent.
pub const LIMIT: f64 = 0.05;

/// By how much throughput times mean latency exceeds the requests in flight, as a ratio of these; None where the figures agree within
/// 5 % and what the edges of the window explain, or where there is nothing to compare.
///
/// `in_flight` is a mean over the window, `per_second` the requests completed in it, `latency_s` their mean, `window_s` its length.
pub fn littles_law(in_flight: f64, per_second: f64, latency_s: f64, window_s: f64) -> Option<f64> {
    let residual = (per_second * latency_s - in_flight) / in_flight;
    // A request that an edge of the window cuts is in flight for a part of its latency only.
    let edges = latency_s / window_s;
    (residual.is_finite() && residual.abs() > LIMIT + edges).then_some(residual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_one_system_agree() {
        assert_eq!(littles_law(64.0, 32.0, 2.0, 60.0), None);
        assert_eq!(littles_law(64.0, 31.0, 2.0, 60.0), None);
        assert_eq!(littles_law(64.0, 28.0, 2.0, 10.0), None, "a short window");
        assert_eq!(littles_law(0.0, 0.0, 2.0, 60.0), None);
    }

    #[test]
    fn figures_of_two_do_not() {
        assert_eq!(littles_law(64.0, 16.0, 2.0, 60.0), Some(-0.5));
        assert!(littles_law(64.0, 40.0, 2.0, 60.0).is_some_and(|residual| (residual - 0.25).abs() < 1e-12));
    }
}
