//! Conversations of several turns, with random or recorded texts. The settings are those of vLLM's Rust client. That client has another
//! random generator, so its texts are of the same kind as these, but not equal.

use super::random::Random;
use super::{Dataset, Draw, Item, Kind, Material, Prompt, Sampling, ShareGpt, Traits};
use crate::Backend;
use crate::params::{Bounds, ParamReader};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use vsweep_metrics::rng::NumpyPcg64;

/// Combined with the seed to draw the numbers of turns of random conversations. The seed itself draws their first turns, which equal the
/// prompts of the dataset `random` unless turns share parts.
const TURNS_SEED: u64 = 0x7475_726e;
/// Combined with the seed to draw the later turns.
const LATER_SEED: u64 = 0x6c61_7465;

crate::params! {
    /// Conversations instead of single questions.
    pub struct TurnParams {
        /// Hold conversations: num_prompts of them, from random or sharegpt, each turn after the answer to the one before.
        is_wanted: bool = param("multi_turn"),
        /// Turns of a random conversation.
        count: u64 = param("multi_turn_num_turns").least(1).default("3"),
        /// Fewest turns.
        least: Option<u64> = param("multi_turn_min_turns").otherwise("multi_turn_num_turns; 2 for sharegpt"),
        /// Most turns.
        most: Option<u64> = param("multi_turn_max_turns").otherwise("multi_turn_num_turns; all for sharegpt"),
        /// Most conversations at once.
        concurrency: Option<usize> = param("multi_turn_concurrency").least(1).otherwise("max_concurrency"),
        /// Pause between an answer and the next turn.
        delay_ms: f64 = param("multi_turn_delay_ms")
            .within("a number of milliseconds of at least 0", |ms| (0.0..1e10).contains(&ms))
            .default("0"),
        /// Share of a turn that all turns have in common; turns then stand alone.
        shared_by_all: f64 = param("multi_turn_prefix_global_ratio").bounded(SHARE).default("0"),
        /// Share of a turn that its conversation has in common; turns then stand alone.
        shared_by_one: f64 = param("multi_turn_prefix_conversation_ratio").bounded(SHARE).default("0"),
        /// Tokens of each turn after the first.
        later_input_len: Option<u64> = param("per_turn_input_len").otherwise("random_input_len"),
    }
}

const SHARE: Bounds = ("a share of at least 0 and below 1", |share| (0.0..1.0).contains(&share));

/// Conversations of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversations {
    /// Source of the texts.
    pub of: ConversationSource,
    /// Fewest and most turns of a conversation. Random conversations draw a number in this range. Recorded ones with fewer turns are left
    /// out; of longer ones, only the first turns are used.
    pub turns: RangeInclusive<u64>,
}

/// Source of the texts of conversations.
#[derive(Debug, Clone, PartialEq)]
pub enum ConversationSource {
    /// Random texts.
    Random {
        /// The first turn of each conversation.
        first: Random,
        /// Tokens of each later turn.
        later_input_len: u64,
        /// Parts that turns share. With them, every turn is independent instead of repeating the earlier ones.
        shares: Option<Shares>,
    },
    /// The questions of recorded conversations. The server answers them itself, with answers as long as the recorded ones.
    Recorded(ShareGpt),
}

/// Shares of a turn's tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Share that is common to all turns of all conversations.
    pub all: f64,
    /// Share that is common to the turns of one conversation.
    pub conversation: f64,
}

impl TurnParams {
    /// Time from an answer to the next turn of its conversation.
    pub fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.delay_ms / 1000.0)
    }

    /// Reads the dataset of this kind: as conversations, if they are wanted.
    pub(super) fn dataset(&self, kind: &Kind, reader: &mut ParamReader<'_>) -> Arc<dyn Dataset> {
        if !self.is_wanted {
            let names = TurnParams::PARAMS.iter().map(|param| param.name);
            let idle: Vec<&str> = names.filter(|name| reader.has(name) && *name != "multi_turn").collect();
            for name in idle {
                reader.problem(format!(
                    "{name} has no meaning without multi_turn; set that, or remove it"
                ));
            }
            return (kind.read)(reader);
        }
        let shares = self.shares(reader);
        // 0 means unset, as in the Rust client.
        let given = |count: Option<u64>| count.filter(|count| *count > 0);
        let (of, least, most) = match kind.name {
            "random" => {
                let first = Random::read(reader);
                let later_input_len = given(self.later_input_len).unwrap_or(first.input_len);
                let of = ConversationSource::Random {
                    first,
                    later_input_len,
                    shares,
                };
                (of, self.count, self.count)
            }
            "sharegpt" if shares.is_none() => (ConversationSource::Recorded(ShareGpt::read(reader)), 2, u64::MAX),
            _ => {
                reader.problem("multi_turn takes dataset_name random, or sharegpt without shared prefixes; change it");
                return (kind.read)(reader);
            }
        };
        let least = given(self.least).unwrap_or(least);
        let most = given(self.most).unwrap_or(most.max(least));
        if least > most {
            match given(self.least) {
                Some(_) => {
                    let wants = format!("at most multi_turn_max_turns or multi_turn_num_turns ({most})");
                    reader.wrong("multi_turn_min_turns", &wants);
                }
                None => reader.wrong(
                    "multi_turn_max_turns",
                    &format!("at least {least}, unless multi_turn_min_turns is lower"),
                ),
            }
        }
        let turns = least..=most;
        Arc::new(Conversations { of, turns })
    }

    fn shares(&self, reader: &mut ParamReader<'_>) -> Option<Shares> {
        let (all, conversation) = (self.shared_by_all, self.shared_by_one);
        if all + conversation >= 1.0 {
            reader.problem(
                "multi_turn_prefix_global_ratio and multi_turn_prefix_conversation_ratio leave nothing for a turn's own \
                 text; lower one",
            );
        }
        (all + conversation > 0.0).then_some(Shares { all, conversation })
    }
}

impl Conversations {
    /// Returns true if a turn repeats the earlier ones.
    fn has_history(&self) -> bool {
        !matches!(self.of, ConversationSource::Random { shares: Some(_), .. })
    }
}

impl Dataset for Conversations {
    fn traits(&self) -> Traits {
        let is_recorded = matches!(self.of, ConversationSource::Recorded(_));
        Traits {
            made_of: match is_recorded {
                true => Material::Text,
                false => Material::Vocabulary,
            },
            depends_on_counts: is_recorded,
            has_turns: true,
            has_history: self.has_history(),
            // Turns repeat the earlier ones, or share parts, so all of a prompt may be in the prefix cache.
            shared_share: 1.0,
            ..Traits::default()
        }
    }

    fn check(&self, backend: Backend, num_prompts: usize, reader: &mut ParamReader<'_>) {
        if backend != Backend::Chat {
            reader.problem("multi_turn repeats what was said in a chat; set backend to openai-chat");
        }
        match &self.of {
            ConversationSource::Random { first, .. } => first.check(backend, num_prompts, reader),
            ConversationSource::Recorded(recorded) => recorded.check(backend, num_prompts, reader),
        }
    }

    /// Draws `num_prompts` conversations, and returns their turns, one conversation after the other.
    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let sampling = draw.sampling;
        let mut conversations = match &self.of {
            ConversationSource::Recorded(recorded) => recorded.converse(draw, &self.turns)?,
            ConversationSource::Random {
                first,
                later_input_len,
                shares,
            } => {
                let mut random = NumpyPcg64::new(sampling.seed ^ TURNS_SEED);
                let counts: Vec<u64> = (0..sampling.num_prompts)
                    .map(|_| random.integer(*self.turns.start(), self.turns.end() + 1))
                    .collect();
                match shares {
                    Some(shares) => shares.draw(first, &counts, draw)?,
                    None => with_later_turns(first, *later_input_len, &counts, draw)?,
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
    draw: &Draw<'_>,
) -> Result<Vec<Vec<Item>>, String> {
    let later = Random {
        input_len: later_input_len,
        prefix_len: 0,
        ..first.clone()
    };
    let more = Sampling {
        num_prompts: counts.iter().map(|count| *count as usize - 1).sum(),
        seed: draw.sampling.seed ^ LATER_SEED,
        ..draw.sampling
    };
    let mut later = later
        .draw(&Draw {
            sampling: more,
            ..*draw
        })?
        .into_iter();
    let firsts = first.draw(draw)?.into_iter().zip(counts);
    let conversation = |(first, count): (Item, &u64)| {
        let rest = later.by_ref().take(*count as usize - 1);
        std::iter::once(first).chain(rest).collect()
    };
    Ok(firsts.map(conversation).collect())
}

impl Shares {
    /// Draws turns of equal length. Each begins with the tokens that all turns share, then has those that its conversation shares, then its
    /// own.
    fn draw(&self, length: &Random, counts: &[u64], draw: &Draw<'_>) -> Result<Vec<Vec<Item>>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let tokens = length.input_len.saturating_sub(vocabulary.added_specials()).max(1);
        let part = |share: f64| (tokens as f64 * share).floor() as u64;
        let (of_all, of_one) = (part(self.all), part(self.conversation));
        let own = tokens.saturating_sub(of_all + of_one);
        let allowed = vocabulary.allowed()?;
        let mut random = NumpyPcg64::new(sampling.seed);
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
                let mut pad = |ids| random.id(ids);
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
    use super::super::{RangeRatio, Vocabulary};
    use super::*;
    use proptest::prelude::*;

    fn drawn(turns: RangeInclusive<u64>, shares: Option<Shares>, num_prompts: usize) -> Vec<Item> {
        let conversations = Conversations {
            of: ConversationSource::Random {
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
        conversations
            .draw(&Draw::of(sampling, &Vocabulary::Ids(10..500)))
            .expect("drawn")
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
