//! A dataset's file gives prompts or a complaint that names it, never a run of nothing. The first byte says which dataset.

use crate::files::Folder;
use serde_json::{Map, Value};
use vsweep::dataset::{Draw, KINDS, Sampling, Vocabulary};
use vsweep::load::Backend;
use vsweep::params::ParamReader;

/// Datasets, and files that they read.
const FILES: [(&str, &str); 14] = [
    ("sharegpt", "talks.json"),
    ("sonnet", "poem.txt"),
    ("custom", "rows.jsonl"),
    ("custom", "rows.csv"),
    ("custom_image", "rows.jsonl"),
    ("custom_audio", "rows.jsonl"),
    ("spec_bench", "rows.jsonl"),
    ("speed_bench", "qualitative.jsonl"),
    ("burstgpt", "rows.csv"),
    ("timed_trace", "rows.jsonl"),
    ("hf", "rows.tsv"),
    ("hf", "rows.json"),
    ("hf", "rows.jsonl"),
    ("hf", "rows.parquet"),
];

pub fn check(data: &[u8]) {
    let Some((which, content)) = data.split_first() else {
        return;
    };
    let (name, file) = FILES[usize::from(*which) % FILES.len()];
    let folder = Folder::new();
    folder.write(file, content);
    let is_folder = name == "speed_bench";
    let path = folder.path(if is_folder { "" } else { file });
    let params = Map::from_iter([("dataset_path".to_owned(), Value::from(path.display().to_string()))]);
    let kind = KINDS
        .iter()
        .find(|kind| kind.name == name)
        .expect("a dataset of vsweep");
    let find = |name: &str| kind.all_params().find(|param| param.name == name);
    let mut reader = ParamReader::new(&params, find, |name| format!("{name} is unknown"));
    let dataset = (kind.read)(&mut reader);
    let sampling = Sampling {
        num_prompts: 5,
        seed: 1,
        shuffle: true,
        oversample: true,
    };
    let draw = Draw {
        // Sounds are sent by their path there.
        backend: Backend::Audio,
        ..Draw::of(sampling, &Vocabulary::Words)
    };
    match dataset.draw(&draw) {
        Ok(items) => assert!(!items.is_empty(), "{name} gave nothing"),
        Err(complaint) => assert!(complaint.contains(file), "{name} does not name its file: {complaint}"),
    }
}
