//! The options of drawing prompts that every dataset takes, and the rules that datasets share: oversampling and the filter of lengths.

use super::Item;
use vsweep_metrics::rng::PythonRandom;

/// Number of requests, and how they are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Requests to draw; 0 means every row of a `custom` file.
    pub num_prompts: usize,
    /// Seed of all draws.
    pub seed: u64,
    /// True if rows of a file are taken in random order.
    pub shuffle: bool,
    /// True if rows are repeated when a file has too few.
    pub oversample: bool,
}

impl Sampling {
    /// Returns `items` in an order drawn with the seed, or unchanged without `shuffle`.
    pub(super) fn shuffled<T>(&self, mut items: Vec<T>) -> Vec<T> {
        if self.shuffle {
            PythonRandom::new(self.seed).shuffle(&mut items);
        }
        items
    }

    /// Returns true if `have` requests are enough, which is never so if every row of a file is wanted.
    pub(super) fn is_met(&self, have: usize) -> bool {
        self.num_prompts > 0 && have >= self.num_prompts
    }

    /// Converts `rows` in order until there are enough items. A row may yield none.
    pub(super) fn gather<R, T>(
        &self,
        rows: Vec<R>,
        mut item: impl FnMut(usize, R) -> Result<Option<T>, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        for row in rows {
            if self.is_met(items.len()) {
                break;
            }
            items.extend(item(items.len(), row)?);
        }
        Ok(items)
    }

    /// Like [`Sampling::repeated`], with new ids for the repeated items.
    pub(super) fn filled_up(&self, items: Vec<Item>) -> Vec<Item> {
        let originals = items.len();
        let mut items = self.repeated(items);
        for (index, item) in items.iter_mut().enumerate().skip(originals) {
            item.id = Some(index.to_string());
        }
        items
    }

    /// Repeats items, chosen with the seed, until there are `num_prompts`. Without `oversample` nothing is repeated.
    pub(super) fn repeated<T: Clone>(&self, mut all: Vec<T>) -> Vec<T> {
        let originals = all.len();
        if !self.oversample || originals == 0 {
            return all;
        }
        let mut random = PythonRandom::new(self.seed);
        for _ in originals..self.num_prompts {
            all.push(all[random.below(originals as u32) as usize].clone());
        }
        all
    }
}

/// Returns true if `vllm bench serve` accepts these lengths, in tokens, from conversation files: prompts of 4 to 1024, at most 2048 with
/// the output, and outputs of at least 4 unless their length was given.
pub(super) fn is_usual_length(prompt: u64, output: u64, output_is_given: bool) -> bool {
    (4..=1024).contains(&prompt) && prompt.saturating_add(output) <= 2048 && (output_is_given || output >= 4)
}

#[cfg(test)]
mod tests {
    use super::super::Prompt;
    use super::*;

    #[test]
    fn few_items_are_used_several_times() {
        let sampling = |num_prompts, oversample| Sampling {
            num_prompts,
            seed: 0,
            shuffle: false,
            oversample,
        };
        let items: Vec<Item> = (0..7)
            .map(|i| Item::new(i, Prompt::Text(i.to_string()), 1, 1))
            .collect();
        let filled = sampling(12, true).filled_up(items.clone());
        // random.seed(0); [random.choice(range(7)) for _ in range(5)]
        let expected = [6, 3, 6, 3, 0].map(|i| Prompt::Text(i.to_string()));
        assert_eq!(filled.len(), 12);
        assert!(
            filled[7..]
                .iter()
                .zip(&expected)
                .all(|(item, prompt)| item.prompt == *prompt)
        );
        assert_eq!(filled[11].id.as_deref(), Some("11"));
        assert_eq!(sampling(12, false).filled_up(items).len(), 7);
        assert!(sampling(5, true).filled_up(vec![]).is_empty());
    }

    #[test]
    fn lengths_at_the_edge() {
        assert!(is_usual_length(4, 4, false) && is_usual_length(1024, 1024, false) && is_usual_length(4, 1, true));
        assert!(!is_usual_length(3, 4, false) && !is_usual_length(1025, 4, false));
        assert!(!is_usual_length(1024, 1025, true) && !is_usual_length(4, 3, false));
    }
}
