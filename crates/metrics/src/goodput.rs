//! Goodput: which requests met their targets.

use super::moments::seconds;
use super::sample::Sample;

/// Targets of one request, in milliseconds; a request is good if it meets each one that is given.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Goodput {
    /// Largest time to first token.
    pub ttft_ms: Option<f64>,
    /// Largest time per output token; an output of one token meets any.
    pub tpot_ms: Option<f64>,
    /// Largest end-to-end latency.
    pub e2el_ms: Option<f64>,
}

impl Goodput {
    /// Reads pairs such as `ttft:200`, separated by blanks or commas.
    pub fn parse(pairs: &[String]) -> Result<Option<Goodput>, String> {
        let mut goodput = Goodput::default();
        for pair in pairs {
            let (name, value) = pair
                .split_once(':')
                .ok_or_else(|| format!("goodput \"{pair}\" has no colon; write NAME:MILLISECONDS, e.g. ttft:200"))?;
            let target = match name.trim() {
                "ttft" => &mut goodput.ttft_ms,
                "tpot" => &mut goodput.tpot_ms,
                "e2el" => &mut goodput.e2el_ms,
                other => return Err(format!("goodput knows ttft, tpot and e2el, not \"{other}\"")),
            };
            let limit: f64 = value
                .trim()
                .parse()
                .ok()
                .filter(|limit| *limit >= 0.0)
                .ok_or_else(|| format!("goodput {name} wants milliseconds of at least 0, not \"{value}\""))?;
            *target = Some(limit);
        }
        Ok((goodput != Goodput::default()).then_some(goodput))
    }

    /// Returns true if a request met every target (limits included); a failed one never does.
    pub fn is_met(&self, sample: &Sample) -> bool {
        let within = |limit_ms: Option<f64>, value_s: f64| limit_ms.is_none_or(|limit| limit / 1000.0 >= value_s);
        sample.is_ok()
            && within(self.ttft_ms, seconds(sample.ttft()))
            && within(self.tpot_ms, sample.tpot().unwrap_or(0.0))
            && within(self.e2el_ms, seconds(sample.latency()))
    }
}
