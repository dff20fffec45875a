//! Prompts of `vllm bench serve` 0.32 for every dataset (`datasets` in `tests/data/vectors/bench.json`), drawn with the toy
//! tokenizer that the vectors describe.

use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vsweep::dataset::{
    Bucket, Buckets, ChatTemplate, Custom, Dataset, Draw, Images, Item, MostImages, OutputLen, PrefixRepetition,
    Random, RandomMm, RangeRatio, Rerank, Sampling, ShareGpt, SpecBench, TimedTrace, Tokenizer, Vocabulary,
};
use vsweep::params::{FromParam, param};
use vsweep::rng::NumpyPcg64;

fn vectors() -> Value {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors/bench.json"));
    let vectors: Value = serde_json::from_str(&text.expect("the vectors are there")).expect("valid JSON");
    vectors["datasets"].clone()
}

/// Writes a folder with the toy tokenizer. Its token `i` is the word `w{i}`, decoded with a space before it. Tokens 0 to 2 are special, and
/// `added` tokens are put before every prompt. The chat template writes ` <role> content` and ` <assistant>`.
fn model(added: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let words: Map<String, Value> = (0..1000).map(|i| (format!("w{i}"), json!(i))).collect();
    let special = |i: usize| {
        json!({"id": i, "content": format!("w{i}"), "single_word": true, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let token = json!({"SpecialToken": {"id": "w0", "type_id": 0}});
    let mut single = vec![token; added];
    single.push(json!({"Sequence": {"id": "A", "type_id": 0}}));
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [special(0), special(1), special(2)],
        "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single,
                           "special_tokens": {"w0": {"id": "w0", "ids": [0], "tokens": ["w0"]}}},
        "decoder": {"type": "Replace", "pattern": {"String": "w"}, "content": " w"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w999"},
    });
    let template = "{% for message in messages %} <{{ message.role }}> {{ message.content }}{% endfor %}\
                    {% if add_generation_prompt %} <assistant>{% endif %}";
    write(folder.path(), "tokenizer.json", &tokenizer.to_string());
    write(
        folder.path(),
        "tokenizer_config.json",
        &json!({"chat_template": template, "unk_token": "w0", "bos_token": "w1", "eos_token": "w2"}).to_string(),
    );
    folder
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a temporary file");
    path
}

fn write_lines(folder: &Path, rows: &[Value]) -> PathBuf {
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    write(folder, "data.jsonl", &lines.join("\n"))
}

fn tokenizer(model: &TempDir) -> Tokenizer {
    let found = Tokenizer::find(model.path().to_str().expect("a plain path"));
    found.expect("readable").expect("it is there")
}

fn sampling(num_prompts: usize, seed: u64) -> Sampling {
    Sampling {
        num_prompts,
        seed,
        shuffle: true,
        oversample: true,
    }
}

fn drawn(dataset: &dyn Dataset, sampling: Sampling, added: usize, with_template: bool) -> Vec<Item> {
    let model = model(added);
    let template = ChatTemplate::find(model.path(), &Map::new()).expect("readable");
    let template = template.filter(|_| with_template);
    let tokenizer = tokenizer(&model);
    let vocabulary = Vocabulary::Tokenizer(&tokenizer);
    let draw = Draw {
        template: template.as_ref(),
        ..Draw::of(sampling, &vocabulary)
    };
    dataset.draw(&draw).expect("drawn")
}

/// Compares drawn requests with recorded ones. Recorded ids begin with the prefix of the recorded run, which is ignored.
#[track_caller]
fn assert_are(items: &[Item], expected: &Value) {
    let found: Vec<Value> = items
        .iter()
        .map(|item| json!([item.prompt, item.prompt_len, item.output_len, item.id]))
        .collect();
    let id = |id: &Value| id.as_str().and_then(|id| id.rsplit('-').next()).map(str::to_owned);
    let expected: Vec<Value> = expected
        .as_array()
        .expect("requests")
        .iter()
        .map(|out| {
            json!([
                out["prompt"],
                out["prompt_len"],
                out["expected_output_len"],
                id(&out["request_id"])
            ])
        })
        .collect();
    assert_eq!(found, expected);
}

fn count(args: &Value, key: &str, or: u64) -> u64 {
    args.get(key).map_or(or, |count| count.as_u64().expect("a count"))
}

#[test]
fn random_prompts() {
    for (name, added) in [("random_default", 0), ("random_range_prefix", 1), ("random_batch2", 0)] {
        let vector = &vectors()[name];
        let args = &vector["args"];
        let random = Random {
            input_len: count(args, "input_len", 0),
            output_len: count(args, "output_len", 128),
            range_ratio: RangeRatio::from_param(&param("range_ratio"), args.get("range_ratio").unwrap_or(&json!(0.0)))
                .expect("valid"),
            prefix_len: count(args, "prefix_len", 0),
            batch_size: count(args, "batchsize", 1) as usize,
        };
        let sampling = sampling(count(args, "num_requests", 0) as usize, count(vector, "seed", 0));
        assert_are(&drawn(&random, sampling, added, false), &vector["out"]);
    }
}

#[test]
fn random_images() {
    let mut random = NumpyPcg64::new(0);
    let bucket = |height, width| Bucket {
        height,
        width,
        weight: 0.5,
    };
    let images = Images {
        mean: 3,
        ratio: 0.3,
        most: MostImages(255),
        buckets: Buckets(vec![bucket(256, 256), bucket(720, 1280)]),
    };
    let vector = &vectors()["random_mm_iter_rng0_5requests"];
    for request in vector.as_array().expect("requests") {
        let images: Vec<Value> = (0..images.count(&mut random))
            .map(|_| images.bucket(&mut random))
            .map(|bucket| json!([bucket.height, bucket.width, 1]))
            .collect();
        assert_eq!(&json!(images), request);
    }
    let text = Random {
        input_len: 3,
        output_len: 1,
        range_ratio: RangeRatio::default(),
        prefix_len: 0,
        batch_size: 1,
    };
    let images = Images {
        mean: 1,
        ratio: 0.0,
        most: MostImages(255),
        buckets: Buckets(vec![bucket(16, 8)]),
    };
    let one = RandomMm { text, images };
    let items = drawn(&one, sampling(2, 0), 0, false);
    assert_eq!(items[0].prompt.to_value(), " w853 w854 w855");
    let images = items[0].media.as_ref().expect("images");
    let url = images[0]["image_url"]["url"].as_str().expect("a URL");
    assert!(url.starts_with("data:image/jpeg;base64,/9j/") && images[1].is_null());
}

#[test]
fn random_rerank() {
    for name in ["rerank_default", "rerank_no_reranker"] {
        let vector = &vectors()[name];
        let args = &vector["args"];
        let rerank = Rerank {
            input_len: count(args, "input_len", 0),
            range_ratio: RangeRatio::default(),
            batch_size: count(args, "batchsize", 1) as usize,
            no_reranker: args["is_reranker"] == false,
        };
        let sampling = sampling(count(args, "num_requests", 0) as usize, count(vector, "seed", 0));
        let items = drawn(&rerank, sampling, 0, false);
        assert_are(&items, &vector["out"]);
        for item in items {
            let texts = item.prompt.to_value().as_array().expect("a query and documents").len();
            assert_eq!(item.sequences, Some(texts as u32 - 1));
        }
    }
}

#[test]
fn prefix_repetition() {
    let vector = &vectors()["prefix_repetition_noshuffle"];
    let args = &vector["args"];
    let repetition = PrefixRepetition {
        prefix_len: count(args, "prefix_len", 0),
        suffix_len: count(args, "suffix_len", 0),
        num_prefixes: count(args, "num_prefixes", 0) as usize,
        output_len: count(args, "output_len", 0),
    };
    let sampling = Sampling {
        shuffle: false,
        ..sampling(count(args, "num_requests", 0) as usize, 0)
    };
    let items = drawn(&repetition, sampling, 0, false);
    assert_are(&items, &vector["out"]);
}

#[test]
fn sharegpt() {
    let (vectors, folder) = (vectors(), tempfile::tempdir().expect("a folder"));
    let path = write(folder.path(), "sharegpt.json", &vectors["sharegpt_file"].to_string());
    let cases = [
        ("sharegpt_n4", 4, None),
        ("sharegpt_output_len_2_skips_min_output_check", 0, Some(2)),
    ];
    for (name, wanted, output_len) in cases {
        let expected = &vectors[name]["out"];
        let wanted = if wanted == 0 {
            expected.as_array().expect("requests").len()
        } else {
            wanted
        };
        let sharegpt = ShareGpt {
            path: path.clone(),
            output_len,
        };
        assert_are(&drawn(&sharegpt, sampling(wanted, 0), 0, false), expected);
    }
}

#[test]
fn custom_prompts() {
    let (vectors, folder) = (vectors(), tempfile::tempdir().expect("a folder"));
    let path = write_lines(folder.path(), vectors["custom_file"].as_array().expect("rows"));
    let custom = |output_len| Custom {
        path: path.clone(),
        output_len,
    };
    let templated = drawn(&custom(OutputLen::Fixed(256)), sampling(3, 0), 0, true);
    assert_are(&templated, &vectors["custom_default_template"]["out"]);
    let all = Sampling {
        shuffle: false,
        ..sampling(0, 0)
    };
    let items = drawn(&custom(OutputLen::Fixed(5)), all, 0, false);
    assert_are(&items, &vectors["custom_num0_all"]["out"]);
    let lengths: Vec<u64> = drawn(&custom(OutputLen::Column), all, 0, false)
        .iter()
        .map(|item| item.output_len)
        .collect();
    assert_eq!(lengths, [10, 11, 12, 13, 14], "the file's own");
}

#[test]
fn spec_bench() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |i: usize| json!({"turns": [format!("w{i}"), "w9"], "category": if i % 2 == 1 { "a" } else { "b" }});
    let path = write_lines(folder.path(), &(0..6).map(row).collect::<Vec<_>>());
    let spec_bench = SpecBench {
        path,
        category: Some("a".to_owned()),
        output_len: 256,
    };
    let items = drawn(&spec_bench, sampling(3, 0), 0, true);
    assert_are(&items, &vectors()["spec_bench_cat_a"]["out"]);
}

#[test]
fn timed_traces() {
    let (vectors, folder) = (vectors(), tempfile::tempdir().expect("a folder"));
    let vector = &vectors["timed_trace"];
    let trace = TimedTrace {
        path: write_lines(folder.path(), vector["rows"].as_array().expect("rows")),
        chunk_size: 16,
        second_multiplier: 0.001,
        timestamp: "timestamp".to_owned(),
        input_length: "input_length".to_owned(),
        output_length: "output_length".to_owned(),
        hash_ids: "hash_ids".to_owned(),
    };
    let items = drawn(&trace, sampling(3, 0), 0, false);
    let prompts: Vec<Value> = items.iter().map(|item| item.prompt.to_value()).collect();
    assert_eq!(
        prompts[0].as_array().map(|ids| &ids[..16]),
        prompts[1].as_array().map(|ids| &ids[..16])
    );
    let column = |read: &dyn Fn(&Item) -> Value| items.iter().map(read).collect::<Value>();
    assert_eq!(column(&|item| json!(item.prompt_len)), vector["prompt_lens"]);
    assert_eq!(column(&|item| json!(item.output_len)), vector["out_lens"]);
    assert_eq!(column(&|item| json!(item.timestamp)), vector["timestamps"]);
    // Python computed this number: Random(hash("1:16") & 0xffffffff).choices(range(3, 1000), k=16) with PYTHONHASHSEED=0.
    assert_eq!(prompts[0][0], 322);
}
