//! Lengths of random prompts and outputs: uniform around a mean, from numpy's `default_rng`.

use crate::params::{FromParam, Param, Takes, json_of};
use serde::Deserialize;
use serde_json::Value;
use vsweep_metrics::rng::NumpyPcg64;

/// Spread of lengths around their mean: a ratio `r` in [0, 1) means from `(1 - r)` to `(1 + r)` times the mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct RangeRatio {
    /// Ratio of input lengths.
    pub input: f64,
    /// Ratio of output lengths.
    pub output: f64,
}

/// A number for both, or `{"input": r, "output": r}`.
impl FromParam for RangeRatio {
    const TAKES: Takes = Takes::Json;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let given = json_of(value);
        let ratio = match LengthSpread::deserialize(&given).ok() {
            Some(LengthSpread::Same(ratio)) => Some(RangeRatio {
                input: ratio,
                output: ratio,
            }),
            Some(LengthSpread::Each(ratio)) => Some(ratio),
            None => None,
        };
        let fits = |ratio: f64| (0.0..1.0).contains(&ratio);
        let sound = ratio.filter(|ratio| fits(ratio.input) && fits(ratio.output));
        sound.ok_or_else(|| {
            let given = if given.is_null() { value } else { &given };
            let name = param.name;
            format!(
                "{name} is {given}; write a number of at least 0 and below 1, or {{\"input\": 0.2, \"output\": 0.1}}"
            )
        })
    }
}

/// The form in a parameter.
#[derive(Deserialize)]
#[serde(untagged)]
enum LengthSpread {
    Same(f64),
    Each(RangeRatio),
}

/// Lengths and first tokens of random requests.
#[derive(Debug)]
pub(super) struct Lengths {
    pub input: Vec<u64>,
    pub output: Vec<u64>,
    pub offset: Vec<u64>,
}

impl Lengths {
    /// Draws `n` input lengths, then `n` output lengths, then `n` offsets into the vocabulary. `input` is the mean
    /// without the special tokens that the tokenizer adds.
    pub fn draw(
        random: &mut NumpyPcg64,
        n: usize,
        input: u64,
        output: u64,
        ratio: RangeRatio,
        vocabulary: u64,
    ) -> Self {
        let low = |mean: u64, ratio: f64| (mean as f64 * (1.0 - ratio)).floor() as u64;
        let high = |mean: u64, ratio: f64| (mean as f64 * (1.0 + ratio)).ceil() as u64;
        let mut draw = |from: u64, to: u64| (0..n).map(|_| random.integer(from, to + 1)).collect();
        Lengths {
            input: draw(low(input, ratio.input), high(input, ratio.input)),
            output: draw(low(output, ratio.output).max(1), high(output, ratio.output).max(1)),
            offset: draw(0, vocabulary.saturating_sub(1)),
        }
    }
}
