//! The `burstgpt` dataset: prompt and answer lengths of recorded GPT-4 traffic, with synthetic prompts of those lengths.

use super::kind::PATH;
use super::source::rows::{self, DataRow};
use super::{Dataset, Draw, Item, Kind, Material, Traits};
use std::path::PathBuf;
use vsweep_metrics::rng::NumpyLegacy;

pub(super) const KIND: Kind = Kind::of::<BurstGpt>(
    "burstgpt",
    "synthetic prompts with the lengths of recorded GPT-4 traffic",
);

crate::params! {
    /// The `burstgpt` dataset.
    pub struct BurstGpt {
        /// A CSV file with the columns of BurstGPT: `Model`, `Request tokens` and `Response tokens`.
        path: PathBuf = PATH,
    }
}

impl Dataset for BurstGpt {
    fn traits(&self) -> Traits {
        Traits {
            made_of: Material::Vocabulary,
            // The tokens of a prompt follow from its position alone.
            ignores_seed: true,
            ..Traits::default()
        }
    }

    /// Draws from the rows of GPT-4 with an answer. Rows repeat only if there are too few of them and `oversample` is set.
    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let rows = rows::read(&self.path)?;
        let mut usable: Vec<(&DataRow, u64)> = Vec::new();
        for row in &rows {
            if row.text("Model")? == "GPT-4" {
                let answer = row.count("Response tokens")?;
                usable.extend((answer > 0).then_some((row, answer)));
            }
        }
        let Ok(available @ 1..) = u32::try_from(usable.len()) else {
            let file = self.path.display();
            return Err(format!(
                "{file} has no row of Model \"GPT-4\" with Response tokens; give a BurstGPT file"
            ));
        };
        // A seed is checked to fit in 32 bits where it is read.
        let mut random = NumpyLegacy::new(sampling.seed as u32);
        let chosen: Vec<u32> = if sampling.num_prompts <= usable.len() || !sampling.oversample {
            random.permutation(available)
        } else {
            (0..sampling.num_prompts).map(|_| random.below(available)).collect()
        };
        let ids = vocabulary.ids();
        let chosen = chosen.into_iter().take(sampling.num_prompts).enumerate();
        chosen
            .map(|(i, row)| {
                let (row, answer) = usable[row as usize];
                let length = row.count("Request tokens")?;
                if length > LONGEST {
                    return Err(row.wrong("more than 10 million Request tokens; correct or remove the line"));
                }
                let id = |k: u64| ids.start + ((i as u64 + k) % u64::from(ids.end - ids.start)) as u32;
                let prompt = vocabulary.render((0..length).map(id).collect())?;
                Ok(Item::new(i, prompt, length, answer))
            })
            .collect()
    }
}

/// Largest number of tokens of a prompt. A longer one is a mistake in the file.
const LONGEST: u64 = 10_000_000;
