//! What to ask: one file a dataset, each of which draws the prompts of `vllm bench serve` for a seed.
//!
//! Returns prompts and lengths as data; turning them into requests of an API is the `load` room's work, and when they are
//! due is decided there too, except for traces that bring their own times.

mod burstgpt;
mod byte_level;
mod cache;
mod chat_template;
mod conversations;
mod custom;
mod custom_media;
mod cut;
mod hf;
mod hub;
mod lengths;
mod media;
mod parquet;
mod prefix_repetition;
mod prompt;
mod random;
mod random_mm;
mod rerank;
mod round_trip;
mod rows;
mod sampling;
mod sharegpt;
mod sonnet;
mod spec_bench;
mod special_tokens;
mod speed_bench;
mod split;
mod timed_trace;
mod tokenizer;
mod vocabulary;

pub use burstgpt::BurstGpt;
pub use chat_template::ChatTemplate;
pub use conversations::{Conversations, Shares, Talk};
pub use custom::Custom;
pub use custom_media::{CustomAudio, CustomImage};
pub use hf::HuggingFace;
pub use lengths::RangeRatio;
pub use prefix_repetition::PrefixRepetition;
pub use prompt::{Item, Prompt, PromptSource};
pub use random::Random;
pub use random_mm::{Bucket, RandomMm};
pub use rerank::Rerank;
pub use sampling::Sampling;
pub use sharegpt::ShareGpt;
pub use sonnet::Sonnet;
pub use spec_bench::SpecBench;
pub use speed_bench::SpeedBench;
pub use timed_trace::{TimedTrace, sort_by_time};
pub use tokenizer::Tokenizer;
pub use vocabulary::{COMMON_WORDS, Count, ServerTokenizer, Vocabulary};

/// A dataset with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Dataset {
    /// Random prompts of given lengths.
    Random(Random),
    /// Random prompts with random images.
    RandomMm(RandomMm),
    /// Random queries and documents.
    Rerank(Rerank),
    /// Random suffixes to a few random prefixes.
    PrefixRepetition(PrefixRepetition),
    /// First questions of recorded conversations.
    ShareGpt(ShareGpt),
    /// Prompts from a file.
    Custom(Custom),
    /// Texts and pictures from a file.
    CustomImage(CustomImage),
    /// Sounds from files.
    CustomAudio(CustomAudio),
    /// Messages of SPEED-Bench.
    SpeedBench(SpeedBench),
    /// Questions of Spec-Bench.
    SpecBench(SpecBench),
    /// Lengths of recorded traffic.
    BurstGpt(BurstGpt),
    /// Recorded traffic with its times.
    TimedTrace(TimedTrace),
    /// Lines of a poem.
    Sonnet(Sonnet),
    /// A data set in the form of the Hugging Face Hub.
    HuggingFace(HuggingFace),
    /// Conversations of several turns.
    Conversations(Conversations),
}

impl Dataset {
    /// Draws the requests. Texts from files are put into the chat template, if one is given.
    pub fn draw(
        &self,
        sampling: &Sampling,
        vocabulary: &Vocabulary<'_>,
        template: Option<&ChatTemplate>,
    ) -> Result<Vec<Item>, String> {
        match self {
            Dataset::Random(random) => random.draw(sampling, vocabulary),
            Dataset::RandomMm(random) => random.draw(sampling, vocabulary),
            Dataset::Rerank(rerank) => rerank.draw(sampling, vocabulary),
            Dataset::PrefixRepetition(repetition) => repetition.draw(sampling, vocabulary),
            Dataset::ShareGpt(sharegpt) => sharegpt.draw(sampling, vocabulary),
            Dataset::Custom(custom) => custom.draw(sampling, vocabulary, template),
            Dataset::CustomImage(images) => images.draw(sampling, vocabulary),
            Dataset::CustomAudio(sounds) => sounds.draw(sampling, vocabulary),
            Dataset::SpeedBench(speed_bench) => speed_bench.draw(sampling, vocabulary, template),
            Dataset::SpecBench(spec_bench) => spec_bench.draw(sampling, vocabulary, template),
            Dataset::BurstGpt(burstgpt) => burstgpt.draw(sampling, vocabulary),
            Dataset::TimedTrace(trace) => trace.draw(sampling, vocabulary),
            Dataset::Sonnet(sonnet) => sonnet.draw(sampling, vocabulary, template),
            Dataset::HuggingFace(rows) => rows.draw(sampling, vocabulary, template),
            Dataset::Conversations(conversations) => conversations.draw(sampling, vocabulary),
        }
    }

    /// The same in parts, where the requests can be drawn so: not all of them have to be kept then.
    pub fn draw_in_parts(
        &self,
        sampling: &Sampling,
        vocabulary: &Vocabulary<'_>,
        template: Option<&ChatTemplate>,
        take: &mut dyn FnMut(Vec<Item>) -> Result<(), String>,
    ) -> Result<(), String> {
        match self {
            Dataset::Random(random) => random.draw_in_parts(sampling, vocabulary, take),
            _ => take(self.draw(sampling, vocabulary, template)?),
        }
    }

    /// Lengths of prompt and output of each request, in tokens, for datasets that need no prompts to know them; those of
    /// [`Dataset::draw`] with a vocabulary of so many ids.
    pub fn lengths(&self, sampling: &Sampling, vocabulary: u64) -> Option<Vec<(u64, u64)>> {
        match self {
            Dataset::Random(random) if random.batch_size <= 1 => Some(random.lengths(sampling, vocabulary)),
            Dataset::PrefixRepetition(repetition) => Some(repetition.lengths(sampling)),
            _ => None,
        }
    }

    /// Whether its prompts are made of the vocabulary.
    pub fn is_synthetic(&self) -> bool {
        self.source(&Vocabulary::Words, None) == PromptSource::Words
    }

    /// Whether what it draws depends on how many tokens its texts have.
    pub fn depends_on_counts(&self) -> bool {
        match self {
            Dataset::ShareGpt(_) | Dataset::Sonnet(_) | Dataset::HuggingFace(_) => true,
            Dataset::Conversations(conversations) => matches!(conversations.of, Talk::Recorded(_)),
            _ => false,
        }
    }

    /// Whether its texts are put into the model's chat template where the API does not do that itself.
    pub fn wants_template(&self) -> bool {
        matches!(
            self,
            Dataset::Custom(_)
                | Dataset::SpecBench(_)
                | Dataset::SpeedBench(_)
                | Dataset::Sonnet(_)
                | Dataset::HuggingFace(_)
        )
    }

    /// Whether the lengths of its outputs are meant to be kept, even if the model would stop earlier.
    pub fn fixes_outputs(&self) -> bool {
        matches!(self, Dataset::Random(_) | Dataset::RandomMm(_) | Dataset::TimedTrace(_))
    }

    /// Fewest requests that it can draw.
    pub fn least(&self) -> usize {
        match self {
            Dataset::PrefixRepetition(repetition) => repetition.num_prefixes,
            Dataset::Rerank(_) => 2,
            _ => 1,
        }
    }

    /// The share of prompt tokens that all prompts have in common by design.
    pub fn shared_share(&self) -> f64 {
        let (shared, own) = match self {
            Dataset::Random(random) => (random.prefix_len, random.input_len),
            Dataset::PrefixRepetition(repetition) => (repetition.prefix_len, repetition.suffix_len),
            // Every turn repeats the ones before it.
            Dataset::Conversations(_) => (1, 0),
            Dataset::Sonnet(sonnet) => (sonnet.prefix_len, sonnet.input_len.saturating_sub(sonnet.prefix_len)),
            _ => (0, 1),
        };
        shared as f64 / (shared + own).max(1) as f64
    }

    /// Whether it says itself when requests are due.
    pub fn is_timed(&self) -> bool {
        matches!(self, Dataset::TimedTrace(_))
    }

    /// How the result file says where prompts come from.
    pub fn source(&self, vocabulary: &Vocabulary<'_>, template: Option<&ChatTemplate>) -> PromptSource {
        match self {
            Dataset::Random(_)
            | Dataset::RandomMm(_)
            | Dataset::Rerank(_)
            | Dataset::PrefixRepetition(_)
            | Dataset::BurstGpt(_) => vocabulary.source(),
            Dataset::TimedTrace(_) => PromptSource::TokenIds,
            Dataset::ShareGpt(_) | Dataset::CustomImage(_) | Dataset::CustomAudio(_) => PromptSource::Text,
            Dataset::Conversations(conversations) => match conversations.of {
                Talk::Recorded(_) => PromptSource::Text,
                Talk::Random { .. } => vocabulary.source(),
            },
            Dataset::Custom(_)
            | Dataset::SpecBench(_)
            | Dataset::SpeedBench(_)
            | Dataset::Sonnet(_)
            | Dataset::HuggingFace(_) => match template {
                Some(_) => PromptSource::Template,
                None => PromptSource::Text,
            },
        }
    }
}
