//! The rows of `benchmark_results.json`, which vLLM's dashboard scripts make of its performance CI: tests of a server, of latency and of
//! throughput, with columns named for people.

use itertools::Itertools;
use serde_json::Value;
use vsweep_plan::cause::Outcome;
use vsweep_plan::plan::Params;
use vsweep_plan::validity::Validity;
use vsweep_record::table::{Cell, RunRow, TableBuilder, count_gpus};

/// Names the test of a row; what it is called says nothing of what it measures.
const TEST: &str = "Test name";

const SERVE: [(&str, &str); 4] = [
    ("GPU", "gpu"),
    ("TP Size", "tensor_parallel_size"),
    ("PP Size", "pipeline_parallel_size"),
    ("dtype", "dtype"),
];

const BENCH: [(&str, &str); 6] = [
    ("Model", "model_id"),
    ("Dataset Name", "dataset_name"),
    ("Input Len", "random_input_len"),
    ("Output Len", "random_output_len"),
    ("qps", "request_rate"),
    ("# of max concurrency.", "max_concurrency"),
];

/// The bare `Median` and `P99` are of TPOT.
const FIGURES: [(&str, &str); 21] = [
    ("# of req.", "completed"),
    ("Tput (req/s)", "request_throughput"),
    ("Output Tput (tok/s)", "output_throughput"),
    ("Total Token Tput (tok/s)", "total_token_throughput"),
    ("Tput (tok/s)", "total_token_throughput"),
    ("Elapsed time (s)", "duration"),
    ("Mean TTFT (ms)", "mean_ttft_ms"),
    ("Median TTFT (ms)", "median_ttft_ms"),
    ("P99 TTFT (ms)", "p99_ttft_ms"),
    ("STD TTFT (ms)", "std_ttft_ms"),
    ("Mean TPOT (ms)", "mean_tpot_ms"),
    ("Median", "median_tpot_ms"),
    ("P99", "p99_tpot_ms"),
    ("STD TPOT (ms)", "std_tpot_ms"),
    ("Mean ITL (ms)", "mean_itl_ms"),
    ("Median ITL (ms)", "median_itl_ms"),
    ("P99 ITL (ms)", "p99_itl_ms"),
    ("Mean latency (ms)", "mean_e2el_ms"),
    ("Median latency (ms)", "median_e2el_ms"),
    ("P99 latency (ms)", "p99_e2el_ms"),
    ("Total # of tokens", "total_num_tokens"),
];

/// Whether a record is such a row.
pub fn is_row(record: &Params) -> bool {
    record.contains_key(TEST)
}

/// Adds each row as a run of a point of its own. Of rows with equal settings, the name of the test tells which is which.
pub fn read(file: &str, records: &[Params], builder: &mut TableBuilder) {
    let sides: Vec<(Params, Params)> = records
        .iter()
        .map(|record| (named(record, &SERVE), named(record, &BENCH)))
        .collect();
    let key =
        |(serve, bench): &(Params, Params)| format!("{} {}", Value::from(serve.clone()), Value::from(bench.clone()));
    let uses = sides.iter().map(key).counts();
    for (row, (record, side)) in records.iter().zip(sides).enumerate() {
        let is_alone = uses[&key(&side)] == 1;
        let (mut serve, bench) = side;
        if !is_alone {
            serve.insert("test".into(), record[TEST].clone());
        }
        let figures = named(record, &FIGURES).into_iter();
        let figures: Vec<(Box<str>, Cell)> = figures
            .filter(|(_, value)| value.is_number())
            .map(|(name, value)| (name.into(), Cell::from_json(&value)))
            .collect();
        let outcome = match figures.is_empty() {
            true => Outcome::Failed,
            false => Outcome::Ok,
        };
        builder.push(RunRow {
            point: &format!("{file} {row}"),
            run: 0,
            outcome,
            validity: (outcome == Outcome::Ok).then_some(Validity::Valid),
            gpus: Some(count_gpus(&serve, &[])),
            serve: &serve,
            bench: &bench,
            metrics: &figures,
            ..RunRow::default()
        });
    }
}

/// The members of a row that have a name here, under that name. Columns with gaps hold whole numbers as decimals.
fn named(record: &Params, names: &[(&str, &str)]) -> Params {
    let of_row = |(theirs, ours): &(&str, &str)| {
        let value = record.get(*theirs).filter(|value| !value.is_null())?;
        let whole = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0);
        let value = whole.map_or_else(|| value.clone(), |number| (number as i64).into());
        Some(((*ours).to_owned(), value))
    };
    names.iter().filter_map(of_row).collect()
}
