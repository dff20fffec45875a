//! Earlier load searches as their authors wrote them, with their defects. vsweep's own search is compared with them.
//!
//! Each takes a measurement as a function of the load and returns what it probed and answered.

use std::collections::BTreeMap;

/// Measurement of one probe, averaged over its runs.
#[derive(Debug, Clone, Copy)]
pub struct ProbeFigures {
    /// The metric with the limit.
    pub p99_ms: f64,
    /// The load that the server reached without a limit: its throughput, or throughput times latency.
    pub reached: f64,
}

/// Result of an algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Loads in the order they were measured.
    pub probes: Vec<u64>,
    /// The load that it answers. 0 if the authors' code answers 0.
    pub answer: u64,
}

/// The load that means "unlimited".
pub const INFINITE: u64 = 65536;

/// Measures every load once. If a load is asked for again, the earlier measurement is returned.
struct ProbeCache<'a> {
    measure: &'a mut dyn FnMut(u64) -> ProbeFigures,
    limit_ms: f64,
    probes: Vec<u64>,
    known: BTreeMap<u64, ProbeFigures>,
}

impl<'a> ProbeCache<'a> {
    fn new(limit_ms: f64, measure: &'a mut dyn FnMut(u64) -> ProbeFigures) -> Self {
        ProbeCache {
            measure,
            limit_ms,
            probes: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    fn measured(&mut self, value: u64) -> ProbeFigures {
        *self.known.entry(value).or_insert_with(|| {
            self.probes.push(value);
            (self.measure)(value)
        })
    }

    fn passes(&mut self, value: u64) -> bool {
        self.measured(value).p99_ms <= self.limit_ms
    }

    fn answered(self, answer: u64) -> Outcome {
        Outcome {
            probes: self.probes,
            answer,
        }
    }

    /// Halves the range from `pass` to `fail` until its ends differ by a factor of at most `width`, or by 1.
    fn bisect(&mut self, mut pass: u64, mut fail: u64, width: f64) -> u64 {
        while fail - pass > 1 && fail as f64 > pass as f64 * width {
            let middle = (pass + fail) / 2;
            if self.passes(middle) {
                pass = middle
            } else {
                fail = middle
            }
        }
        pass
    }
}

/// vLLM's first `serve_sla`: measures without a limit, doubles the load from the one that was reached, and bisects.
pub fn generation1(limit_ms: f64, measure: &mut dyn FnMut(u64) -> ProbeFigures) -> Outcome {
    let mut probing = ProbeCache::new(limit_ms, measure);
    let (mut pass, mut fail) = saturate_and_double(&mut probing, 0);
    // A bound that was never found stays 0, so the bisection goes down instead of up.
    loop {
        let middle = (pass + fail) / 2;
        if probing.passes(middle) {
            pass = middle
        } else {
            fail = middle
        }
        if fail <= pass + 1 {
            return probing.answered(pass);
        }
    }
}

/// Its revision with margins. The upper bound is corrected, but a load of zero is probed if everything fails.
pub fn generation1b(limit_ms: f64, measure: &mut dyn FnMut(u64) -> ProbeFigures) -> Outcome {
    let mut probing = ProbeCache::new(limit_ms, measure);
    let (mut pass, mut fail) = saturate_and_double(&mut probing, INFINITE);
    while fail > pass + 1 || !probing.known.contains_key(&pass) {
        let middle = (pass + fail) / 2;
        if probing.passes(middle) {
            pass = middle
        } else {
            fail = middle
        }
    }
    probing.answered(pass)
}

fn saturate_and_double(probing: &mut ProbeCache, unbounded: u64) -> (u64, u64) {
    let mut value = (probing.measured(INFINITE).reached.ceil() as u64).max(1);
    let mut pass = 0;
    while value < INFINITE {
        if !probing.passes(value) {
            return (pass, value);
        }
        pass = value;
        value *= 2;
    }
    (pass, unbounded)
}

/// vLLM's second `serve_sla`: measures both ends, then goes to the first root of a monotone cubic through all margins. `highest` was 65536
/// and later 8192. With 65536, vLLM crashed if there was no root; here the midpoint is used, as later.
pub fn generation2(highest: u64, limit_ms: f64, measure: &mut dyn FnMut(u64) -> ProbeFigures) -> Outcome {
    let mut probing = ProbeCache::new(limit_ms, measure);
    let (mut pass, mut fail) = (1, highest);
    let mut stuck = 0;
    while pass + 1 < fail || probing.known.is_empty() {
        let value = match probing.known.len() {
            0 => highest,
            1 => 1,
            _ => {
                let margins: Vec<_> = probing
                    .known
                    .iter()
                    .map(|(v, m)| (*v as f64, m.p99_ms - limit_ms))
                    .collect();
                let root = super::pchip::first_root(&margins).map_or((pass + fail) / 2, |root| (root + 1e-7) as u64);
                if probing.known.contains_key(&root) {
                    root + 1
                } else {
                    root
                }
                .clamp(1, highest)
            }
        };
        // With noise, the root can stay between two known loads forever.
        stuck = if probing.known.contains_key(&value) {
            stuck + 1
        } else {
            0
        };
        if stuck > 1 {
            break;
        }
        if probing.passes(value) {
            pass = pass.max(value)
        } else {
            fail = fail.min(value)
        }
    }
    probing.answered(pass)
}

/// The dashboard's refinement of a fixed list of loads. Returns the last pass and the first failure, before and after, and the further
/// loads.
pub fn adaptive_concurrency(
    list: &[u64],
    max_probes: usize,
    max_concurrency: u64,
    limit_ms: f64,
    measure: &mut dyn FnMut(u64) -> ProbeFigures,
) -> ([Option<u64>; 4], Vec<u64>) {
    let mut probing = ProbeCache::new(limit_ms, measure);
    let (mut pass, mut fail) = (None, None);
    for &value in list {
        if probing.passes(value) {
            pass = Some(value);
        } else if pass.is_some() {
            fail = Some(value);
            break;
        }
    }
    let (static_pass, static_fail) = (pass, fail);
    probing.probes.clear();
    if let Some(mut last) = pass {
        let mut gap = match list {
            [.., before, end] => end - before,
            _ => 1,
        };
        while fail.is_none() && probing.probes.len() < max_probes && last < max_concurrency {
            let value = (last + gap).min(max_concurrency);
            if probing.passes(value) {
                last = value
            } else {
                fail = Some(value)
            }
            gap *= 2;
        }
        while let Some(first) = fail.filter(|first| first - last > 1 && probing.probes.len() < max_probes) {
            let middle = (last + first) / 2;
            if probing.passes(middle) {
                last = middle
            } else {
                fail = Some(middle)
            }
        }
        pass = Some(last);
    }
    ([static_pass, static_fail, pass, fail], probing.probes)
}

/// vLLM's current `serve_workload`: levels between the loads that a serial and a saturated run reached.
pub fn workload_levels(serial: f64, batch: f64, iterations: usize) -> Vec<i64> {
    let (low, high) = (serial.ceil(), batch.floor());
    let between = 1..iterations.saturating_sub(1);
    let step = (high - low) / (iterations.max(2) - 1) as f64;
    let mut levels: Vec<i64> = between
        .map(|i| (low + step * i as f64).round_ties_even() as i64)
        .collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Doubles from `start` until a failure, or halves until a pass, then bisects: to a difference of 1 if `width` is 1 (as in the recipes),
/// otherwise to a ratio (as in aiperf).
pub fn double_and_bisect(
    start: u64,
    width: f64,
    limit_ms: f64,
    measure: &mut dyn FnMut(u64) -> ProbeFigures,
) -> Outcome {
    let mut probing = ProbeCache::new(limit_ms, measure);
    let (mut pass, mut fail) = (0, INFINITE);
    let mut value = start.max(1);
    while value > pass && value < fail {
        if probing.passes(value) {
            pass = value;
            value = if fail == INFINITE {
                (value * 2).min(INFINITE - 1)
            } else {
                value
            };
        } else {
            fail = value;
            value = if pass == 0 { value / 2 } else { value };
        }
    }
    let answer = if fail == INFINITE {
        pass
    } else {
        probing.bisect(pass, fail, width)
    };
    probing.answered(answer)
}
