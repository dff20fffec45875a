//! Measures the time and memory for expanding a million points: `cargo bench --bench expand`.
//!
//! Two plans are measured: one whose server and load sides are about equal in size, and one whose load side alone has a million entries.
//! Every server and point is made once, with its command line and identity.

use std::path::Path;
use std::time::Instant;
use vsweep::matrix::Matrix;
use vsweep::plan::{self, Format, World};

const SQUARE: &str = r#"
[serve]
command = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 16384"
[serve.params]
tensor_parallel_size = [1, 2, 4, 8]
max_num_seqs = { from = 8, to = 2000, step = 8 }
[bench.params]
dataset_name = "random"
random_input_len = [128, 512, 1024, 4096]
request_rate = { from = 0.5, to = 125, step = 0.5 }
num_prompts = { per = "request_rate", times = 60, min = 100 }
[[exclude]]
"serve.tensor_parallel_size" = 1
"bench.request_rate" = ">124.5"
"#;

const ONE_SIDED: &str = r#"
[serve]
command = "vllm serve meta-llama/Llama-3.1-8B-Instruct"
[bench]
command = "vllm bench serve --model m"
[bench.params]
seed = { from = 1, to = 1000, step = 1 }
max_concurrency = { from = 1, to = 1000, step = 1 }
"#;

fn main() {
    for (name, text) in [("two sides of 1,000", SQUARE), ("one side of 1,000,000", ONE_SIDED)] {
        let start = Instant::now();
        let plan = plan::parse(text, Format::Toml, Path::new("bench.toml"), &World::empty());
        let matrix = plan
            .and_then(|plan| Matrix::expand(&plan))
            .unwrap_or_else(|problems| panic!("{problems}"));
        let expanded = start.elapsed();
        let points = matrix
            .points()
            .map(|point| point.id.0.len())
            .filter(|length| *length == 16)
            .count();
        let made = start.elapsed() - expanded;
        println!(
            "{name}: {points} points; expand {expanded:.2?}, make all {made:.2?}, peak memory {}",
            peak_memory()
        );
    }
}

/// Peak memory of this process so far, from Linux.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(String::from("unknown"), |line| line.trim().to_string())
}
