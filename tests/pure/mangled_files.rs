//! Damaged files: any content of a dataset or a tokenizer gives prompts or an error, never a panic and never an empty run.

use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vsweep::bench::read_results;
use vsweep::dataset::{
    BurstGpt, ChatTemplate, ConversationSource, Conversations, Custom, CustomAudio, CustomImage, Dataset, Draw,
    HuggingFace, OutputLen, Random, RangeRatio, Sampling, ShareGpt, Sonnet, SpecBench, SpeedBench, Subset, TimedTrace,
    Tokenizer, Vocabulary,
};
use vsweep::load::Backend;
use vsweep::table::{RunFigures, read_scalars};

/// A change to the bytes of a file.
#[derive(Debug, Clone)]
enum Fault {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Cut(prop::sample::Index),
    Repeat(prop::sample::Index, usize),
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let at = any::<prop::sample::Index>;
    let piece = prop::sample::select(vec![
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\n",
        "-1",
        "1e999",
        "null",
        "\\u0000",
        "\u{1f600}",
    ]);
    let fault = prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Fault::Replace(at, byte)),
        (at(), piece).prop_map(|(at, piece)| Fault::Insert(at, piece.as_bytes().to_vec())),
        (at(), 1usize..20).prop_map(|(at, count)| Fault::Remove(at, count)),
        at().prop_map(Fault::Cut),
        (at(), 1usize..40).prop_map(|(at, count)| Fault::Repeat(at, count)),
    ];
    prop::collection::vec(fault, 1..5)
}

fn mangle(bytes: &[u8], faults: &[Fault]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for fault in faults {
        let length = bytes.len();
        if length == 0 {
            break;
        }
        match fault {
            Fault::Replace(at, byte) => bytes[at.index(length)] = *byte,
            Fault::Insert(at, piece) => drop(bytes.splice(at.index(length)..at.index(length), piece.iter().copied())),
            Fault::Remove(at, count) => drop(bytes.drain(at.index(length)..(at.index(length) + count).min(length))),
            Fault::Cut(at) => bytes.truncate(at.index(length)),
            Fault::Repeat(at, count) => {
                let at = at.index(length);
                let piece = bytes[at..(at + count).min(length)].to_vec();
                drop(bytes.splice(at..at, piece));
            }
        }
    }
    bytes
}

fn lines(rows: &[Value]) -> Vec<u8> {
    rows.iter()
        .map(|row| format!("{row}\n"))
        .collect::<String>()
        .into_bytes()
}

fn talk() -> Value {
    let turns = [
        "what is the time of the day",
        "it is late in the evening now",
        "why is that so",
        "nobody knows",
    ];
    json!({"conversations": turns.map(|text| json!({"from": "human", "value": text}))})
}

const PARQUET: &[u8] = include_bytes!("../data/datasets/rows.parquet");

/// Every dataset that reads files, with the path and the content of a good file.
fn datasets(folder: &Path) -> Vec<(Arc<dyn Dataset>, PathBuf, Vec<u8>)> {
    let path = |name: &str| folder.join(name);
    let talks = || serde_json::to_vec(&json!([talk(), talk()])).expect("JSON");
    let sharegpt = |name: &str| ShareGpt {
        path: path(name),
        output_len: None,
    };
    let hf = |name: &str| -> Arc<dyn Dataset> {
        Arc::new(HuggingFace {
            path: path(name).display().to_string(),
            subset: None,
            split: None,
            text_column: None,
            output_len: None,
        })
    };
    vec![
        (Arc::new(sharegpt("s.json")), path("s.json"), talks()),
        (
            Arc::new(Conversations {
                of: ConversationSource::Recorded(sharegpt("t.json")),
                turns: 2..=9,
            }),
            path("t.json"),
            talks(),
        ),
        (
            Arc::new(Custom {
                path: path("c.jsonl"),
                output_len: OutputLen::Column,
            }),
            path("c.jsonl"),
            lines(&[
                json!({"prompt": "hello there", "output_tokens": 5}),
                json!({"prompt": "bye", "output_tokens": "7"}),
            ]),
        ),
        (
            Arc::new(Custom {
                path: path("c.csv"),
                output_len: OutputLen::Column,
            }),
            path("c.csv"),
            b"prompt,output_tokens\n\"hello, there\",5\nbye,7\n".to_vec(),
        ),
        (
            Arc::new(CustomImage {
                path: path("i.jsonl"),
                output_len: OutputLen::Fixed(3),
                as_data: false,
            }),
            path("i.jsonl"),
            lines(&[
                json!({"prompt": "what", "image_files": ["a.png"]}),
                json!({"content": [{"type": "text", "text": "x"}, {"type": "image", "image": "b.png"}]}),
            ]),
        ),
        (
            Arc::new(CustomAudio {
                path: path("a.jsonl"),
                output_len: OutputLen::Fixed(3),
                in_messages: false,
            }),
            path("a.jsonl"),
            lines(&[json!({"audio": "x.wav", "prompt": "say"})]),
        ),
        (
            Arc::new(SpecBench {
                path: path("q.jsonl"),
                category: None,
                output_len: 4,
            }),
            path("q.jsonl"),
            lines(&[json!({"turns": ["one", "two"], "category": "qa"})]),
        ),
        (
            Arc::new(SpeedBench {
                folder: folder.to_path_buf(),
                subset: Subset::Qualitative,
                category: None,
                output_len: 4,
            }),
            path("qualitative.jsonl"),
            lines(&[json!({"messages": [{"content": "one"}], "category": "qa"})]),
        ),
        (
            Arc::new(BurstGpt { path: path("b.csv") }),
            path("b.csv"),
            b"Timestamp,Model,Request tokens,Response tokens,Total tokens\n1,GPT-4,7,3,10\n2,GPT-4,9,4,13\n".to_vec(),
        ),
        (
            Arc::new(TimedTrace {
                path: path("t.jsonl"),
                chunk_size: 4,
                second_multiplier: 1.0,
                timestamp: "timestamp".to_owned(),
                input_length: "input_length".to_owned(),
                output_length: "output_length".to_owned(),
                hash_ids: "hash_ids".to_owned(),
            }),
            path("t.jsonl"),
            lines(&[json!({"timestamp": 0.5, "input_length": 7, "output_length": 2, "hash_ids": [1, 2]})]),
        ),
        (
            Arc::new(Sonnet {
                path: path("poem.txt"),
                input_len: 60,
                prefix_len: 20,
                output_len: 5,
            }),
            path("poem.txt"),
            (0..9)
                .map(|i| format!("line {i} of the poem\n"))
                .collect::<String>()
                .into_bytes(),
        ),
        (hf("h.tsv"), path("h.tsv"), b"question\tanswer\nwhy\tbecause\n".to_vec()),
        (hf("h.parquet"), path("h.parquet"), PARQUET.to_vec()),
    ]
}

/// Number of datasets, which the property tests need in advance.
const DATASETS: usize = 13;

const DRAW: Draw<'static> = Draw {
    sampling: Sampling {
        num_prompts: 5,
        seed: 1,
        shuffle: true,
        oversample: true,
    },
    vocabulary: &Vocabulary::Words,
    template: None,
    // This backend sends audio by its path.
    backend: Backend::Audio,
};

fn tokenizer() -> Value {
    let words: serde_json::Map<String, Value> = (0..60).map(|i| (format!("w{i}"), json!(i))).collect();
    json!({
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "w0", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w1"},
    })
}

#[test]
fn good_files_give_prompts() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = datasets(folder.path());
    assert_eq!(all.len(), DATASETS);
    for (dataset, path, bytes) in all {
        std::fs::write(&path, bytes).expect("written");
        let items = dataset.draw(&DRAW);
        assert!(
            items.as_ref().is_ok_and(|items| !items.is_empty()),
            "{}: {items:?}",
            path.display()
        );
    }
}

proptest! {
    #![proptest_config(crate::cases(400))]

    #[test]
    fn mangled_datasets_give_prompts_or_a_complaint(which in 0..DATASETS, faults in faults()) {
        let folder = tempfile::tempdir().expect("a folder");
        let (dataset, path, bytes) = datasets(folder.path()).swap_remove(which);
        std::fs::write(&path, mangle(&bytes, &faults)).expect("written");
        match dataset.draw(&DRAW) {
            Ok(items) => prop_assert!(!items.is_empty(), "{} gave nothing", path.display()),
            Err(complaint) => prop_assert!(complaint.contains(path.file_name().and_then(|name| name.to_str()).expect("plain")), "{complaint}"),
        }
    }

    #[test]
    fn any_bytes_are_a_dataset_or_a_complaint(which in 0..DATASETS, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().expect("a folder");
        let (dataset, path, _) = datasets(folder.path()).swap_remove(which);
        std::fs::write(&path, bytes).expect("written");
        if let Ok(items) = dataset.draw(&DRAW) {
            prop_assert!(!items.is_empty());
        }
    }

    #[test]
    fn mangled_tokenizers_work_or_are_refused(faults in faults(), in_config in any::<bool>()) {
        let folder = tempfile::tempdir().expect("a folder");
        let config = json!({"bos_token": "w0", "chat_template": "{{ messages[0].content }}"}).to_string().into_bytes();
        let model = tokenizer().to_string().into_bytes();
        let (model, config) = match in_config {
            true => (model, mangle(&config, &faults)),
            false => (mangle(&model, &faults), config),
        };
        std::fs::write(folder.path().join("tokenizer.json"), model).expect("written");
        std::fs::write(folder.path().join("tokenizer_config.json"), config).expect("written");
        match Tokenizer::find(folder.path().to_str().expect("plain")) {
            Err(complaint) => prop_assert!(complaint.contains("tokenizer"), "{complaint}"),
            Ok(found) => {
                let tokenizer = found.expect("the file is there");
                let random = Random { input_len: 8, output_len: 2, range_ratio: RangeRatio::default(), prefix_len: 2, batch_size: 1 };
                let drawn = random.draw(&Draw::of(DRAW.sampling, &Vocabulary::Tokenizer(&tokenizer)));
                prop_assert!(drawn.is_err() || drawn.is_ok_and(|items| items.len() == 5));
                if let Ok(Some(template)) = ChatTemplate::find(tokenizer.folder(), &Default::default()) {
                    let _ = template.user_turn("hello");
                }
            }
        }
    }

    #[test]
    fn mangled_results_are_figures_or_refused(which in any::<prop::sample::Index>(), faults in faults()) {
        let good = std::fs::read(which.get(&RESULTS)).expect("readable");
        let bytes = mangle(&good, &faults);
        if let Ok(found) = read_results(&bytes) {
            prop_assert!(found.iter().all(|result| !result.is_empty()));
        }
        let _ = read_scalars(&bytes, &RunFigures::default());
    }
}

/// Results of other clients, and a run file of vsweep.
const RESULTS: [&str; 3] = [
    "tests/data/clients/aiperf-0.13.0.json",
    "tests/data/clients/guidellm-0.8.1.json",
    "tests/data/clients/vsweep-0.1.0.json",
];
