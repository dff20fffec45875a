//! The `sonnet` dataset: prompts that ask to choose from lines of a poem. The first of these lines are the same in all prompts.

use super::kind::{PATH, share};
use super::{Dataset, Draw, Item, Kind, Prompt, Traits};
use std::io;
use std::path::PathBuf;
use vsweep_base::files::open_named_file;
use vsweep_metrics::rng::PythonRandom;

const INSTRUCTION: &str = "Pick as many lines as you can from these poem lines:\n";
/// Largest number of tries in a row for a prompt that is not too long. If none succeeds, the lengths of the lines are too uneven.
const MOST_TRIES: usize = 1000;

pub(super) const KIND: Kind = Kind::of::<Sonnet>("sonnet", "lines of a poem to choose from");

crate::params! {
    /// The `sonnet` dataset.
    pub struct Sonnet {
        /// A text file, one line of a poem per line.
        path: PathBuf = PATH,
        /// Most prompt tokens; prompts are about this long.
        input_len: u64 = param("sonnet_input_len").or("input_len").default("550"),
        /// Tokens that all prompts share, about.
        prefix_len: u64 = param("sonnet_prefix_len").default("200"),
        /// Output tokens.
        output_len: u64 = param("sonnet_output_len").or("output_len").least(1).default("150"),
    }
}

impl Dataset for Sonnet {
    fn traits(&self) -> Traits {
        Traits {
            wants_template: true,
            depends_on_counts: true,
            shared_share: share(self.prefix_len, self.input_len.saturating_sub(self.prefix_len)),
            ..Traits::default()
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let (sampling, vocabulary, template) = (draw.sampling, draw.vocabulary, draw.template);
        let file = self.path.display();
        let text = open_named_file(&self.path)
            .and_then(io::read_to_string)
            .map_err(|error| format!("cannot read the poem {file}: {error}; check dataset_path"))?;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        if lines.is_empty() {
            return Err(format!("{file} holds no lines; give a text file"));
        }
        let framed = |text: &str| match template {
            Some(template) => template.user_turn(text),
            None => Ok(text.to_owned()),
        };
        let lengths: Result<Vec<u64>, String> = lines.iter().map(|line| vocabulary.count(line)).collect();
        let average = lengths?.iter().sum::<u64>() as f64 / lines.len() as f64;
        let base = vocabulary.count(&framed(INSTRUCTION)?)?;
        if self.input_len <= base {
            return Err(format!(
                "sonnet_input_len {} leaves no room next to the instruction of {base} tokens; raise it",
                self.input_len
            ));
        }
        // Python rounds halves to even.
        let lines_in = |tokens: u64| ((tokens as f64 - base as f64) / average).round_ties_even().max(0.0) as usize;
        let shared = lines_in(self.prefix_len).min(lines.len());
        let drawn = lines_in(self.input_len).saturating_sub(lines_in(self.prefix_len));
        let prefix = lines[..shared].concat();
        let mut random = PythonRandom::new(sampling.seed);
        let mut items = Vec::with_capacity(sampling.num_prompts);
        let mut tries = 0;
        while items.len() < sampling.num_prompts {
            let extra: String = (0..drawn).map(|_| lines[random.choices_index(lines.len())]).collect();
            let prompt = framed(&format!("{INSTRUCTION}{prefix}{extra}"))?;
            let length = vocabulary.count(&prompt)?;
            if length <= self.input_len {
                items.push(Item::new(items.len(), Prompt::Text(prompt), length, self.output_len));
                tries = 0;
            } else {
                tries += 1;
            }
            if tries == MOST_TRIES {
                return Err(format!(
                    "no choice of lines from {file} stays within sonnet_input_len {}; lower sonnet_prefix_len, or give \
                     a file with lines of even length",
                    self.input_len
                ));
            }
        }
        Ok(items)
    }
}
