//! The `random-rerank` dataset: one random query, and random documents to be ranked for it.

use super::random::{BATCH_SIZE, INPUT_LEN, Lengths, RANGE_RATIO, RangeRatio, ids_from};
use super::{Dataset, Draw, Item, Kind, Material, Prompt, Traits};
use crate::Backend;
use crate::params::ParamReader;
use vsweep_metrics::rng::NumpyPcg64;

pub(super) const KIND: Kind = Kind::of::<Rerank>("random-rerank", "random documents for one random query");

const NO_DOCUMENT: &str = "without a reranker the query is an input of its own; raise num_prompts and random_batch_size above 1, or remove \
                           no_reranker";

crate::params! {
    /// The `random-rerank` dataset.
    pub struct Rerank {
        /// Mean prompt tokens.
        input_len: u64 = INPUT_LEN,
        /// Spread of lengths around their mean, 0 to below 1.
        range_ratio: RangeRatio = RANGE_RATIO,
        /// Inputs per request, for embeddings and reranking.
        batch_size: usize = BATCH_SIZE,
        /// The model reads query and documents as separate inputs.
        no_reranker: bool = param("no_reranker"),
    }
}

impl Dataset for Rerank {
    fn traits(&self) -> Traits {
        Traits {
            made_of: Material::Vocabulary,
            least: 1 + usize::from(self.no_reranker),
            ..Traits::default()
        }
    }

    fn check(&self, backend: Backend, num_prompts: usize, reader: &mut ParamReader<'_>) {
        if backend != Backend::Rerank {
            reader.problem("dataset_name random-rerank needs a backend that ranks; set backend to vllm-rerank");
        }
        if self.no_reranker && num_prompts.min(self.batch_size) < 2 {
            reader.problem(NO_DOCUMENT);
        }
    }

    fn round_size(&self) -> Option<usize> {
        Some(2048)
    }

    fn prompts_a_request(&self) -> usize {
        // Without a reranker, the query is one of the inputs.
        self.batch_size.saturating_sub(usize::from(self.no_reranker)).max(1)
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        // A reranker reads the query, a separator and a document as one input. Otherwise the query is an input of its own.
        let is_reranker = !self.no_reranker;
        let separator = u64::from(is_reranker);
        let query_inputs = usize::from(!is_reranker);
        let (documents, batch) = (
            sampling.num_prompts.saturating_sub(query_inputs),
            self.batch_size.saturating_sub(query_inputs),
        );
        if documents == 0 || batch == 0 {
            return Err(NO_DOCUMENT.to_owned());
        }
        let allowed = vocabulary.allowed()?;
        let mut random = NumpyPcg64::new(sampling.seed);
        let mut lengths = |n: usize, input: u64| {
            let input = input.saturating_sub(vocabulary.added_specials());
            let size = vocabulary.ids().end.into();
            Lengths::draw(&mut random, n, input, 0, self.range_ratio, size)
        };
        let query_mean = match is_reranker {
            true => (self.input_len / 2).saturating_sub(separator),
            false => self.input_len,
        };
        let query = lengths(1, query_mean);
        let document_mean = match is_reranker {
            true => self.input_len.saturating_sub(query.input[0] + separator),
            false => self.input_len,
        };
        let drawn = lengths(documents, document_mean);
        if query.input[0] == 0 || drawn.input.contains(&0) {
            return Err(format!(
                "random_input_len {} leaves no token for the query or a document; raise it",
                self.input_len
            ));
        }
        let offset = |lengths: &Lengths, i: usize| lengths.offset[i] as usize;
        let mut lists = vec![ids_from(&allowed, offset(&query, 0), query.input[0]).collect()];
        lists.extend((0..documents).map(|i| ids_from(&allowed, offset(&drawn, i) + i + 1, drawn.input[i]).collect()));
        let mut pad = |ids| random.id(ids);
        let mut settled = vocabulary.settle_all(lists, &mut pad)?.into_iter();
        let (query, query_len) = settled.next().ok_or("no query was drawn")?;
        let settled: Vec<(Prompt, u64)> = settled.collect();
        let item = |(i, group): (usize, &[(Prompt, u64)])| {
            let documents = group.iter().map(|(document, _)| document.clone());
            let queries = match is_reranker {
                true => (query_len + separator) * group.len() as u64,
                false => query_len,
            };
            let prompt = Prompt::Batch(std::iter::once(query.clone()).chain(documents).collect());
            let length = queries + group.iter().map(|(_, length)| length).sum::<u64>();
            let mut item = Item::new(i, prompt, length, 0);
            item.sequences = Some(group.len() as u32);
            item
        };
        Ok(settled.chunks(batch).enumerate().map(item).collect())
    }
}
