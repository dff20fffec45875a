//! Checks, by the requests themselves, that tokens came as fast at the end of a run as at its beginning.

use crate::checks::changing;
use crate::metrics::{Sample, Samples, median, seconds};
use crate::validity::{Code, Doubt};

/// Equal spans of time that a trend is looked for in, at the most.
const SPANS: usize = 30;
/// Requests in a span on average, at least: fewer say little of its pace.
const FEWEST: usize = 4;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// Time at which it was sent, in seconds.
    pub sent: f64,
    /// Time at which it ended, in seconds.
    pub end: f64,
    /// Mean time per output token.
    pub tpot: f64,
}

impl Served {
    /// Reads a request; `None` if it failed, or had a single token.
    pub fn of(sample: &Sample) -> Option<Served> {
        let tpot = sample.tpot().filter(|tpot| *tpot > 0.0 && sample.is_ok())?;
        Some(Served {
            sent: seconds(sample.sent),
            end: seconds(sample.end),
            tpot,
        })
    }
}

/// Checks a whole run.
pub(in crate::bench) fn pace(samples: &Samples) -> Option<Doubt> {
    let served: Vec<Served> = samples.iter().filter_map(|sample| Served::of(&sample)).collect();
    paced(&served)
}

/// Returns a doubt if the time per output token had a trend. Requests of the ramp, before the first one ended, and of the drain, after the
/// last one was sent, are left out: fewer requests run at the same time as they do.
pub fn paced(served: &[Served]) -> Option<Doubt> {
    let ramp = served.iter().map(|request| request.end).reduce(f64::min)?;
    let drain = served.iter().map(|request| request.sent).reduce(f64::max)?;
    let is_between = |request: &&Served| request.sent >= ramp && request.end <= drain;
    let between: Vec<&Served> = served.iter().filter(is_between).collect();
    let spans = SPANS.min(between.len() / FEWEST);
    // Too few requests have no pace.
    let last = spans.checked_sub(1)?;
    let mut tpots: Vec<Vec<f64>> = vec![Vec::new(); spans];
    for request in &between {
        let at = (request.end - ramp) / (drain - ramp) * spans as f64;
        tpots[(at as usize).min(last)].push(request.tpot);
    }
    let medians: Vec<f64> = tpots.into_iter().filter_map(median).collect();
    let found = changing(&medians)?;
    let percent = 100.0 * found;
    let detail = format!(
        "the time per output token changed by {percent:+.0} % from the end of the ramp to the start of the drain"
    );
    Some(Doubt::new(Code::NoSteadyState, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closed loop of eight slots whose tokens take longer by a part until the end.
    fn run(slowing: f64) -> Option<Code> {
        let mut free = [0.0f64; 8];
        let served: Vec<Served> = (0..240u64)
            .map(|at| {
                let slot = (0..8).min_by(|a, b| free[*a].total_cmp(&free[*b])).expect("a slot");
                let noise = 1.0 + 0.05 * ((at * 7919 % 101) as f64 / 50.0 - 1.0);
                let tpot = 0.02 * noise * (1.0 + slowing * at as f64 / 240.0);
                let sent = free[slot];
                free[slot] = sent + 100.0 * tpot;
                let end = free[slot];
                Served { sent, end, tpot }
            })
            .collect();
        paced(&served).map(|doubt| doubt.code)
    }

    #[test]
    fn a_fifth_more_is_seen_in_two_hundred_requests() {
        assert_eq!(run(0.0), None);
        assert_eq!(run(0.2), Some(Code::NoSteadyState));
        assert_eq!(run(-0.2), Some(Code::NoSteadyState));
    }

    #[test]
    fn few_requests_have_no_pace() {
        let one_after_another = |count: u32| {
            let served = (0..count).map(f64::from).map(|sent| Served {
                sent,
                end: sent + 1.0,
                tpot: 0.1,
            });
            served.collect::<Vec<_>>()
        };
        for count in 0..20 {
            assert_eq!(paced(&one_after_another(count)), None, "{count} requests");
        }
    }
}
