//! Number of users of a load and of GPUs of a server, and the share of the throughput for each of them. Also the cost and the energy of
//! tokens.

use super::{Cell, Column, RunRow, Section, Table, are_alike, normal};
use crate::journal::{Directory, LaunchRecord, Manifest, State};
use serde_json::Value;
use vsweep_plan::spelling::DEGREES;
use vsweep_plan::{Params, Program, ServeCommand};

/// Figures of a run from which other figures, and doubts about its point, are computed. With these in its journal line, a run is judged as
/// it is by its file.
pub const SOURCES: [&str; 10] = [
    "completed",
    "duration",
    "failed",
    "global_batch_size",
    "max_concurrent_requests",
    "mean_e2el_ms",
    "mean_tpot_ms",
    "mean_ttft_ms",
    "peak_concurrent_requests",
    "total_output_tokens",
];

/// Returns the number of GPUs of one server: an explicit `num_gpus` or `gpu_count`, else the product of its degrees of parallelism, each
/// from the parameters or else from the command line (`-tp 2` in a base command counts; as in vLLM, the last one wins). A degree that is
/// not given is 1. `None` if none is given and the defaults are not known: behind a URL, for an unknown program, and with a `--config`.
pub fn count_gpus(params: &Params, argv: &[String]) -> Option<f64> {
    let param = |names: &[&str]| {
        // The long name wins, whatever the order.
        let mut named = names
            .iter()
            .flat_map(|name| params.iter().filter(move |(key, _)| normal(key) == *name));
        named
            .find_map(|(_, value)| written_number(&Cell::from_json(value)))
            .filter(positive)
    };
    param(&["num_gpus", "gpu_count"]).or_else(|| {
        let command = ServeCommand::of(argv);
        let is_set = |name: &str| {
            let mut own = params.iter().filter(|(key, _)| normal(key) == name);
            command.has(name) || own.any(|(_, value)| !matches!(value, Value::Null | Value::Bool(false)))
        };
        // SGLang then divides the GPUs of the tensor parallel group.
        let is_divided = is_set("enable_dp_attention");
        let flag = |names: &[&str]| -> Option<f64> { names.iter().find_map(|name| command.value(name)?.parse().ok()) };
        let degree = |names: &&[&str]| param(names).or_else(|| flag(names).filter(positive));
        let degrees = DEGREES.iter().filter(|names| !(is_divided && names.contains(&"dp")));
        let given: Vec<f64> = degrees.filter_map(degree).collect();
        let has_defaults = command.program() != Program::Other && !is_set("config");
        (has_defaults || !given.is_empty()).then(|| given.iter().product())
    })
}

/// Returns the number of GPUs that a server used: the most that one of its launches was given, whatever its flags say, else the number that
/// its flags ask for; `None` if that is unknown.
pub fn used_gpus(params: &Params, argv: &[String], launches: &[LaunchRecord]) -> Option<f64> {
    match launches.iter().map(|launched| launched.gpus.len()).max().unwrap_or(0) {
        0 => count_gpus(params, argv),
        given => Some(given as f64),
    }
}

/// Returns the number of GPUs on which the servers of an experiment are compared: the number in its manifest, or that of its widest server
/// that became ready. `None` if the manifest has none, or if all servers are behind URLs: their GPUs are elsewhere.
pub fn machine_gpus(directory: &Directory, state: &State) -> Option<u32> {
    let servers = || state.servers.values();
    if !state.servers.is_empty() && servers().all(|server| server.argv.is_empty()) {
        return None;
    }
    let ready = servers().filter(|server| server.was_ready());
    let widths = ready.filter_map(|server| used_gpus(&server.params, &server.argv, &server.launches));
    Some(Manifest::gpus_of(directory)?.max(widths.fold(0.0, f64::max).ceil() as u32))
}

/// Returns a number of GPUs for counting replicas: 0 if it is unknown or not whole.
pub fn whole_gpus(gpus: Option<f64>) -> u32 {
    gpus.filter(|gpus| gpus.fract() == 0.0).map_or(0, |gpus| gpus as u32)
}

/// Returns the figures that are computed from others. Names as in `vllm bench sweep plot_pareto`.
///
/// Tokens per second and user are `output_throughput / users`, tokens per second and GPU `output_throughput / GPUs`.
pub(super) fn derive(row: &RunRow<'_>) -> [(&'static str, Option<f64>); 4] {
    let (users, gpus) = (count_users(row), gpus_of(row));
    let throughput = metric(row, "output_throughput");
    let share = |parts: Option<f64>| Some(throughput? / parts?);
    [
        ("user_count_estimate", users),
        ("gpu_count", gpus),
        ("tokens_per_user", share(users)),
        ("tokens_per_gpu", share(gpus)),
    ]
}

/// Smallest mean share of filled slots at which a closed loop counts as full. The mean is below 1 because slots are empty at the beginning
/// and at the end.
const FULL: f64 = 0.9;

/// Returns the number of users, which are the requests that were in flight. A full closed loop has as many users as slots, or as the
/// observed peak if that is lower. A closed loop that was not full, because it had too few requests or long ones came last, has the mean
/// number of requests in flight, as an open loop does. If no latency gives that mean, the limit of requests in flight or the observed peak
/// counts, whichever is lower.
fn count_users(row: &RunRow<'_>) -> Option<f64> {
    // In a decoding batch, each sequence counts as a user.
    if let Some(batch) = metric(row, "global_batch_size").filter(positive) {
        return Some(batch);
    }
    let limit = load_setting(row, "max_concurrency");
    let peak = metric(row, "peak_concurrent_requests").or_else(|| metric(row, "max_concurrent_requests"));
    let peak = peak.filter(positive);
    let mean = mean_in_flight(row).filter(positive);
    let most = limit.into_iter().chain(peak).reduce(f64::min);
    // With a rate, the limit is seldom reached, so it does not count the users.
    let is_closed = limit.is_some() && load_setting(row, "request_rate").is_none();
    let is_full = |mean: &f64| is_closed && most.is_some_and(|most| *mean >= FULL * most);
    mean.filter(|mean| !is_full(mean)).or(most)
}

/// Little's law (1961): the mean number of requests in flight is the sum of their latencies divided by the duration. Tokens per second
/// divided by this number are the tokens of all requests divided by the seconds that users waited for them.
fn mean_in_flight(row: &RunRow<'_>) -> Option<f64> {
    let mean_ms = metric(row, "mean_e2el_ms").or_else(|| mean_latency_ms(row))?;
    let duration_ms = metric(row, "duration").filter(positive)? * 1000.0;
    Some(mean_ms * metric(row, "completed")? / duration_ms)
}

/// Returns the mean latency of a request in milliseconds, from the time to the first token and the mean time of every further token. It is
/// used if the benchmark did not report E2EL, which `vllm bench serve` reports only on request.
fn mean_latency_ms(row: &RunRow<'_>) -> Option<f64> {
    let tokens = metric(row, "total_output_tokens")? / metric(row, "completed").filter(positive)?;
    let further = (tokens - 1.0).max(0.0);
    Some(metric(row, "mean_ttft_ms")? + metric(row, "mean_tpot_ms")? * further)
}

fn gpus_of(row: &RunRow<'_>) -> Option<f64> {
    let imported = metric(row, "num_gpus").or(metric(row, "gpu_count"));
    imported.filter(positive).or(row.gpus)
}

/// Returns a setting of the load, from the plan or else from the result; `None` if it is not a positive number.
fn load_setting(row: &RunRow<'_>, name: &str) -> Option<f64> {
    let set = row.bench.into_iter().flatten().find(|(key, _)| are_alike(key, name));
    let set = set.and_then(|(_, value)| written_number(&Cell::from_json(value)));
    set.filter(positive).or_else(|| metric(row, name).filter(positive))
}

fn metric(row: &RunRow<'_>, name: &str) -> Option<f64> {
    written_number(row.metrics?.get(name)?)
}

/// Returns the number in a cell or in its text. vLLM's records keep values of a parameter file or of `--metadata` as texts, such as
/// `"max_concurrency": "8"`.
pub(super) fn written_number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Text(text) => text.trim().parse().ok().filter(|number: &f64| !number.is_nan()),
        other => other.number(),
    }
}

fn positive(value: &f64) -> bool {
    value.is_finite() && *value > 0.0
}

impl Table {
    /// Takes the number of users and of GPUs from these columns wherever they hold a positive number, and computes the tokens per user and
    /// per GPU again. Other rows keep their counts.
    pub fn recount(&mut self, users: Option<&str>, gpus: Option<&str>) -> Result<(), String> {
        let changes = [
            (users, "user_count_estimate", "tokens_per_user"),
            (gpus, "gpu_count", "tokens_per_gpu"),
        ];
        for (source, count, share) in changes {
            let Some(source) = source else { continue };
            let numbers: Vec<Option<f64>> = self
                .known_column(source)?
                .cells
                .iter()
                .map(|cell| written_number(&cell))
                .collect();
            if numbers.iter().all(Option::is_none) {
                self.numeric_column(source)?;
            }
            let throughput: Vec<Option<f64>> = (0..self.rows)
                .map(|row| self.cell("output_throughput", row).number())
                .collect();
            for (row, number) in numbers.iter().enumerate() {
                let Some(number) = number.filter(positive) else {
                    continue;
                };
                let per = Cell::from(throughput[row].map(|tokens| tokens / number));
                for (name, cell) in [(count, number.into()), (share, per)] {
                    if let Some(column) = self.column_mut(name) {
                        column.cells.set(row, cell);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Seconds of an hour, by which GPUs are paid.
const HOUR_S: f64 = 3600.0;

impl Table {
    /// Adds the cost of a million tokens, at a price for each GPU and hour: price × GPUs ÷ (tokens a second × 3600) × 10⁶. This is the cost
    /// while the load lasts; a server that idles costs more.
    pub fn add_costs(&mut self, price_per_gpu_hour: f64) {
        let figures = [
            ("cost_per_million_output_tokens", "output_throughput"),
            ("cost_per_million_tokens", "total_token_throughput"),
        ];
        for (name, throughput) in figures {
            self.add(name, |table, row| {
                let gpus = table.positive("gpu_count", row)?;
                let tokens_per_s = table.positive(throughput, row)?;
                Some(price_per_gpu_hour * gpus / (tokens_per_s * HOUR_S) * 1e6)
            });
        }
    }

    /// Adds the energy of a token, for runs in which the energy of every GPU of the server was measured.
    pub fn add_energies(&mut self) {
        let joules = |table: &Table, row| {
            let all = table.positive("gpu_count", row)?;
            let sampled = table.positive("gpus_sampled", row)?;
            table.positive("gpu_energy_joules", row).filter(|_| all == sampled)
        };
        self.add("joules_per_output_token", |table, row| {
            Some(joules(table, row)? / table.positive("total_output_tokens", row)?)
        });
        self.add("joules_per_token", |table, row| {
            let output = table.positive("total_output_tokens", row)?;
            Some(joules(table, row)? / (output + table.positive("total_input_tokens", row)?))
        });
    }

    /// Adds a column, unless no row has a figure for it or the benchmark itself has one of that name.
    fn add(&mut self, name: &str, figure: impl Fn(&Table, usize) -> Option<f64>) {
        let figures = (0..self.rows).map(|row| figure(self, row));
        let column = Column::of(name, Section::Derived, figures);
        if self.column(name).is_none() && column.is_known() {
            let at = self.columns.partition_point(|other| other.section <= column.section);
            self.columns.insert(at, column);
        }
    }

    fn positive(&self, name: &str, row: usize) -> Option<f64> {
        self.cell(name, row).number().filter(positive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn users(bench: Value, figures: &[(&str, f64)]) -> Option<f64> {
        let metrics = figures
            .iter()
            .map(|(name, value)| (*name, Cell::Float(*value)))
            .collect();
        count_users(&RunRow {
            point: "p",
            run: 0,
            bench: bench.as_object(),
            metrics: Some(&metrics),
            ..RunRow::default()
        })
    }

    /// 100 requests of 300 ms within 10 s: 3 in flight on average, though 20 began in one second.
    const MEASURED: [(&str, f64); 4] = [
        ("duration", 10.0),
        ("completed", 100.0),
        ("mean_e2el_ms", 300.0),
        ("max_concurrent_requests", 20.0),
    ];

    #[test]
    fn users_of_an_open_loop_are_the_requests_in_flight() {
        assert_eq!(users(json!({"request_rate": 10}), &MEASURED), Some(3.0));
        assert_eq!(users(json!({"request-rate": "inf"}), &MEASURED), Some(3.0));
        assert_eq!(users(json!({}), &MEASURED), Some(3.0));
    }

    #[test]
    fn users_of_a_full_closed_loop_are_its_slots() {
        let full = |slots: u32| json!({"max_concurrency": slots, "request_rate": "inf"});
        assert_eq!(users(full(3), &MEASURED), Some(3.0));
        assert_eq!(users(full(2), &MEASURED), Some(2.0), "no more fit");
        assert_eq!(users(full(4), &MEASURED[3..]), Some(4.0), "nothing else is known");
    }

    #[test]
    fn a_limit_that_is_written_as_a_text_is_a_limit() {
        let full = |slots: &str| json!({"max_concurrency": slots, "request_rate": "inf"});
        assert_eq!(users(full("3"), &MEASURED), Some(3.0));
        assert_eq!(users(full(" 2 "), &MEASURED), Some(2.0));
        assert_eq!(users(full("many"), &MEASURED), Some(3.0));
    }

    #[test]
    fn users_of_a_closed_loop_that_was_not_full_are_those_in_flight() {
        let sparse = json!({"max_concurrency": 64});
        assert_eq!(users(sparse.clone(), &MEASURED), Some(3.0));
        // Four requests of nearly one length, all at once.
        let four = [
            ("duration", 1.0),
            ("completed", 4.0),
            ("mean_e2el_ms", 998.0),
            ("max_concurrent_requests", 4.0),
        ];
        assert_eq!(users(sparse.clone(), &four), Some(4.0));
        assert_eq!(users(sparse, &four[3..]), Some(4.0));
    }

    #[test]
    fn a_limit_beside_a_rate_is_no_number_of_users_unless_nothing_else_is() {
        let load = json!({"max_concurrency": 64, "request_rate": 10});
        assert_eq!(users(load.clone(), &MEASURED), Some(3.0));
        assert_eq!(users(load.clone(), &MEASURED[3..]), Some(20.0), "the observed peak");
        assert_eq!(users(load, &[]), Some(64.0));
    }

    #[test]
    fn without_latencies_the_observed_peak_counts() {
        assert_eq!(users(json!({"request_rate": 2.0}), &MEASURED[3..]), Some(20.0));
        assert_eq!(users(json!({"request_rate": 2.0}), &[]), None);
    }

    #[test]
    fn without_e2el_the_latency_is_that_of_its_tokens() {
        let parts = [
            ("duration", 10.0),
            ("completed", 100.0),
            ("total_output_tokens", 1100.0),
            ("mean_ttft_ms", 100.0),
            ("mean_tpot_ms", 20.0),
        ];
        assert_eq!(users(json!({"request_rate": 10}), &parts), Some(3.0));
    }

    fn count(params: Value, argv: &str) -> Option<f64> {
        let argv: Vec<String> = argv.split_whitespace().map(String::from).collect();
        count_gpus(params.as_object().expect("an object"), &argv)
    }

    #[test]
    fn an_explicit_count_wins() {
        assert_eq!(count(json!({"num_gpus": 8, "tp": 2}), ""), Some(8.0));
        assert_eq!(count(json!({"num_gpus": 0, "tp": 2}), ""), Some(2.0));
        assert_eq!(count(json!({"tp": 2, "gpu_count": "4"}), ""), Some(4.0));
    }

    #[test]
    fn degrees_multiply_whatever_their_spelling() {
        let params = json!({"tensor-parallel-size": 2, "pp": 2, "data_parallel_size": "2"});
        assert_eq!(count(params, "vllm serve m -tp 16"), Some(8.0));
        let of = |line: &str| count(json!({}), line);
        assert_eq!(of("vllm serve m -tp 2 --pipeline_parallel_size=3"), Some(6.0));
        assert_eq!(of("vllm serve m -tp 2 --tensor-parallel-size 4"), Some(4.0));
        assert_eq!(of("vllm serve m -tp 2 -pcp 2"), Some(4.0));
        assert_eq!(of("trtllm-serve m --tp_size 4 --pp_size 2"), Some(8.0));
        assert_eq!(of("sglang serve --tp-size 2 --dp-size 2"), Some(4.0));
        assert_eq!(
            of("sglang serve --tp-size 8 --dp-size 8 --enable-dp-attention"),
            Some(8.0)
        );
    }

    #[test]
    fn the_long_name_of_a_degree_wins() {
        assert_eq!(count(json!({"tp": 8, "tensor_parallel_size": 2}), ""), Some(2.0));
        assert_eq!(count(json!({"tensor-parallel-size": "2", "tp": 8}), ""), Some(2.0));
    }

    #[test]
    fn nonsense_counts_as_one() {
        assert_eq!(count(json!({"tp": 0}), "vllm serve m --tp"), Some(1.0));
        assert_eq!(count(json!({"tp": "auto"}), "vllm serve m -tp x"), Some(1.0));
    }

    #[test]
    fn what_does_not_show_its_degrees_has_an_unknown_number() {
        for line in ["", "start8.sh 8000", "vllm serve --config best.yaml"] {
            assert_eq!(count(json!({}), line), None, "{line}");
        }
        assert_eq!(count(json!({"config": "best.yaml"}), "vllm serve m"), None);
        assert_eq!(count(json!({}), "vllm serve m --config best.yaml -tp 4"), Some(4.0));
        assert_eq!(count(json!({"tp": 8}), ""), Some(8.0), "behind a URL");
        assert_eq!(count(json!({}), "sglang serve --model-path m"), Some(1.0));
    }
}

#[cfg(test)]
mod machine_tests {
    use super::*;
    use crate::journal::{Event, GroupBegun, ServerDescription, ServerReady};
    use vsweep_base::ids::ServerId;

    fn begin(state: &mut State, name: &str, command: &str) -> ServerId {
        let server = ServerId(name.into());
        let config = ServerDescription {
            name: name.to_owned(),
            argv: command.split_whitespace().map(String::from).collect(),
            ..ServerDescription::default()
        };
        let begun = GroupBegun {
            server: server.clone(),
            config,
            ..GroupBegun::default()
        };
        state.apply_hypothetical(Event::GroupBegun(Box::new(begun)));
        server
    }

    #[test]
    fn servers_are_compared_on_no_fewer_gpus_than_one_of_them_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let manifest = Manifest {
            gpus: vec!["H100".to_owned(); 4],
            ..Manifest::default()
        };
        manifest.write(&directory, true, false).expect("written");
        let mut state = State::default();
        assert_eq!(machine_gpus(&directory, &state), Some(4));
        let server = begin(&mut state, "a", "vllm serve m -tp 8");
        assert_eq!(machine_gpus(&directory, &state), Some(4), "it may not start");
        state.apply_hypothetical(Event::ServerStarting {
            server: server.clone(),
            slot: 0,
            launch: 1,
            gpus: Vec::new(),
        });
        let ready = ServerReady {
            server,
            launch: 1,
            ..ServerReady::default()
        };
        state.apply_hypothetical(Event::ServerReady(Box::new(ready)));
        assert_eq!(machine_gpus(&directory, &state), Some(8));
        let mut attached = State::default();
        begin(&mut attached, "a", "");
        assert_eq!(machine_gpus(&directory, &attached), None, "behind a URL");
    }
}

#[cfg(test)]
mod cost_tests {
    use super::*;
    use crate::table::{Cell, RunRow, TableBuilder};

    fn table(rows: &[&[(&str, f64)]]) -> Table {
        let mut builder = TableBuilder::new();
        for (i, figures) in rows.iter().enumerate() {
            let figures = figures.iter().map(|(name, value)| (*name, Cell::Float(*value)));
            builder.push(RunRow {
                point: "p",
                run: i as u32,
                gpus: Some(4.0),
                metrics: Some(&figures.collect()),
                ..RunRow::default()
            });
        }
        builder.finish()
    }

    #[test]
    fn money_is_gpu_hours_by_tokens() {
        let mut table = table(&[
            &[("output_throughput", 1000.0), ("total_token_throughput", 4000.0)],
            &[],
        ]);
        table.add_costs(3.6);
        // 4 GPUs at 3.6 per hour cost 0.004 per second, in which 1000 output tokens are made.
        assert_eq!(table.cell("cost_per_million_output_tokens", 0), Cell::Float(4.0));
        assert_eq!(table.cell("cost_per_million_tokens", 0), Cell::Float(1.0));
        assert_eq!(table.cell("cost_per_million_tokens", 1), Cell::Missing);
        assert!(
            table.columns().is_sorted_by_key(|column| column.section),
            "before `detail` and `advice`"
        );
    }

    #[test]
    fn energy_counts_only_where_every_gpu_was_read() {
        let run = |sampled| {
            vec![
                ("gpu_energy_joules", 600.0),
                ("gpus_sampled", sampled),
                ("total_output_tokens", 200.0),
                ("total_input_tokens", 100.0),
            ]
        };
        let mut table = table(&[&run(4.0), &run(2.0)]);
        table.add_energies();
        assert_eq!(table.cell("joules_per_output_token", 0), Cell::Float(3.0));
        assert_eq!(table.cell("joules_per_token", 0), Cell::Float(2.0));
        assert_eq!(table.cell("joules_per_token", 1), Cell::Missing);
    }

    #[test]
    fn nothing_known_adds_no_column() {
        let mut table = table(&[&[]]);
        let before = table.clone();
        table.add_costs(2.0);
        table.add_energies();
        assert_eq!(table, before);
    }
}
