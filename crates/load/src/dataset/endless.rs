//! Draws requests for as long as they are wanted, for runs that are ended by time alone.
//!
//! Synthetic prompts are drawn in rounds, each with another seed. The rows of a file come in the order in which a run with a fixed number
//! of requests uses them. After the last row, they come again in the same order if rows may be used again (`oversample`).

use super::{Dataset, Draw, Item, Sampling};

/// Number of rows of a file in the first draw. Each later draw is twice as large.
const FIRST_ROWS: usize = 2048;
/// Maximum number of rows of a file that are used. All of them are kept in memory, because they may be used again.
const MOST_ROWS: usize = 1 << 16;
/// Difference between the seeds of two rounds. Users choose seeds that are close together, so a small difference could repeat the prompts
/// of another run.
const NEXT_SEED: u32 = 0x9e37_79b9;

/// A function that takes drawn requests. It returns false if it wants no more.
pub type Take<'a> = dyn FnMut(Vec<Item>) -> Result<bool, String> + 'a;

/// Draws requests until `take` wants no more. A file whose rows may not be used again ends with its last row. If `first` is set, the first
/// requests are those of a run with that number of requests; a file then gives only these.
pub fn draw_endlessly(
    dataset: &dyn Dataset,
    draw: &Draw<'_>,
    first: Option<usize>,
    take: &mut Take<'_>,
) -> Result<(), String> {
    let mut drawn = 0;
    let mut numbered = |mut items: Vec<Item>, offset: usize| {
        // The dataset numbers the requests of each round from 0, so those of later rounds get new ids.
        for (index, item) in items.iter_mut().enumerate().filter(|_| offset > 0) {
            item.id = item.id.as_ref().map(|_| (offset + index).to_string());
        }
        take(items)
    };
    let sampling = draw.sampling;
    let (mut first, mut seed) = (first, sampling.seed as u32);
    loop {
        let num_prompts = match (first.take(), dataset.round_size()) {
            (Some(first), _) => first,
            (None, Some(round)) => round,
            (None, None) if drawn == 0 => return draw_rows(dataset, draw, &mut numbered),
            (None, None) => return Ok(()),
        };
        let sampling = Sampling {
            num_prompts: num_prompts.max(dataset.traits().least),
            seed: seed.into(),
            ..sampling
        };
        let before = drawn;
        let mut is_enough = false;
        let round = dataset.draw_in_parts(&Draw { sampling, ..*draw }, &mut |items| {
            let offset = drawn;
            drawn += items.len();
            is_enough = !numbered(items, offset)?;
            // Only an error ends the draw early.
            if is_enough { Err(String::new()) } else { Ok(()) }
        });
        if is_enough {
            return Ok(());
        }
        round?;
        if drawn == before {
            return Ok(());
        }
        seed = seed.wrapping_add(NEXT_SEED);
    }
}

/// Draws the rows of a file, twice as many each time. The seed is always the same, so each draw begins with the rows of the previous one,
/// and only the rest is new.
fn draw_rows(
    dataset: &dyn Dataset,
    draw: &Draw<'_>,
    take: &mut dyn FnMut(Vec<Item>, usize) -> Result<bool, String>,
) -> Result<(), String> {
    let mut drawn = 0;
    let mut num_prompts = FIRST_ROWS;
    let all = loop {
        let sampling = Sampling {
            num_prompts,
            oversample: false,
            ..draw.sampling
        };
        let mut items = dataset.draw(&Draw { sampling, ..*draw })?;
        let is_used_up = items.len() < num_prompts;
        if is_used_up || num_prompts >= MOST_ROWS {
            if items.len() > drawn && !take(items[drawn..].to_vec(), drawn)? {
                return Ok(());
            }
            break items;
        }
        let new_items = items.split_off(drawn);
        if !take(new_items, drawn)? {
            return Ok(());
        }
        drawn = num_prompts;
        num_prompts *= 2;
    };
    if !draw.sampling.oversample || all.is_empty() {
        return Ok(());
    }
    let mut offset = all.len();
    loop {
        for rows in all.chunks(FIRST_ROWS) {
            if !take(rows.to_vec(), offset)? {
                return Ok(());
            }
            offset += rows.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Custom, KINDS, OutputLen, Random, RangeRatio, Vocabulary};
    use super::*;
    use crate::dataset::Prompt;

    fn sampling(oversample: bool) -> Sampling {
        Sampling {
            num_prompts: 0,
            seed: 7,
            shuffle: true,
            oversample,
        }
    }

    /// The first `count` requests of a dataset without end.
    fn first(dataset: &dyn Dataset, count: usize, round: Option<usize>, oversample: bool) -> Vec<Item> {
        let vocabulary = Vocabulary::Ids(100..9000);
        let mut all = vec![];
        draw_endlessly(
            dataset,
            &Draw::of(sampling(oversample), &vocabulary),
            round,
            &mut |items| {
                all.extend(items);
                Ok(all.len() < count)
            },
        )
        .expect("drawn");
        all.truncate(count);
        all
    }

    fn random() -> Random {
        Random {
            input_len: 12,
            output_len: 3,
            range_ratio: RangeRatio {
                input: 0.5,
                output: 0.0,
            },
            prefix_len: 0,
            batch_size: 1,
        }
    }

    #[test]
    fn the_first_round_equals_a_counted_run_and_the_next_is_new() {
        let all = first(&random(), 25, Some(10), true);
        let counted = Sampling {
            num_prompts: 10,
            ..sampling(true)
        };
        let counted = random().draw(&Draw::of(counted, &Vocabulary::Ids(100..9000)));
        assert_eq!(all[..10], counted.expect("drawn"));
        let prompts: std::collections::HashSet<String> =
            all.iter().map(|item| item.prompt.to_value().to_string()).collect();
        assert_eq!((all.len(), prompts.len()), (25, 25));
        let ids: Vec<_> = all.iter().filter_map(|item| item.id.clone()).collect();
        let wanted: Vec<String> = (0..25).map(|id| id.to_string()).collect();
        assert_eq!(ids, wanted);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let missing = Custom {
            path: "/nowhere/rows.jsonl".into(),
            output_len: OutputLen::Fixed(5),
        };
        for round in [None, Some(10)] {
            let draw = Draw::of(sampling(true), &Vocabulary::Words);
            let error = draw_endlessly(&missing, &draw, round, &mut |_| Ok(true)).expect_err("missing");
            assert!(error.contains("/nowhere/rows.jsonl"), "{error}");
        }
    }

    #[test]
    fn rows_come_again_once_all_were_used() {
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().expect("a file");
        let lines: String = (0..3000).map(|i| format!("{{\"prompt\": \"row {i}\"}}\n")).collect();
        std::fs::write(file.path(), lines).expect("written");
        let custom = Custom {
            path: file.path().to_owned(),
            output_len: OutputLen::Fixed(5),
        };
        let all = first(&custom, 7000, None, true);
        let text = |item: &Item| match &item.prompt {
            Prompt::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let texts: Vec<String> = all.iter().map(text).collect();
        assert_eq!(texts[..3000], texts[3000..6000]);
        let once: std::collections::HashSet<&String> = texts[..3000].iter().collect();
        assert_eq!(once.len(), 3000, "every row before any comes again");
        assert_eq!(all[6500].id.as_deref(), Some("6500"));
        assert_eq!(first(&custom, 7000, None, false).len(), 3000);
    }

    #[test]
    fn only_synthetic_datasets_have_rounds() {
        let none = serde_json::Map::new();
        let mut reader = crate::params::ParamReader::new(&none, |_| None, str::to_owned);
        let rounds = KINDS
            .iter()
            .filter(|kind| (kind.read)(&mut reader).round_size().is_some());
        let names: Vec<&str> = rounds.map(|kind| kind.name).collect();
        assert_eq!(names, ["random", "random-mm", "random-rerank", "prefix_repetition"]);
        assert!(
            KINDS
                .iter()
                .filter(|kind| names.contains(&kind.name))
                .all(|kind| !kind.has_file())
        );
    }

    #[test]
    fn a_million_requests_are_drawn_a_few_at_a_time() {
        let vocabulary = Vocabulary::Ids(100..9000);
        let (mut drawn, mut most) = (0, 0);
        draw_endlessly(&random(), &Draw::of(sampling(true), &vocabulary), None, &mut |items| {
            drawn += items.len();
            most = items.len().max(most);
            Ok(drawn < 1_000_000)
        })
        .expect("drawn");
        assert!(drawn >= 1_000_000 && most <= 2048, "{drawn} in parts of up to {most}");
    }
}
