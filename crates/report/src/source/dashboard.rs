//! The rows of `benchmark_results.json`, which vLLM's dashboard scripts write from the results of its performance CI. A row is a test of a
//! server, of latency or of throughput. The names of the columns are for people.

use super::Record;
use itertools::Itertools;
use vsweep_plan::Params;
use vsweep_record::table::Cell;

/// Column with the name of a row's test. The name is read only where several rows have equal settings.
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

/// Columns of figures, with our names. The bare `Median` and `P99` are of TPOT.
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

/// Returns true if a record is a row of `benchmark_results.json`.
pub fn is_row(record: &Params) -> bool {
    record.contains_key(TEST)
}

/// Returns each row as the record of a run. Rows with equal settings are distinguished by the names of their tests.
pub fn read(rows: &[Params]) -> Vec<Record> {
    let mut records: Vec<Record> = rows.iter().map(record).collect();
    let uses = records.iter().map(|record| record.point(None)).counts();
    for (record, row) in records.iter_mut().zip(rows) {
        if uses[&record.point(None)] > 1 {
            record
                .params
                .insert("test".into(), row.get(TEST).cloned().unwrap_or_default());
        }
    }
    records
}

fn record(row: &Params) -> Record {
    let figures = named(row, &FIGURES).into_iter();
    let figures = figures.filter(|(_, value)| value.is_number());
    Record {
        figures: figures.map(|(name, value)| (name, Cell::from_json(&value))).collect(),
        params: named(row, &SERVE),
        load: named(row, &BENCH),
        is_of_sweep: false,
    }
}

/// The members of a row that are among `names`, under our names. Numbers without a fraction become whole numbers, because in a column with
/// gaps the scripts write all numbers as decimals.
fn named(record: &Params, names: &[(&str, &str)]) -> Params {
    let of_row = |(theirs, ours): &(&str, &str)| {
        let value = record.get(*theirs).filter(|value| !value.is_null())?;
        let whole = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0);
        let value = whole.map_or_else(|| value.clone(), |number| (number as i64).into());
        Some(((*ours).to_owned(), value))
    };
    names.iter().filter_map(of_row).collect()
}
