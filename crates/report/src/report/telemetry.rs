//! What was read beside the runs, as small charts: `runs/<point>/<k>.telemetry.csv` of the runs that a page has room for,
//! thinned out. A file that is missing or damaged leaves its run without charts; nothing else depends on it.

use super::answer::Answer;
use super::distributions::shorten;
use itertools::Itertools;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use vsweep_record::journal::{Directory, RunRecord, State};
use vsweep_record::table::Points;

/// Most runs whose readings are read, and most bytes of them on a page.
const MOST_RUNS: usize = 200;
const MOST_BYTES: usize = 250_000;
/// Most places along a chart; more readings are put together.
const MOST_PLACES: usize = 90;

/// The readings on a page.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// One JSON object a run: its row in the table, seconds since t0, and the charts.
    pub runs: Vec<Value>,
    /// Points whose readings are there, but had no room.
    pub left_out: usize,
    /// Points with a run but without readings.
    pub missing: usize,
}

/// Gathers the readings of one run for each point, those of the answer first.
pub fn gather(directory: &Directory, state: &State, points: &Points<'_>, answers: &[Answer]) -> Telemetry {
    let records: Vec<&RunRecord> = state.runs().collect();
    let path = |row: usize| records.get(row).map(|run| run.files().telemetry(directory));
    let mut telemetry = Telemetry::default();
    let mut bytes = 0;
    for at in order(points, answers) {
        let point = &points.points[at];
        let row = point.used.first().copied().unwrap_or(point.row);
        let Some(path) = path(row).filter(|path| path.exists()) else {
            telemetry.missing += 1;
            continue;
        };
        if telemetry.runs.len() >= MOST_RUNS || bytes > MOST_BYTES {
            telemetry.left_out += 1;
            continue;
        }
        match read(&path).map(|readings| readings.charts(row)) {
            Some(charts) => {
                bytes += charts.to_string().len();
                telemetry.runs.push(charts);
            }
            None => telemetry.missing += 1,
        }
    }
    telemetry
}

/// The moment of a file's last reading, in seconds by its own count.
pub(super) fn last_second(path: &Path) -> Option<f64> {
    *read(path)?.columns.get("seconds")?.last()?
}

/// The readings of several files, one after the other, each from its moment on in seconds; null if there are none. Readings from
/// more than so many seconds before zero are left out.
pub(super) fn join(files: &[(f64, PathBuf)], seconds_back: f64) -> Value {
    let mut seconds: Vec<Value> = Vec::new();
    let mut charts: Vec<Value> = Vec::new();
    let files = files
        .iter()
        .filter_map(|(from, path)| Some((*from, read(path)?.since(-seconds_back - from).charts(0))));
    for (from, mut own) in files {
        let before = seconds.len();
        let moments = own["seconds"].as_array().map_or(&[][..], Vec::as_slice);
        let moments = moments.iter().map(|at| at.as_f64().unwrap_or_default() + from);
        // Readings begin before their run does, when those of the run before have not ended.
        let last = seconds.last().and_then(Value::as_f64).unwrap_or(f64::NEG_INFINITY);
        let known = moments.clone().take_while(|at| *at <= last).count();
        seconds.extend(moments.skip(known).map(|at| json!(shorten(at))));
        for chart in own["charts"].as_array_mut().into_iter().flatten() {
            for line in lines(chart) {
                line[1].as_array_mut().expect("a line has values").drain(..known);
            }
            let at = charts.iter().position(|known| known["title"] == chart["title"]);
            match at {
                Some(at) => extend(&mut charts[at], chart, before),
                None => {
                    lines(chart).iter_mut().for_each(|line| pad(line, before, true));
                    charts.push(chart.take());
                }
            }
        }
        for chart in &mut charts {
            lines(chart).iter_mut().for_each(|line| pad(line, seconds.len(), false));
        }
    }
    match seconds.is_empty() {
        true => Value::Null,
        false => json!({"seconds": seconds, "charts": charts}),
    }
}

fn lines(chart: &mut Value) -> &mut Vec<Value> {
    chart["lines"].as_array_mut().expect("a chart has lines")
}

/// Appends the lines of a chart to those of the same name.
fn extend(known: &mut Value, more: &mut Value, before: usize) {
    for mut line in lines(more).drain(..) {
        let same = lines(known).iter_mut().find(|other| other[0] == line[0]);
        match same {
            Some(other) => {
                let values = line[1].as_array().cloned().unwrap_or_default();
                other[1].as_array_mut().expect("a line has values").extend(values);
            }
            None => {
                pad(&mut line, before, true);
                lines(known).push(line);
            }
        }
    }
}

/// Makes a line so long, or so much longer at its beginning, with readings that are unknown.
fn pad(line: &mut Value, count: usize, is_begin: bool) {
    let values = line[1].as_array_mut().expect("a line has values");
    if is_begin {
        values.splice(0..0, vec![Value::Null; count]);
    } else {
        values.resize(count.max(values.len()), Value::Null);
    }
}

/// Places of all points: the best ones, the knee, the frontier, the rest.
pub(super) fn order(points: &Points<'_>, answers: &[Answer]) -> Vec<usize> {
    let bests = answers.iter().flat_map(|answer| &answer.bests).map(|best| best.point);
    let knees = answers.iter().filter_map(|answer| answer.knee);
    let front = knees.chain(answers.iter().flat_map(|answer| answer.frontier.iter().copied()));
    bests.chain(front).chain(0..points.points.len()).unique().collect()
}

/// The columns of one file by name; an empty or unreadable cell is no number.
struct Readings {
    columns: HashMap<String, Vec<Option<f64>>>,
    /// GPUs, by the begin of their columns' names.
    gpus: Vec<String>,
    /// Whether some GPU was slowed down.
    slowed: Vec<Option<f64>>,
}

fn read(path: &Path) -> Option<Readings> {
    let mut reader = csv::Reader::from_path(path).ok()?;
    let names: Vec<String> = reader.headers().ok()?.iter().map(str::to_owned).collect();
    // The last line of a run that goes on may be half written.
    let records: Vec<csv::StringRecord> = reader.records().map_while(Result::ok).collect();
    let column = |at: usize| records.iter().map(|record| record.get(at)?.parse().ok()).collect();
    let gpus = names
        .iter()
        .filter_map(|name| name.strip_suffix("_power_watts"))
        .map(str::to_owned);
    let throttles: Vec<usize> = (0..names.len())
        .filter(|at| names[*at].ends_with("_throttle"))
        .collect();
    let slowed = |record: &csv::StringRecord| {
        let mut reasons = throttles
            .iter()
            .filter_map(|at| record.get(*at))
            .filter(|reason| !reason.is_empty())
            .peekable();
        reasons.peek()?;
        Some(f64::from(u8::from(reasons.any(|reason| reason != "none"))))
    };
    let readings = Readings {
        gpus: gpus.collect(),
        slowed: records.iter().map(slowed).collect(),
        columns: names
            .iter()
            .enumerate()
            .map(|(at, name)| (name.clone(), column(at)))
            .collect(),
    };
    (!records.is_empty() && readings.columns.contains_key("seconds")).then_some(readings)
}

impl Readings {
    /// Those from a moment on.
    fn since(mut self, from: f64) -> Readings {
        let seconds = self.columns.get("seconds").cloned().unwrap_or_default();
        let old = seconds.iter().take_while(|at| at.is_some_and(|at| at < from)).count();
        self.columns.values_mut().for_each(|column| drop(column.drain(..old)));
        self.slowed.drain(..old);
        self
    }

    fn charts(&self, row: usize) -> Value {
        let chart = |title: &str, unit: &str, lines: &[(&str, Vec<Option<f64>>)]| {
            let told = lines.iter().filter(|(_, values)| values.iter().any(Option::is_some));
            let told: Vec<Value> = told.map(|(name, values)| json!([name, self.thin(values)])).collect();
            (!told.is_empty()).then(|| json!({"title": title, "unit": unit, "lines": told}))
        };
        let named = |name: &str| self.columns.get(name).cloned().unwrap_or_default();
        let percent = |values: Vec<Option<f64>>| values.into_iter().map(|value| Some(value? * 100.0)).collect();
        let preemptions = named("preemptions");
        let has_preempted = preemptions.iter().flatten().any(|count| *count > 0.0);
        let slowed = self.slowed.iter().flatten().any(|share| *share > 0.0);
        let charts = [
            chart(
                "Requests",
                "",
                &[("running", named("running")), ("waiting", named("waiting"))],
            ),
            chart("KV cache in use", "%", &[("", percent(named("kv_cache_usage")))]),
            chart("Output tokens", "tokens/s", &[("", self.rate("generation_tokens"))]),
            chart("Preemptions so far", "", &[("", preemptions)]).filter(|_| has_preempted),
            chart(
                "GPU power, all GPUs",
                "W",
                &[("", self.over_gpus("power_watts", |sum, value| sum + value))],
            ),
            chart(
                "GPU utilization, lowest GPU",
                "%",
                &[("", percent(self.over_gpus("utilization", f64::min)))],
            ),
            chart(
                "GPU memory, fullest GPU",
                "GiB",
                &[("", self.over_gpus("memory_gib", f64::max))],
            ),
            chart(
                "SM clock, slowest GPU",
                "MHz",
                &[("", self.over_gpus("sm_clock_mhz", f64::min))],
            ),
            chart(
                "GPUs slowed down",
                "% of readings",
                &[("", percent(self.slowed.clone()))],
            )
            .filter(|_| slowed),
            chart("Host CPU busy", "%", &[("", percent(named("host_cpu_share")))]),
        ];
        let seconds = self.thin(&named("seconds"));
        json!({"row": row, "seconds": seconds, "charts": charts.into_iter().flatten().collect::<Vec<_>>()})
    }

    /// One figure of all GPUs together; unknown where one of them does not tell.
    fn over_gpus(&self, name: &str, join: fn(f64, f64) -> f64) -> Vec<Option<f64>> {
        let columns = self
            .gpus
            .iter()
            .filter_map(|gpu| self.columns.get(&format!("{gpu}_{name}")));
        let joined = columns.cloned().reduce(|one, other| {
            let pairs = one.into_iter().zip(other);
            pairs.map(|(one, other)| Some(join(one?, other?))).collect()
        });
        joined.unwrap_or_default()
    }

    /// Growth of a counter a second, since the reading before.
    fn rate(&self, name: &str) -> Vec<Option<f64>> {
        let (Some(values), Some(seconds)) = (self.columns.get(name), self.columns.get("seconds")) else {
            return Vec::new();
        };
        let rate = |i: usize| {
            let before = i.checked_sub(1)?;
            let passed = (seconds[i]? - seconds[before]?).max(1e-3);
            Some((values[i]? - values[before]?) / passed)
        };
        (0..values.len()).map(rate).collect()
    }

    /// Means of equal parts where there are too many readings, with four digits.
    fn thin(&self, values: &[Option<f64>]) -> Vec<Option<f64>> {
        let part = values.len().div_ceil(MOST_PLACES).max(1);
        let mean = |part: &[Option<f64>]| {
            let known: Vec<f64> = part.iter().copied().flatten().collect();
            (!known.is_empty()).then(|| shorten(known.iter().sum::<f64>() / known.len() as f64))
        };
        values.chunks(part).map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn charts(text: &str) -> Value {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("0.telemetry.csv");
        fs::write(&path, text).expect("written");
        read(&path).map_or(Value::Null, |readings| readings.charts(7))
    }

    #[test]
    fn gpus_are_joined_and_counters_become_rates() {
        let text = "seconds,running,generation_tokens,gpu0_power_watts,gpu1_power_watts,gpu0_throttle,gpu1_throttle\n\
            -0.5,0,0,100,110,none,none\n0.5,8,500,400,,none,sw_power_cap\n1.5,8,1500,400,410,,\n";
        let charts = charts(text);
        assert_eq!(charts["row"], 7);
        let lines: Vec<String> = charts["charts"]
            .as_array()
            .expect("charts")
            .iter()
            .map(|chart| {
                format!(
                    "{} {}",
                    chart["title"].as_str().unwrap_or_default(),
                    chart["lines"][0][1]
                )
            })
            .collect();
        let expected = [
            "Requests [0.0,8.0,8.0]",
            "Output tokens [null,500.0,1000.0]",
            "GPU power, all GPUs [210.0,null,810.0]",
            "GPUs slowed down [0.0,100.0,null]",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn many_readings_are_put_together() {
        let rows: String = (0..900).map(|i| format!("{i},{}\n", i % 2)).collect();
        let charts = charts(&format!("seconds,running\n{rows}"));
        let places = charts["charts"][0]["lines"][0][1].as_array().expect("values");
        assert_eq!((places.len(), &places[3]), (MOST_PLACES, &json!(0.5)));
    }

    #[test]
    fn readings_of_several_runs_stand_one_after_the_other() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let texts = [
            "seconds,running\n0,1\n1,2\n",
            "seconds,waiting\n-1,7\n0,8\n1,9\n",
            "",
            "seconds,running\n0,3\n",
        ];
        let files = texts.iter().enumerate().map(|(i, text)| {
            let path = folder.path().join(format!("{i}.csv"));
            fs::write(&path, text).expect("written");
            // The second begins before the first has ended.
            (-30.0 + [0.0, 1.5, 5.0, 9.0][i], path)
        });
        let files: Vec<_> = files.collect();
        let joined = join(&files, 300.0);
        assert_eq!(joined["seconds"], json!([-30.0, -29.0, -28.5, -27.5, -21.0]));
        let lines = json!([
            ["running", [1.0, 2.0, null, null, 3.0]],
            ["waiting", [null, null, 8.0, 9.0, null]]
        ]);
        assert_eq!(
            joined["charts"],
            json!([{"title": "Requests", "unit": "", "lines": lines}])
        );
        assert_eq!(join(&[], 300.0), Value::Null);
        assert_eq!(join(&files, 28.5)["seconds"], json!([-28.5, -27.5, -21.0]));
        assert_eq!(last_second(&files[1].1), Some(1.0));
        assert_eq!(last_second(&files[2].1), None);
    }

    #[test]
    fn what_is_no_telemetry_has_no_charts() {
        for text in ["", "seconds\n", "a,b\n1,2\n", "seconds,a\n1\n"] {
            assert_eq!(charts(text), Value::Null, "{text}");
        }
    }
}
