//! The dataset that parameters ask for, with its settings.

use crate::bench::params::reader::Reader;
use crate::dataset::{
    Bucket, BurstGpt, Custom, CustomAudio, CustomImage, Dataset, HuggingFace, PrefixRepetition, Random, RandomMm,
    RangeRatio, Rerank, ShareGpt, Sonnet, SpecBench, SpeedBench, TimedTrace,
};
use crate::load::Backend;
use crate::plan::nearest;
use std::path::PathBuf;

const NAMES: [&str; 14] = [
    "random",
    "random-mm",
    "random-rerank",
    "prefix_repetition",
    "sharegpt",
    "custom",
    "custom_image",
    "custom_audio",
    "spec_bench",
    "speed_bench",
    "burstgpt",
    "timed_trace",
    "sonnet",
    "hf",
];

/// Datasets that need no file.
const SYNTHETIC: [&str; 4] = ["random", "random-mm", "random-rerank", "prefix_repetition"];

/// All requests are written out before the run, at about six bytes a token.
const MOST_PROMPT_TOKENS: f64 = 4e9;

impl Reader<'_> {
    /// Requests to draw; 0 stands for every row of a file of one's own.
    pub fn num_prompts(&mut self) -> usize {
        let is_custom = self.dataset_name().starts_with("custom");
        self.count("num_prompts", u64::from(!is_custom)).unwrap_or(1000) as usize
    }

    pub fn dataset(&mut self, num_prompts: usize, backend: Backend) -> Dataset {
        let name = self.dataset_name();
        let path = self.dataset_path(&name);
        match name.as_str() {
            "random-mm" => self.random_mm(num_prompts, backend),
            "random-rerank" => self.rerank(backend),
            "prefix_repetition" => self.prefix_repetition(num_prompts),
            "sharegpt" => Dataset::ShareGpt(ShareGpt {
                path,
                output_len: self.output_len("sharegpt_output_len"),
            }),
            "custom" => Dataset::Custom(Custom {
                path,
                output_len: self.custom_output_len(),
            }),
            "custom_image" => self.custom_image(path, backend),
            "custom_audio" => self.custom_audio(path, backend),
            "speed_bench" => self.speed_bench(path),
            "spec_bench" => Dataset::SpecBench(SpecBench {
                path,
                category: self.text("spec_bench_category"),
                output_len: self.output_len("spec_bench_output_len").unwrap_or(256),
            }),
            "burstgpt" => Dataset::BurstGpt(BurstGpt { path }),
            "timed_trace" => self.timed_trace(path, backend),
            "sonnet" => Dataset::Sonnet(Sonnet {
                path,
                input_len: self.input_len("sonnet_input_len").unwrap_or(550),
                prefix_len: self.count("sonnet_prefix_len", 0).unwrap_or(200),
                output_len: self.output_len("sonnet_output_len").unwrap_or(150),
            }),
            "hf" => Dataset::HuggingFace(HuggingFace {
                path: path.display().to_string(),
                subset: self.text("hf_subset"),
                split: self.text("hf_split"),
                text_column: self.text("hf_text_column"),
                output_len: self.output_len("hf_output_len"),
            }),
            _ => Dataset::Random(self.random(num_prompts, backend)),
        }
    }

    /// Whether requests are due at the times of the dataset.
    pub fn is_self_timed(&mut self, dataset: &Dataset, has_rate: bool) -> bool {
        let (on, off) = (self.is_set("self_timed"), self.is_set("no_self_timed"));
        if on && !dataset.is_timed() {
            self.problems
                .push("self_timed needs times in the dataset; use dataset_name timed_trace, or remove it".to_owned());
        }
        let is_self_timed = dataset.is_timed() && !off;
        if is_self_timed && has_rate {
            self.problems.push(
                "a timed_trace has its own times beside request_rate or the ramp; remove these, or set no_self_timed"
                    .to_owned(),
            );
        }
        is_self_timed
    }

    /// The dataset's name, known or not.
    fn dataset_name(&mut self) -> String {
        self.text("dataset_name").unwrap_or_else(|| "random".to_owned())
    }

    fn refuse_dataset(&mut self, name: &str) {
        let remedy = match nearest(name, NAMES.iter().copied()).first() {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "others need a command such as \"vllm bench serve\"".to_owned(),
        };
        let one_of = format!("one of {}; {remedy}", NAMES.join(", "));
        self.wrong("dataset_name", &one_of);
    }

    fn dataset_path(&mut self, name: &str) -> PathBuf {
        let path = self.text("dataset_path");
        let is_synthetic = SYNTHETIC.contains(&name);
        if !NAMES.contains(&name) {
            self.refuse_dataset(name);
        } else if is_synthetic && path.is_some() && self.values.contains_key("dataset_name") {
            self.problems.push(format!(
                "dataset_path has no meaning for dataset_name {name}, which makes its prompts itself; remove it"
            ));
        } else if is_synthetic && path.is_some() {
            self.problems.push(format!(
                "dataset_path needs a dataset_name; add one of {}",
                NAMES[SYNTHETIC.len()..].join(", ")
            ));
        } else if !is_synthetic && path.is_none() {
            self.problems
                .push(format!("dataset_name {name} needs a file; name it with dataset_path"));
        }
        path.unwrap_or_default().into()
    }

    /// A dataset's own input length, else the general one.
    fn input_len(&mut self, name: &str) -> Option<u64> {
        self.count(name, 0).or_else(|| self.count("input_len", 0))
    }

    /// A dataset's own output length, else the general one.
    fn output_len(&mut self, name: &str) -> Option<u64> {
        self.count(name, 1).or_else(|| self.count("output_len", 1))
    }

    fn range_ratio(&mut self) -> RangeRatio {
        let ratio = self.values.get("random_range_ratio");
        let ratio = ratio.map(|value| RangeRatio::parse(value));
        ratio.and_then(|ratio| self.checked(ratio)).unwrap_or_default()
    }

    fn random(&mut self, num_prompts: usize, backend: Backend) -> Random {
        let random = Random {
            input_len: self.input_len("random_input_len").unwrap_or(1024),
            output_len: self.output_len("random_output_len").unwrap_or(128),
            range_ratio: self.range_ratio(),
            prefix_len: self.count("random_prefix_len", 0).unwrap_or(0),
            batch_size: self.count("random_batch_size", 1).unwrap_or(1) as usize,
        };
        let takes_batches = matches!(backend, Backend::Embeddings | Backend::Infinity | Backend::Pooling);
        if random.batch_size > 1 && !takes_batches {
            self.wrong(
                "random_batch_size",
                "1 for this backend, which takes one prompt a request",
            );
        }
        if backend == Backend::Rerank {
            self.problems.push(
                "backend vllm-rerank asks with queries and documents; set dataset_name to random-rerank".to_owned(),
            );
        }
        self.limit_tokens(num_prompts, random.input_len + random.prefix_len);
        random
    }

    fn random_mm(&mut self, num_prompts: usize, backend: Backend) -> Dataset {
        if !backend.takes_pictures() {
            self.problems
                .push("dataset_name random-mm sends images in messages; set backend to openai-chat".to_owned());
        }
        let is_ratio = |ratio: f64| (0.0..=1.0).contains(&ratio);
        let ratio = self.number("random_mm_num_mm_items_range_ratio", "a number from 0 to 1", is_ratio);
        let buckets = self.values.get("random_mm_bucket_config").copied();
        let buckets = buckets.and_then(|buckets| self.checked(Bucket::parse_all(buckets)));
        let limits = self.object("random_mm_limit_mm_per_prompt");
        Dataset::RandomMm(RandomMm {
            text: self.random(num_prompts, backend),
            items: self.count("random_mm_base_items_per_request", 0).unwrap_or(1),
            items_ratio: ratio.unwrap_or(0.0),
            most_images: limits.get("image").map_or(255, |limit| limit.as_u64().unwrap_or(0)),
            buckets: buckets.unwrap_or(Bucket::USUAL.to_vec()),
        })
    }

    fn rerank(&mut self, backend: Backend) -> Dataset {
        if backend != Backend::Rerank {
            self.problems
                .push("dataset_name random-rerank needs a backend that ranks; set backend to vllm-rerank".to_owned());
        }
        Dataset::Rerank(Rerank {
            input_len: self.input_len("random_input_len").unwrap_or(1024),
            range_ratio: self.range_ratio(),
            batch_size: self.count("random_batch_size", 1).unwrap_or(1) as usize,
            is_reranker: !self.is_set("no_reranker"),
        })
    }

    fn prefix_repetition(&mut self, num_prompts: usize) -> Dataset {
        let repetition = PrefixRepetition {
            prefix_len: self.count("prefix_repetition_prefix_len", 0).unwrap_or(256),
            suffix_len: self.count("prefix_repetition_suffix_len", 0).unwrap_or(256),
            num_prefixes: self.count("prefix_repetition_num_prefixes", 1).unwrap_or(10) as usize,
            output_len: self.output_len("prefix_repetition_output_len").unwrap_or(128),
        };
        self.limit_tokens(num_prompts, repetition.prefix_len + repetition.suffix_len);
        Dataset::PrefixRepetition(repetition)
    }

    fn custom_output_len(&mut self) -> Option<u64> {
        let is_length = |length: f64| length.fract() == 0.0 && (length == -1.0 || (1.0..1e15).contains(&length));
        let given = self.number("custom_output_len", "a whole number of at least 1, or -1", is_length);
        match given {
            Some(length) if length < 0.0 => None,
            Some(length) => Some(length as u64),
            None => Some(self.count("output_len", 1).unwrap_or(256)),
        }
    }

    fn custom_image(&mut self, path: PathBuf, backend: Backend) -> Dataset {
        if !backend.takes_pictures() {
            self.problems
                .push("dataset_name custom_image sends pictures in messages; set backend to openai-chat".to_owned());
        }
        Dataset::CustomImage(CustomImage {
            path,
            output_len: self.custom_output_len(),
            as_data: self.is_set("custom_ensure_client_side_data"),
        })
    }

    fn custom_audio(&mut self, path: PathBuf, backend: Backend) -> Dataset {
        if !matches!(backend, Backend::Audio | Backend::Chat) {
            self.problems.push(
                "dataset_name custom_audio needs backend openai-audio or openai-chat; set one of them".to_owned(),
            );
        }
        if backend == Backend::Audio && self.is_set("enable_multimodal_chat") {
            self.problems
                .push("enable_multimodal_chat sends sounds in messages; set backend to openai-chat".to_owned());
        }
        Dataset::CustomAudio(CustomAudio {
            path,
            output_len: self.custom_output_len(),
            as_message: backend != Backend::Audio,
        })
    }

    fn speed_bench(&mut self, folder: PathBuf) -> Dataset {
        let subset = self.text("speed_bench_dataset_subset");
        if subset
            .as_deref()
            .is_some_and(|name| !SpeedBench::SUBSETS.contains(&name))
        {
            self.wrong(
                "speed_bench_dataset_subset",
                &format!("one of {}", SpeedBench::SUBSETS.join(", ")),
            );
        }
        Dataset::SpeedBench(SpeedBench {
            folder,
            subset: subset.unwrap_or_else(|| SpeedBench::SUBSETS[0].to_owned()),
            category: self.text("speed_bench_category"),
            output_len: self.count("speed_bench_output_len", 1).unwrap_or(4096),
        })
    }

    fn timed_trace(&mut self, path: PathBuf, backend: Backend) -> Dataset {
        if backend != Backend::Completions {
            self.problems
                .push("dataset_name timed_trace sends token ids to be continued; set backend to openai".to_owned());
        }
        let multiplier = self.number("timed_trace_sec_multiplier", "a number above 0", |factor| {
            factor > 0.0 && factor.is_finite()
        });
        let mut column = |name: &str| {
            let label = self.text(&format!("timed_trace_label_{name}"));
            label.unwrap_or_else(|| name.to_owned())
        };
        Dataset::TimedTrace(TimedTrace {
            path,
            timestamp: column("timestamp"),
            input_length: column("input_length"),
            output_length: column("output_length"),
            hash_ids: column("hash_ids"),
            chunk_size: self.count("timed_trace_chunk_hash_size", 1).unwrap_or(16),
            second_multiplier: multiplier.unwrap_or(1.0),
        })
    }

    fn limit_tokens(&mut self, num_prompts: usize, prompt_len: u64) {
        let tokens = num_prompts as f64 * prompt_len as f64;
        if tokens > MOST_PROMPT_TOKENS {
            self.problems.push(format!(
                "num_prompts times the prompt length is {tokens:.0} tokens, which have to be in memory before the run; \
                 stay below {MOST_PROMPT_TOKENS:.0}"
            ));
        }
    }
}
