//! Conversations of several turns, of random texts or of recorded ones. The settings are those of the Rust client of
//! vLLM; its draws are its own, so only their kind agrees.

use super::random::Random;
use super::{Item, Prompt, Sampling, ShareGpt, Vocabulary};
use std::ops::{Range, RangeInclusive};
use vsweep_metrics::rng::NumpyPcg64;

/// Seeds of what is drawn beside the first turns, so that these are the prompts of the dataset without conversations.
const TURNS_SEED: u64 = 0x7475_726e;
const LATER_SEED: u64 = 0x6c61_7465;

/// Settings of conversations.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversations {
    /// What is said.
    pub of: Talk,
    /// How many turns a conversation has; for recorded ones the least and the most that are used.
    pub turns: RangeInclusive<u64>,
}

/// What is said in conversations.
#[derive(Debug, Clone, PartialEq)]
pub enum Talk {
    /// Random texts.
    Random {
        /// The first turn of each.
        first: Random,
        /// Tokens of each later turn.
        later_input_len: u64,
        /// Parts that turns share. With them, every turn stands alone instead of repeating what was said.
        shares: Option<Shares>,
    },
    /// The questions of recorded conversations. Answers are the server's own, as long as the recorded ones.
    Recorded(ShareGpt),
}

/// Shares of a turn's tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Common to all turns of all conversations.
    pub all: f64,
    /// Common to the turns of one conversation.
    pub conversation: f64,
}

impl Conversations {
    /// Whether a turn repeats what was said before.
    pub fn has_history(&self) -> bool {
        !matches!(self.of, Talk::Random { shares: Some(_), .. })
    }

    /// Draws the turns of as many conversations as prompts are asked for, one conversation after the other.
    pub fn draw(&self, sampling: &Sampling, vocabulary: &Vocabulary<'_>) -> Result<Vec<Item>, String> {
        let mut conversations = match &self.of {
            Talk::Recorded(recorded) => recorded.converse(sampling, vocabulary, &self.turns)?,
            Talk::Random {
                first,
                later_input_len,
                shares,
            } => {
                let mut random = NumpyPcg64::new(sampling.seed ^ TURNS_SEED);
                let counts: Vec<u64> = (0..sampling.num_prompts)
                    .map(|_| random.integer(*self.turns.start(), self.turns.end() + 1))
                    .collect();
                match shares {
                    Some(shares) => shares.draw(first, &counts, sampling.seed, vocabulary)?,
                    None => with_later_turns(first, *later_input_len, &counts, sampling, vocabulary)?,
                }
            }
        };
        for turns in &mut conversations {
            let mut before = 0;
            for (turn, item) in (0..).zip(turns) {
                (item.turn, item.id) = (turn, None);
                if self.has_history() {
                    item.prompt_len += before;
                    before = item.prompt_len + item.output_len;
                }
            }
        }
        Ok(conversations.into_iter().flatten().collect())
    }
}

/// Prompts of the random dataset as first turns, and random texts of another length as later ones.
fn with_later_turns(
    first: &Random,
    later_input_len: u64,
    counts: &[u64],
    sampling: &Sampling,
    vocabulary: &Vocabulary<'_>,
) -> Result<Vec<Vec<Item>>, String> {
    let later = Random {
        input_len: later_input_len,
        prefix_len: 0,
        ..first.clone()
    };
    let more = Sampling {
        num_prompts: counts.iter().map(|count| *count as usize - 1).sum(),
        seed: sampling.seed ^ LATER_SEED,
        ..*sampling
    };
    let mut later = later.draw(&more, vocabulary)?.into_iter();
    let firsts = first.draw(sampling, vocabulary)?.into_iter().zip(counts);
    let conversation = |(first, count): (Item, &u64)| {
        let rest = later.by_ref().take(*count as usize - 1);
        std::iter::once(first).chain(rest).collect()
    };
    Ok(firsts.map(conversation).collect())
}

impl Shares {
    /// Turns of equal length: what all share, what the conversation shares, and tokens of their own.
    fn draw(
        &self,
        length: &Random,
        counts: &[u64],
        seed: u64,
        vocabulary: &Vocabulary<'_>,
    ) -> Result<Vec<Vec<Item>>, String> {
        let tokens = length.input_len.saturating_sub(vocabulary.added_specials()).max(1);
        let part = |share: f64| (tokens as f64 * share).floor() as u64;
        let (of_all, of_one) = (part(self.all), part(self.conversation));
        let own = tokens.saturating_sub(of_all + of_one);
        let allowed = vocabulary.allowed()?;
        let mut random = NumpyPcg64::new(seed);
        let draw = |count: u64, random: &mut NumpyPcg64| -> Vec<u32> {
            let one = |_| allowed[random.integer(0, allowed.len() as u64) as usize];
            (0..count).map(one).collect()
        };
        let all = draw(of_all, &mut random);
        let mut conversations = Vec::with_capacity(counts.len());
        for count in counts {
            let shared = [all.as_slice(), &draw(of_one, &mut random)].concat();
            let mut turns = Vec::with_capacity(*count as usize);
            for _ in 0..*count {
                let ids = [shared.as_slice(), &draw(own, &mut random)].concat();
                let mut pad = |ids: Range<u32>| random.integer(ids.start.into(), ids.end.into()) as u32;
                let (prompt, ids): (Prompt, Vec<u32>) = vocabulary.settle(ids, &mut pad)?;
                turns.push(Item::new(0, prompt, ids.len() as u64, length.output_len));
            }
            conversations.push(turns);
        }
        Ok(conversations)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RangeRatio;
    use super::*;
    use proptest::prelude::*;

    fn drawn(turns: RangeInclusive<u64>, shares: Option<Shares>, num_prompts: usize) -> Vec<Item> {
        let conversations = Conversations {
            of: Talk::Random {
                first: Random {
                    input_len: 20,
                    output_len: 5,
                    range_ratio: RangeRatio::default(),
                    prefix_len: 0,
                    batch_size: 1,
                },
                later_input_len: 7,
                shares,
            },
            turns,
        };
        let sampling = Sampling {
            num_prompts,
            seed: 1,
            shuffle: true,
            oversample: true,
        };
        conversations.draw(&sampling, &Vocabulary::Ids(10..500)).expect("drawn")
    }

    proptest! {
        #[test]
        fn conversations_have_as_many_turns_as_asked_for(least in 1u64..4, more in 0u64..3, n in 1usize..12) {
            let items = drawn(least..=least + more, None, n);
            let starts: Vec<usize> = (0..items.len()).filter(|i| items[*i].turn == 0).collect();
            prop_assert_eq!(starts.len(), n);
            let ends = starts[1..].iter().copied().chain([items.len()]);
            for (start, end) in starts.iter().zip(ends) {
                prop_assert!((least..=least + more).contains(&((end - start) as u64)));
                for (turn, item) in (0u64..).zip(&items[*start..end]) {
                    prop_assert_eq!(u64::from(item.turn), turn);
                    prop_assert_eq!(item.prompt_len, 20 + turn * (5 + 7));
                }
            }
        }
    }

    #[test]
    fn shared_parts_are_shared_and_nothing_else() {
        let items = drawn(
            2..=2,
            Some(Shares {
                all: 0.3,
                conversation: 0.25,
            }),
            2,
        );
        let ids = |i: usize| match &items[i].prompt {
            Prompt::Ids(ids) => ids.clone(),
            other => panic!("{other:?}"),
        };
        assert!(items.iter().all(|item| item.prompt_len == 20));
        assert!((1..4).all(|i| ids(i)[..6] == ids(0)[..6]));
        assert!(ids(0)[..11] == ids(1)[..11] && ids(2)[..11] == ids(3)[..11]);
        assert!(ids(0)[6..11] != ids(2)[6..11] && ids(0)[11..] != ids(1)[11..]);
    }
}
