//! Measures the accuracy of rehearsals: `cargo bench --bench rehearse`.
//!
//! Rehearses twenty short and varied plans, and runs each on the simulator. Counts how often the duration of the sweep, from the first
//! server's start to the last one's end, lies in the predicted 80 % interval, and prints the width of the intervals: once without a record,
//! and once after a run from which the rehearsal learned. `cargo bench --bench rehearse -- 3 7` does so for plans 3 to 7 only.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Flags of the server, its axes, and the load.
const PLANS: [(&str, &str, &str); 20] = [
    (
        "--sim-speed 4",
        "max_num_seqs = [4, 16]",
        "max_concurrency = [1, 8]\nnum_prompts = 32",
    ),
    (
        "--sim-speed 2",
        "tensor_parallel_size = [1, 2]",
        "max_concurrency = [4, 16]\nnum_prompts = 32",
    ),
    (
        "--sim-start 1s",
        "max_num_seqs = 32",
        "max_concurrency = 16\nnum_prompts = 96",
    ),
    (
        "--sim-start 200ms",
        "max_num_seqs = [8, 16, 32]",
        "max_concurrency = 8\nnum_prompts = 24",
    ),
    (
        "--sim-speed 8",
        "max_num_seqs = 64",
        "request_rate = [20, 40]\nnum_prompts = 60",
    ),
    (
        "--sim-speed 2",
        "max_num_seqs = 32",
        "request_rate = 8\nnum_prompts = 24\nburstiness = 0.5",
    ),
    (
        "--sim-noise 0.1",
        "max_num_batched_tokens = [512, 2048]",
        "max_concurrency = 8\nnum_prompts = 32",
    ),
    (
        "--sim-noise 0",
        "max_num_seqs = 16",
        "random_output_len = 64\nmax_concurrency = [2, 16]\nnum_prompts = 32",
    ),
    (
        "--sim-speed 4",
        "max_num_seqs = 128",
        "random_input_len = 2048\nmax_concurrency = 32\nnum_prompts = 64",
    ),
    (
        "--sim-speed 3",
        "enable_prefix_caching = [true, false]",
        "random_prefix_len = 1000\nmax_concurrency = 8\nnum_prompts = 48",
    ),
    (
        "--sim-speed 2",
        "enforce_eager = [true, false]",
        "max_concurrency = 4\nnum_prompts = 24",
    ),
    (
        "--sim-speed 4 --sim-gpu a100",
        "max_num_seqs = 16",
        "random_range_ratio = 0.5\nmax_concurrency = 16\nnum_prompts = 96",
    ),
    (
        "--sim-speed 4 --sim-gpu l40s",
        "max_num_seqs = 16",
        "max_concurrency = [1, 2, 4]\nnum_prompts = 12",
    ),
    (
        "--sim-fault oom-at-load",
        "max_num_seqs = [8, 16]",
        "max_concurrency = [1, 2]\nnum_prompts = 8",
    ),
    (
        "--sim-speed 2 --quantization fp8",
        "max_num_seqs = 32",
        "max_concurrency = 32\nnum_prompts = 96",
    ),
    (
        "--sim-speed 6 --num-gpu-blocks-override 200 --max-model-len 2000",
        "max_num_seqs = 64",
        "max_concurrency = 64\nnum_prompts = 128",
    ),
    (
        "--sim-speed 4",
        "max_num_seqs = 16",
        "dataset_name = 'prefix_repetition'\nmax_concurrency = 16\nnum_prompts = 60",
    ),
    (
        "--sim-speed 10",
        "max_num_seqs = [2, 4, 8, 16]",
        "max_concurrency = [1, 16]\nnum_prompts = 16",
    ),
    (
        "--sim-speed 4",
        "max_num_seqs = 32",
        "num_prompts = { per = 'max_concurrency', times = 4, min = 40 }\nSEARCH 150",
    ),
    (
        "--sim-speed 6",
        "max_num_seqs = [8, 64]",
        "num_prompts = { per = 'max_concurrency', times = 4, min = 40 }\nSEARCH 80",
    ),
];

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut cold, mut warm) = (Tally::default(), Tally::default());
    println!(
        "{:>4} {:>9} {:>24} {:>24}",
        "plan", "took s", "predicted s", "after learning s"
    );
    let bounds: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let (first, last) = match bounds[..] {
        [first, last] => (first, last),
        _ => (0, PLANS.len()),
    };
    for (number, parts) in PLANS
        .iter()
        .enumerate()
        .filter(|(number, _)| (first..=last).contains(number))
    {
        let name = format!("plan{number}.toml");
        fs::write(folder.path().join(&name), plan(parts)).expect("writable");
        let out = folder.path().join(format!("out{number}"));
        let out = out.display().to_string();
        let before = rehearse(folder.path(), &name, &out);
        let took = run(folder.path(), &name, &out);
        let after = rehearse(folder.path(), &name, &out);
        let again = run(folder.path(), &name, &format!("{out}-again"));
        cold.add(before, took);
        warm.add(after, again);
        let show = |[low, likely, high]: [f64; 3]| format!("{likely:.2} ({low:.2}-{high:.2})");
        println!(
            "{number:>4} {took:>9.2} {:>24} {:>24} took {again:.2}",
            show(before),
            show(after)
        );
    }
    println!("80 % interval held: {cold} without a record, {warm} after learning from one run");
}

#[derive(Default)]
struct Tally {
    held: u32,
    all: u32,
    ratios: Vec<f64>,
    /// Widths of the intervals, as shares of the likely time.
    widths: Vec<f64>,
}

impl Tally {
    fn add(&mut self, [low, likely, high]: [f64; 3], took: f64) {
        self.held += u32::from((low..=high).contains(&took));
        self.all += 1;
        self.ratios.push(took / likely);
        self.ratios.sort_by(f64::total_cmp);
        self.widths.push((high - low) / likely);
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (held, all) = (self.held, self.all);
        let at = |part: usize| self.ratios[(self.ratios.len() - 1) * part / 10];
        write!(
            f,
            "{held} of {all} (mean width {:.0} %; took/predicted {:.2}, {:.2} to {:.2} for 80 %)",
            100.0 * self.widths.iter().sum::<f64>() / f64::from(all),
            at(5),
            at(1),
            at(9)
        )
    }
}

fn plan((flags, axes, load): &(&str, &str, &str)) -> String {
    let (load, sla) = match load.split_once("SEARCH ") {
        Some((load, ms)) => (
            load,
            format!(
                "[sla]\nvary = 'max_concurrency'\nmax = 64\n[[sla.target]]\nname = 'chat'\np99_ttft_ms = '<={ms}'\n"
            ),
        ),
        None => (*load, String::new()),
    };
    let lengths = match load {
        load if load.contains("prefix_repetition") => "prefix_repetition_output_len = 16\n",
        load if load.contains("random_output_len") => "",
        _ => "random_output_len = 16\n",
    };
    let input = if load.contains("random_input_len") || load.contains("prefix_repetition") {
        ""
    } else {
        "random_input_len = 256\n"
    };
    format!(
        "version = 1\n[serve]\ncommand = \"vsweep sim serve demo-8b {flags}\"\n[serve.params]\n{axes}\n[bench.params]\n{lengths}{input}{load}\n{sla}"
    )
}

fn vsweep(folder: &Path, args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_vsweep"))
        .current_dir(folder)
        .args(args)
        .output()
        .expect("vsweep starts")
}

/// Low, likely and high duration of the whole plan, in seconds.
fn rehearse(folder: &Path, plan: &str, out: &str) -> [f64; 3] {
    let output = vsweep(
        folder,
        &["plan", plan, "--rehearse", "-o", out, "--fresh", "--format", "json"],
    );
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let forecast: Value = serde_json::from_slice(&output.stdout).expect(&error);
    ["low", "likely", "high"].map(|name| forecast["seconds"][name].as_f64().expect("a number"))
}

/// Runs the plan. Returns the seconds from the first server's start to the last one's end.
fn run(folder: &Path, plan: &str, out: &str) -> f64 {
    let output = vsweep(folder, &["run", plan, "-o", out, "--quiet"]);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut journals = fs::read_dir(Path::new(out).join("journal")).expect("a folder");
    let journal = journals.next().expect("one session").expect("readable").path();
    let journal = fs::read_to_string(journal).expect("a journal");
    let entries: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).expect("an entry"))
        .collect();
    let at = |name: &str, last: bool| -> f64 {
        let mut those = entries.iter().filter(|entry| entry["event"].get(name).is_some());
        let entry = if last { those.next_back() } else { those.next() };
        let at: jiff::Timestamp = entry.expect("such an event")["at"]
            .as_str()
            .expect("a time")
            .parse()
            .expect("RFC 3339");
        at.as_millisecond() as f64 / 1000.0
    };
    at("server_exited", true) - at("server_starting", false)
}
