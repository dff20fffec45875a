//! The figures of a page as compact JSON, by column. Repeated values are stored once and referred to by index, and figures have about five
//! digits (see `round`). `script/data.js` reads it.

use super::numbers::{encode_cell, round};
use super::text::embed_json;
use crate::findings::variation::swept;
use crate::inputs::Inputs;
use crate::ordered::{Order, Ordered};
use crate::rows::detail_of;
use crate::texts::words::{axis_title, short_name};
use itertools::{Either, Itertools};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use vsweep_answer::{Goal, PointEstimates};
use vsweep_base::cause::Cause;
use vsweep_base::ids::ServerId;
use vsweep_base::shell::{shell_command, shell_line};
use vsweep_base::validity::Code;
use vsweep_plan::Params;
use vsweep_record::journal::RunRecord;
use vsweep_record::table::{Column, Measure, MetricSet, PER_GPU, Point, Section};

/// Most bytes of figures, which keeps a page below 3 MB. Beyond it, the least important figures are left out.
const MOST_BYTES: usize = 2_450_000;

/// Estimates may take `MOST_BYTES` divided by this. Of metrics beyond that, a page has only the figures of runs.
const ESTIMATES_DIVISOR: usize = 4;

/// The most important figures, in the order in which they are kept.
const FOREMOST: [&str; 12] = [
    "output_throughput",
    "tokens_per_gpu",
    "tokens_per_user",
    "median_ttft_ms",
    "p99_ttft_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "request_throughput",
    "median_e2el_ms",
    "p99_e2el_ms",
    "total_token_throughput",
    "median_itl_ms",
];

/// The JSON, ready for a `<script>` element.
pub fn encode(inputs: &Inputs<'_>) -> String {
    let points = inputs.points;
    // Points are in the order in which their runs first appear.
    let ids = (0..points.runs.rows()).map(|row| points.runs.cell("point", row).to_string());
    let Dictionary { of: ids, at: rows } = Dictionary::of(ids);
    let plots = inputs.options.plots.iter();
    let mut page = runs(inputs);
    page.add("words", words());
    page.add("workloads", workloads(inputs));
    page.add(
        "pareto",
        Measure::of_frontier(points.runs).map(|measure| measure.metric),
    );
    page.add(
        "varying",
        inputs.varied.iter().map(|column| column.name.as_str()).collect_vec(),
    );
    page.add("swept", swept(points, &inputs.varied).map(|column| &column.name));
    page.add("telemetry", &inputs.telemetry);
    let classes: Vec<&str> = MetricSet::of_classes(points.runs).collect();
    if !classes.is_empty() {
        page.add("of_classes", classes);
    }
    page.add("leading", inputs.ranking.leading());
    page.add("gpus", inputs.answers.document.gpus);
    page.add("price", inputs.options.price_per_gpu_hour);
    page.add("cdfs", inputs.distributions.encode());
    let plots = plots.map(|plot| json!({"x": plot.x, "y": plot.y, "by": plot.curve_by}));
    page.add("plots", plots.collect_vec());
    page.add("points", ids);
    page.add("estimates", estimates(inputs));
    page.add("rows", rows);
    page.add("suspect", points.points.iter().map(Point::is_suspect).collect_vec());
    if !inputs.goals.is_empty() {
        let places = 0..points.points.len();
        page.add(
            "meets",
            Dictionary::of(places.clone().map(|at| inputs.goals.met_by(at))),
        );
        page.add("targets", inputs.goals.targets().collect_vec());
        page.add(
            "met",
            places.clone().map(|at| inputs.goals.targets_met(at)).collect_vec(),
        );
        page.add("competes", places.map(|at| inputs.goals.competes(at)).collect_vec());
    }
    let mut columns: Vec<&Column> = points.runs.columns().iter().filter(|column| is_shown(column)).collect();
    columns.order_by_key(|column| {
        let is_figure = matches!(column.section, Section::Metric | Section::Derived);
        (is_figure, place_of(&column.name))
    });
    let mut left = MOST_BYTES.saturating_sub(page.0.len() + "}".len());
    let (kept, left_out): (Vec<Value>, Vec<&str>) = columns.into_iter().partition_map(|column| {
        // Each row of a column with several values takes two bytes at least.
        if left < 2 * column.cells.len() && !column.cells.values().map(|cell| encode_cell(&cell)).all_equal() {
            return Either::Right(column.name.as_str());
        }
        let encoded = encode_column(column);
        match left.checked_sub(encoded.to_string().len()) {
            Some(rest) => {
                left = rest;
                Either::Left(encoded)
            }
            None => Either::Right(column.name.as_str()),
        }
    });
    page.add("columns", kept);
    page.add("left_out", left_out);
    embed_json(&(page.0 + "}"))
}

/// A JSON object as text, without its closing brace. As JSON values, the lists of many runs would take ten times the memory.
struct Page(String);

impl Page {
    fn add(&mut self, name: &str, value: impl Serialize) {
        let mark = if self.0.is_empty() { "{" } else { "," };
        let value = serde_json::to_string(&value).expect("plain data always serialises");
        self.0 += &format!("{mark}\"{name}\":{value}");
    }
}

/// Causes of failures and codes of doubts in words.
fn words() -> Value {
    let causes = Cause::ALL.into_iter().map(|cause| (cause.name(), cause.in_words()));
    let codes = Code::ALL.into_iter().map(|code| (code.name(), code.in_words()));
    causes
        .chain(codes)
        .map(|(name, words)| (name.to_owned(), words))
        .collect()
}

/// Distinct values (`of`), and for each row the index of its value (`at`).
#[derive(Serialize)]
struct Dictionary<T> {
    of: Vec<T>,
    at: Vec<usize>,
}

impl<T: Clone + Eq + Hash> Dictionary<T> {
    fn of(values: impl Iterator<Item = T>) -> Dictionary<T> {
        let mut places: HashMap<T, usize> = HashMap::new();
        let mut of = Vec::new();
        let at = values.map(|value| {
            *places.entry(value.clone()).or_insert_with(|| {
                of.push(value);
                of.len() - 1
            })
        });
        let at = at.collect();
        Dictionary { of, at }
    }
}

/// The rank of a figure in the order in which figures are kept.
fn place_of(metric: &str) -> usize {
    FOREMOST
        .iter()
        .position(|name| *name == metric)
        .unwrap_or(FOREMOST.len())
}

/// The estimates of the answer by metric, as far as there is room: for each point its figure and the ends of its interval, or null.
fn estimates(inputs: &Inputs<'_>) -> Value {
    let document = &inputs.answers.document;
    let of_point: HashMap<&str, &PointEstimates> = document.estimates.iter().map(|own| (&*own.point, own)).collect();
    // The page multiplies figures that add up by the replicas, and those per GPU by the GPUs, and shows the product as sentences do.
    let adds_up = |metric: &str| {
        let mut questions = document.questions.iter();
        metric == PER_GPU
            || questions.any(|own| matches!(&own.goal, Goal::Metric { name, adds_up: true } if name == metric))
    };
    let column = |number: usize| -> Value {
        let digits = match adds_up(&document.noise[number].metric) {
            true => |figure: f64| format!("{figure:.8e}").parse().unwrap_or(figure),
            false => round,
        };
        let estimate = |point: &Point| {
            let estimate = of_point.get(&*point.id)?.figures[number]?;
            Some([estimate.value, estimate.low, estimate.high].map(digits))
        };
        inputs
            .points
            .points
            .iter()
            .map(|point| json!(estimate(point)))
            .collect()
    };
    let metrics = document.noise.iter().enumerate();
    let metrics = metrics.ordered_by_key(|(_, noise)| place_of(&noise.metric));
    let mut left = MOST_BYTES / ESTIMATES_DIVISOR;
    let columns = metrics
        .into_iter()
        .map(|(number, noise)| (noise.metric.clone(), column(number)));
    let fitting = columns.take_while(|(_, column)| {
        let fits = left.checked_sub(column.to_string().len());
        left = fits.unwrap_or_default();
        fits.is_some()
    });
    fitting.collect()
}

/// The points of each workload, its frontier and its knee, all by index.
fn workloads(inputs: &Inputs<'_>) -> Vec<Value> {
    let workloads = inputs.points.workloads();
    let points = inputs.points;
    let of_answer = workloads
        .iter()
        .zip(&inputs.answers.workloads)
        .map(|(workload, answer)| {
            let [throughput, latency] = MetricSet::measured(points, workload);
            json!({
                "name": answer.name,
                "points": workload.points,
                "frontier": answer.frontier,
                "knee": answer.knee,
                // If no point meets the targets, all compete.
                "open": answer.none_meets,
                "throughput": throughput,
                "latency": latency,
            })
        });
    of_answer.collect()
}

/// Returns true for columns that are useful on the page. Texts that the benchmark repeats in every run are not.
fn is_shown(column: &Column) -> bool {
    match column.section {
        Section::Identity => column.name != "point",
        // The page has the observations as `details`.
        Section::Cause => false,
        Section::Serve | Section::Bench | Section::Origin => true,
        Section::Metric | Section::Derived => column.has_numbers(),
    }
}

/// The servers, and the data of each run other than its figures, by row.
fn runs(inputs: &Inputs<'_>) -> Page {
    let began = began(inputs);
    let runs: Vec<&RunRecord> = inputs.state.runs().collect();
    let servers = inputs.state.servers.iter().enumerate();
    let servers: HashMap<_, _> = servers.map(|(at, (id, server))| (id, (at, server))).collect();
    let place = |run: &&RunRecord| servers.get(&run.server).map_or(0, |(at, _)| *at);
    let start = |run: &&RunRecord| {
        let mut starts = servers.get(&run.server)?.1.launches.iter();
        starts.position(|start| Some(start.launch) == run.launch)
    };
    // Repetitions share their parameters, and so their command.
    let mut commands: HashMap<(&ServerId, *const Params), String> = HashMap::new();
    let commands = runs.iter().map(|run| {
        let known = commands.entry((&run.server, Arc::as_ptr(&run.params)));
        let command = known.or_insert_with(|| {
            let argv = servers.get(&run.server).map_or(&[][..], |(_, server)| &server.argv);
            shell_line(inputs.bench_command(argv, &run.params))
        });
        command.clone()
    });
    let commands = Dictionary::of(commands);
    let files = runs.iter().map(|run| file_of(run).unzip());
    let (begins, lines): (Vec<Option<&str>>, Vec<Option<u64>>) = files.unzip();
    let mut page = Page(String::new());
    page.add("servers", self::servers(inputs, began));
    page.add("server", runs.iter().map(place).collect_vec());
    // Position of the run's launch among the launches of its server, if known.
    page.add("start", runs.iter().map(start).collect_vec());
    // Time at which the first server was started.
    page.add("began", began.map(|began| began.to_string()));
    page.add(
        "ended",
        runs.iter().map(|run| since(began, &run.finished_at)).collect_vec(),
    );
    page.add("seconds", runs.iter().map(|run| tenths(run.seconds)).collect_vec());
    // Duration of the reset and of the warm-up before each run, if recorded; empty if no run has one.
    page.add("resets", where_known(runs.iter().map(|run| run.reset_seconds)));
    page.add("warmups", where_known(runs.iter().map(|run| run.warmup_seconds)));
    page.add(
        "details",
        Dictionary::of(runs.iter().map(|run| detail_of(run).into_owned())),
    );
    page.add("bench", commands);
    page.add(
        "files",
        json!({"begin": Dictionary::of(begins.into_iter()), "line": lines}),
    );
    page
}

/// Name of a run's file, below the folder of its point: `begin-line.json`. Few beginnings differ, so they are stored once: 10 000 whole
/// names would be a fifth of a page.
fn file_of(run: &RunRecord) -> Option<(&str, u64)> {
    let path = run.file.as_ref()?.path.strip_suffix(".json")?;
    let (begin, line) = path.rsplit_once('/')?.1.rsplit_once('-')?;
    Some((begin, line.parse().ok()?))
}

/// Time at which the first server was started.
fn began(inputs: &Inputs<'_>) -> Option<Timestamp> {
    let starts = inputs.state.launches();
    starts.filter_map(|start| start.started_at.parse().ok()).min()
}

/// Seconds from the first start of a server to a moment, to a tenth.
fn since(began: Option<Timestamp>, moment: &str) -> Option<f64> {
    let moment: Timestamp = moment.parse().ok()?;
    let passed_ms = moment.as_millisecond() - began?.as_millisecond();
    Some(tenths(passed_ms as f64 / 1000.0))
}

/// Seconds to a tenth, `None` for zero. Empty if there are none at all.
fn where_known(seconds: impl Iterator<Item = Option<f64>>) -> Vec<Option<f64>> {
    let of_run = |seconds: Option<f64>| seconds.map(tenths).filter(|seconds| *seconds > 0.0);
    let seconds: Vec<Option<f64>> = seconds.map(of_run).collect();
    if seconds.iter().all(Option::is_none) {
        Vec::new()
    } else {
        seconds
    }
}

fn tenths(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

fn servers(inputs: &Inputs<'_>, began: Option<Timestamp>) -> Vec<Value> {
    let servers = inputs.state.servers.iter().map(|(id, server)| {
        let starts = server.launches.iter().enumerate().map(|(at, start)| {
            let from = since(began, &start.started_at);
            let ready = start.ready_at.as_deref().and_then(|moment| since(began, moment));
            json!({
                "start": at + 1,
                "from": from,
                "ready": ready.zip(from).map(|(ready, from)| tenths(ready - from)),
                "to": start.exited_at.as_deref().and_then(|moment| since(began, moment)),
                "known": inputs.state.last_moment(start.launch.session).and_then(|moment| since(began, moment)),
                "stop": start.exit.seconds.map(tenths),
                "cause": start.exit.cause.map(|cause| cause.name()),
                "gpus": start.gpus,
                "node": inputs.state.machine_of(start.launch.session).map(|machine| machine.node),
            })
        });
        json!({
            "id": id,
            "name": server.name,
            "command": shell_command(&server.env, &server.argv),
            "starts": starts.collect::<Vec<_>>(),
        })
    });
    servers.collect()
}

/// One column: its names and its kind, then `all` (one value for every row), `of` and `at` (a dictionary), or `each`.
fn encode_column(column: &Column) -> Value {
    let kind = match column.section {
        Section::Identity | Section::Cause => "run",
        Section::Serve => "serve",
        Section::Bench => "bench",
        Section::Origin => "origin",
        Section::Metric | Section::Derived => "figure",
    };
    let mut encoded = json!({"name": column.name, "title": axis_title(&column.name), "kind": kind});
    if column.section.is_parameter() {
        encoded["short"] = short_name(&column.name).into();
    }
    if let Some(same) = column.cells.same() {
        encoded["all"] = encode_cell(same);
        return encoded;
    }
    let Dictionary { mut of, at } = Dictionary::of(column.cells.iter().map(|cell| encode_cell(&cell)));
    match of.len() {
        1 => encoded["all"] = of.remove(0),
        count if count > 0 && count * 4 <= at.len() => {
            encoded["of"] = of.into();
            encoded["at"] = at.into();
        }
        _ => encoded["each"] = at.iter().map(|place| of[*place].clone()).collect(),
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::words::show_number;
    use proptest::prelude::*;
    use vsweep_record::table::Cell;

    proptest! {
        #[test]
        fn a_rounded_number_is_shown_as_the_whole_one(number in 1e-3f64..1e7, power in -3i32..4) {
            let number = number * 10_f64.powi(power);
            prop_assert_eq!(show_number(round(number)), show_number(number));
        }
    }

    fn column(cells: Vec<Cell>) -> String {
        let column = Column {
            name: "x".into(),
            section: Section::Metric,
            cells: cells.into_iter().collect(),
        };
        encode_column(&column).to_string()
    }

    #[test]
    fn columns_are_short() {
        let head = r#"{"name":"x","title":"x","kind":"figure","#;
        let float = |number: f64| Cell::Float(number);
        assert_eq!(column(vec![float(2.0); 9]), format!("{head}\"all\":2.0}}"));
        let two = [vec![float(f64::INFINITY); 4], vec![Cell::Missing; 4]].concat();
        assert_eq!(
            column(two),
            format!("{head}\"of\":[\"inf\",null],\"at\":[0,0,0,0,1,1,1,1]}}")
        );
        assert_eq!(
            column(vec![float(1234.5678), Cell::Text("</script>".into())]),
            format!("{head}\"each\":[1234.6,\"</script>\"]}}")
        );
        assert_eq!(
            column(vec![float(224_199.7), float(12_345_678.0)]),
            format!("{head}\"each\":[224200.0,12346000.0]}}")
        );
    }
}
