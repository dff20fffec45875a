//! The `random` dataset: sequences of consecutive vocabulary ids, of random or fixed length, behind an optional common prefix.

use super::kind::share;
use super::tokens::round_trip::TextDraft;
use super::{Dataset, Draw, Item, Kind, Material, Prompt, Sampling, Traits, Vocabulary};
use crate::Backend;
use crate::params::{FromParam, Param, ParamReader, Takes, json_of, param};
use serde::Deserialize;
use serde_json::Value;
use vsweep_metrics::rng::NumpyPcg64;

pub(super) const KIND: Kind = Kind::of::<Random>("random", "consecutive ids of the vocabulary from a random one on");

/// Number of prompts that are drawn at a time.
const PART: usize = 2048;
/// Largest number of prompt tokens of a run. All requests are written out before the run, at about six bytes per token.
const MOST_PROMPT_TOKENS: f64 = 4e9;

pub(super) const INPUT_LEN: Param = param("random_input_len").or("input_len").default("1024");
pub(super) const RANGE_RATIO: Param = param("random_range_ratio").default("0");
pub(super) const BATCH_SIZE: Param = param("random_batch_size").least(1).default("1");

crate::params! {
    /// The `random` dataset.
    pub struct Random {
        /// Mean prompt tokens.
        input_len: u64 = INPUT_LEN,
        /// Mean output tokens.
        output_len: u64 = param("random_output_len").or("output_len").least(1).default("128"),
        /// Spread of lengths around their mean, 0 to below 1.
        range_ratio: RangeRatio = RANGE_RATIO,
        /// Tokens that all prompts share, before those of random_input_len.
        prefix_len: u64 = param("random_prefix_len").default("0"),
        /// Inputs per request, for embeddings and reranking.
        batch_size: usize = BATCH_SIZE,
    }
}

/// Reports if there are more prompt tokens than a run can have.
pub(super) fn limit_tokens(num_prompts: usize, prompt_len: u64, reader: &mut ParamReader<'_>) {
    let tokens = num_prompts as f64 * prompt_len as f64;
    if tokens > MOST_PROMPT_TOKENS {
        reader.problem(format!(
            "num_prompts times the prompt length is {tokens:.0} tokens, which is more than a run can have; stay below \
             {MOST_PROMPT_TOKENS:.0}"
        ));
    }
}

impl Dataset for Random {
    fn traits(&self) -> Traits {
        Traits {
            made_of: Material::Vocabulary,
            may_be_cut: true,
            fixes_outputs: true,
            shared_share: share(self.prefix_len, self.input_len),
            ..Traits::default()
        }
    }

    fn check(&self, backend: Backend, num_prompts: usize, reader: &mut ParamReader<'_>) {
        let takes_batches = matches!(backend, Backend::Embeddings | Backend::Infinity | Backend::Pooling);
        if self.batch_size > 1 && !takes_batches {
            reader.wrong(
                BATCH_SIZE.name,
                "1 for this backend, which takes one prompt per request",
            );
        }
        if backend == Backend::Rerank {
            reader.problem("backend vllm-rerank asks with queries and documents; set dataset_name to random-rerank");
        }
        if let Err(problem) = self.check_length(0) {
            reader.problem(problem);
        }
        limit_tokens(num_prompts, self.input_len + self.prefix_len, reader);
    }

    /// Returns a large number, because little of a round is in memory at once: the lengths of all its prompts, and a part of the prompts.
    fn round_size(&self) -> Option<usize> {
        Some((1 << 20) * self.batch_size.max(1))
    }

    fn lengths(&self, sampling: &Sampling, vocabulary: u64) -> Option<Vec<(u64, u64)>> {
        if self.batch_size > 1 {
            return None;
        }
        let mut random = NumpyPcg64::new(sampling.seed);
        let (n, ratio) = (sampling.num_prompts, self.range_ratio);
        let lengths = Lengths::draw(&mut random, n, self.input_len, self.output_len, ratio, vocabulary);
        let inputs = lengths.input.into_iter().map(|input| input + self.prefix_len);
        Some(inputs.zip(lengths.output).collect())
    }

    fn prompts_a_request(&self) -> usize {
        self.batch_size.max(1)
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        self.draw_whole(draw)
    }

    fn draw_in_parts(
        &self,
        draw: &Draw<'_>,
        take: &mut dyn FnMut(Vec<Item>) -> Result<(), String>,
    ) -> Result<(), String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let mut random = NumpyPcg64::new(sampling.seed);
        let outline = self.outline(sampling.num_prompts, vocabulary, vocabulary.allowed()?, &mut random)?;
        let size = self.batch_size.max(1);
        let part = PART.next_multiple_of(size);
        for start in (0..sampling.num_prompts).step_by(part) {
            let end = sampling.num_prompts.min(start + part);
            let drafts = (start..end).map(|i| outline.draft(i)).collect();
            let mut pad = |ids| random.id(ids);
            let prompts = vocabulary.settle_all(drafts, &mut pad)?;
            take(if size > 1 {
                batches(prompts, size, start / size)
            } else {
                let item = |(i, (prompt, length))| Item::new(i, prompt, length, outline.lengths.output[i]);
                (start..).zip(prompts).map(item).collect()
            })?;
        }
        Ok(())
    }
}

impl Random {
    /// Refuses lengths that may leave a prompt without any token except the `added` special tokens of the tokenizer.
    fn check_length(&self, added: u64) -> Result<(), String> {
        let input = self.input_len.saturating_sub(added);
        let shortest = (input as f64 * (1.0 - self.range_ratio.input)).floor() as u64;
        match self.prefix_len + shortest {
            0 => Err(format!(
                "random_input_len {} leaves no token for the prompt next to the {added} special tokens of the tokenizer; raise it",
                self.input_len
            )),
            _ => Ok(()),
        }
    }

    /// Draws the lengths and offsets of `n` prompts, and the common prefix from the ids in `allowed`.
    pub(super) fn outline(
        &self,
        n: usize,
        vocabulary: &Vocabulary<'_>,
        allowed: Vec<u32>,
        random: &mut NumpyPcg64,
    ) -> Result<Outline, String> {
        let added = vocabulary.added_specials();
        let input = self.input_len.saturating_sub(added);
        self.check_length(added)?;
        let size = vocabulary.ids().end.into();
        let lengths = Lengths::draw(random, n, input, self.output_len, self.range_ratio, size);
        let mut prefix: Vec<u32> = (0..self.prefix_len)
            .map(|_| allowed[random.integer(0, allowed.len() as u64) as usize])
            .collect();
        if !prefix.is_empty() {
            let mut pad = |ids| random.id(ids);
            prefix = vocabulary.settle(prefix, &mut pad)?.1;
        }
        Ok(Outline {
            allowed,
            lengths,
            prefix,
            prefix_len: self.prefix_len,
        })
    }
}

/// Lengths, offsets and common prefix, from which the prompts of a draw are made.
pub(super) struct Outline {
    pub allowed: Vec<u32>,
    pub lengths: Lengths,
    pub prefix: Vec<u32>,
    /// Number of tokens that the prefix should have. The text of random tokens can have another number.
    pub prefix_len: u64,
}

impl Outline {
    /// The `i`-th prompt: the prefix, then consecutive ids from its offset on.
    pub fn draft(&self, i: usize) -> TextDraft {
        let length = self.lengths.input[i];
        let own = ids_from(&self.allowed, self.lengths.offset[i] as usize + i, length);
        TextDraft {
            ids: self.prefix.iter().copied().chain(own).collect(),
            length: (self.prefix_len + length) as usize,
        }
    }
}

/// `length` consecutive ids of `allowed` from the index `start` on. After the last id comes the first one again.
pub(super) fn ids_from(allowed: &[u32], start: usize, length: u64) -> impl Iterator<Item = u32> {
    (0..length as usize).map(move |k| allowed[(start + k) % allowed.len()])
}

/// Returns requests of `size` prompts each, without output. The first request has the index `first`.
fn batches(prompts: Vec<(Prompt, u64)>, size: usize, first: usize) -> Vec<Item> {
    let groups = (first..).zip(prompts.chunks(size));
    groups
        .map(|(i, group)| {
            let prompt = Prompt::Batch(group.iter().map(|(prompt, _)| prompt.clone()).collect());
            let mut item = Item::new(i, prompt, group.iter().map(|(_, length)| length).sum(), 0);
            item.sequences = Some(group.len() as u32);
            item
        })
        .collect()
}

/// Spread of lengths around their mean: a ratio `r` in [0, 1) means from `(1 - r)` to `(1 + r)` times the mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct RangeRatio {
    /// Ratio of input lengths.
    pub input: f64,
    /// Ratio of output lengths.
    pub output: f64,
}

/// Accepts a number for both, or `{"input": r, "output": r}`.
impl FromParam for RangeRatio {
    const TAKES: Takes = Takes::Json;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let given = json_of(value);
        let ratio = match given.as_f64() {
            Some(ratio) => Ok(RangeRatio {
                input: ratio,
                output: ratio,
            }),
            None => RangeRatio::deserialize(&given),
        };
        let fits = |ratio: f64| (0.0..1.0).contains(&ratio);
        let valid = ratio.ok().filter(|ratio| fits(ratio.input) && fits(ratio.output));
        valid.ok_or_else(|| {
            let given = if given.is_null() { value } else { &given };
            let name = param.name;
            format!(
                "{name} is {given}; write a number of at least 0 and below 1, or {{\"input\": 0.2, \"output\": 0.1}}"
            )
        })
    }
}

/// Lengths of random requests in tokens, and the offsets of their first tokens in the vocabulary.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_prompts() {
        let random = Random {
            input_len: 40,
            output_len: 9,
            range_ratio: RangeRatio {
                input: 0.5,
                output: 0.3,
            },
            prefix_len: 7,
            batch_size: 1,
        };
        let sampling = Sampling {
            num_prompts: 30,
            seed: 4,
            shuffle: true,
            oversample: true,
        };
        let items = random
            .draw(&Draw::of(sampling, &Vocabulary::Ids(100..900)))
            .expect("drawn");
        let drawn: Vec<(u64, u64)> = items.iter().map(|item| (item.prompt_len, item.output_len)).collect();
        assert_eq!(random.lengths(&sampling, 900), Some(drawn));
    }
}
