//! Small charts of the telemetry: `runs/<point>/<k>.telemetry.csv` of the runs that are shown on the page, thinned out. A run whose file is
//! missing or damaged has no charts; nothing else depends on these files.

use super::findings::answer::WorkloadAnswer;
use itertools::Itertools;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vsweep_base::files;
use vsweep_base::units::to_four_digits;
use vsweep_record::journal::{Directory, RunRecord, State};
use vsweep_record::table::Points;

/// Most runs whose readings are on a page.
const MOST_RUNS: usize = 200;
/// Bytes of readings after which a page gets no more.
const MOST_BYTES: usize = 250_000;
/// Most places along a chart; more readings are averaged.
const MOST_PLACES: usize = 90;

/// The readings on a page.
#[derive(Debug, Default, Serialize)]
pub struct Telemetry {
    /// One JSON object for each run: its row in the table, the times of its readings in seconds from the beginning of the measurement, and
    /// the charts.
    pub runs: Vec<Value>,
    /// Number of points whose readings exist but had no room.
    pub left_out: usize,
    /// Number of points with a run but without readings.
    pub missing: usize,
}

/// Gathers the readings of one run for each point, those of the answer first.
pub fn gather(directory: &Directory, state: &State, points: &Points<'_>, answers: &[WorkloadAnswer]) -> Telemetry {
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
        match of_run(&path, row) {
            Some(run) => {
                bytes += run.to_string().len();
                telemetry.runs.push(run);
            }
            None => telemetry.missing += 1,
        }
    }
    telemetry
}

/// The charts of one run, which has this row in the table.
fn of_run(path: &Path, row: usize) -> Option<Value> {
    let readings = thin(&read(path));
    let mut run = charts(&readings);
    run["row"] = row.into();
    (!readings.is_empty()).then_some(run)
}

/// Time of a file's last reading, in seconds as the file counts them.
pub(super) fn last_second(path: &Path) -> Option<f64> {
    Some(read(path).last()?.second)
}

/// Charts of the readings of several files, one after the other; null if there are none. Each file comes with the time, in seconds, at
/// which its count begins. Readings before `-seconds_back` are left out.
pub(super) fn join(files: &[(f64, PathBuf)], seconds_back: f64) -> Value {
    let mut joined: Vec<TelemetryReading> = Vec::new();
    for (from, path) in files {
        let mut readings = read(path);
        readings.retain(|reading| reading.second + from >= -seconds_back);
        // The readings of a run begin before the run does, and may overlap those of the run before.
        let last = joined.last().map_or(f64::NEG_INFINITY, |reading| reading.second);
        let moved = thin(&readings).into_iter().map(|reading| TelemetryReading {
            second: to_four_digits(reading.second + from),
            ..reading
        });
        joined.extend(moved.filter(|reading| reading.second > last));
    }
    match joined.is_empty() {
        true => Value::Null,
        false => charts(&joined),
    }
}

/// Indices of all points, the most important first: the best ones, the knees, the frontiers, the rest.
pub(super) fn order(points: &Points<'_>, answers: &[WorkloadAnswer]) -> Vec<usize> {
    let bests = answers.iter().flat_map(WorkloadAnswer::bests);
    let knees = answers.iter().filter_map(|answer| answer.knee);
    let front = knees.chain(answers.iter().flat_map(|answer| answer.frontier.iter().copied()));
    bests.chain(front).chain(0..points.points.len()).unique().collect()
}

/// Reads a value from a line of a file.
type ReadValue = fn(&CsvLine<'_>) -> Option<f64>;

/// The lines of the charts: title and unit of the chart, name of the line if the chart has several, and value.
const LINES: [(&str, &str, &str, ReadValue); 11] = [
    ("Requests", "", "running", |line| line.number("running")),
    ("Requests", "", "waiting", |line| line.number("waiting")),
    ("KV cache in use", "%", "", |line| {
        percent(line.number("kv_cache_usage"))
    }),
    ("Output tokens", "tokens/s", "", |line| line.rate("generation_tokens")),
    ("Preemptions so far", "", "", |line| line.number("preemptions")),
    ("GPU power, all GPUs", "W", "", |line| {
        line.over_gpus("_power_watts", |sum, value| sum + value)
    }),
    ("GPU utilisation, lowest GPU", "%", "", |line| {
        percent(line.over_gpus("_utilization", f64::min))
    }),
    ("GPU memory, fullest GPU", "GiB", "", |line| {
        line.over_gpus("_memory_gib", f64::max)
    }),
    ("SM clock, slowest GPU", "MHz", "", |line| {
        line.over_gpus("_sm_clock_mhz", f64::min)
    }),
    ("GPUs slowed down", "% of readings", "", |line| percent(line.slowed())),
    ("Host CPU busy", "%", "", |line| percent(line.number("host_cpu_share"))),
];
/// Charts that are left out if all their values are zero.
const SELDOM: [&str; 2] = ["Preemptions so far", "GPUs slowed down"];

/// The readings of one moment, or the means of several: a value for each of [`LINES`], if known.
struct TelemetryReading {
    second: f64,
    values: [Option<f64>; LINES.len()],
}

/// The readings of a file; empty if it does not hold telemetry.
fn read(path: &Path) -> Vec<TelemetryReading> {
    let Ok(content) = files::read(path, files::MOST_TEXT) else {
        return Vec::new();
    };
    let mut reader = csv::Reader::from_reader(&content[..]);
    let Ok(names) = reader.headers().cloned() else {
        return Vec::new();
    };
    // Reading ends at the first bad line, because the last line of a run in progress may be half written.
    let records: Vec<csv::StringRecord> = reader.records().map_while(Result::ok).collect();
    let reading = |(at, record): (usize, &csv::StringRecord)| {
        let line = CsvLine {
            names: &names,
            record,
            before: at.checked_sub(1).map(|before| &records[before]),
        };
        Some(TelemetryReading {
            second: line.number("seconds")?,
            values: LINES.map(|(.., value)| value(&line)),
        })
    };
    records.iter().enumerate().filter_map(reading).collect()
}

fn percent(share: Option<f64>) -> Option<f64> {
    Some(share? * 100.0)
}

/// A line of a file, and the one before. Empty or unreadable cells have no value.
struct CsvLine<'a> {
    names: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
    before: Option<&'a csv::StringRecord>,
}

impl CsvLine<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        self.number_in(self.record, name)
    }

    fn number_in(&self, record: &csv::StringRecord, name: &str) -> Option<f64> {
        let at = self.names.iter().position(|known| known == name)?;
        record.get(at)?.parse().ok()
    }

    /// The cells of all GPUs in the columns whose names end in `end`.
    fn of_gpus(&self, end: &str) -> impl Iterator<Item = &str> {
        let cells = self.names.iter().zip(self.record);
        let own = cells.filter(move |(name, _)| name.starts_with("gpu") && name.ends_with(end));
        own.map(|(_, cell)| cell)
    }

    /// One figure of all GPUs together; `None` if one of them lacks it.
    fn over_gpus(&self, end: &str, join: fn(f64, f64) -> f64) -> Option<f64> {
        let numbers = self.of_gpus(end).map(|cell| cell.parse().ok());
        numbers.reduce(|one, other| Some(join(one?, other?)))?
    }

    /// 1 if some GPU was slowed down, 0 if none was; `None` if unknown.
    fn slowed(&self) -> Option<f64> {
        let mut reasons = self.of_gpus("_throttle").filter(|reason| !reason.is_empty()).peekable();
        reasons.peek()?;
        Some(f64::from(u8::from(reasons.any(|reason| reason != "none"))))
    }

    /// Growth of a counter per second since the line before.
    fn rate(&self, name: &str) -> Option<f64> {
        let before = self.before?;
        let growth = |name: &str| Some(self.number(name)? - self.number_in(before, name)?);
        Some(growth(name)? / growth("seconds")?.max(1e-3))
    }
}

/// Averages parts of equal size if there are too many readings. Values have four digits.
fn thin(readings: &[TelemetryReading]) -> Vec<TelemetryReading> {
    let part = readings.len().div_ceil(MOST_PLACES).max(1);
    let mean = |part: &[TelemetryReading]| TelemetryReading {
        second: to_four_digits(part.iter().map(|reading| reading.second).sum::<f64>() / part.len() as f64),
        values: std::array::from_fn(|line| {
            let known: Vec<f64> = part.iter().filter_map(|reading| reading.values[line]).collect();
            (!known.is_empty()).then(|| to_four_digits(known.iter().sum::<f64>() / known.len() as f64))
        }),
    };
    readings.chunks(part).map(mean).collect()
}

/// The charts that have anything to show, each with its lines: name and values.
fn charts(readings: &[TelemetryReading]) -> Value {
    let mut charts: Vec<Value> = Vec::new();
    for (at, (title, unit, name, _)) in LINES.iter().enumerate() {
        let values: Vec<Option<f64>> = readings.iter().map(|reading| reading.values[at]).collect();
        let is_shown = |value: &f64| *value > 0.0 || !SELDOM.contains(title);
        if !values.iter().flatten().any(is_shown) {
            continue;
        }
        match charts.last_mut().filter(|chart| chart["title"] == *title) {
            Some(chart) => chart["lines"]
                .as_array_mut()
                .expect("a chart has lines")
                .push(json!([name, values])),
            None => charts.push(json!({"title": title, "unit": unit, "lines": [[name, values]]})),
        }
    }
    let seconds: Vec<f64> = readings.iter().map(|reading| reading.second).collect();
    json!({"seconds": seconds, "charts": charts})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn charts_of(text: &str) -> Value {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("0.telemetry.csv");
        fs::write(&path, text).expect("written");
        of_run(&path, 7).unwrap_or_default()
    }

    #[test]
    fn gpus_are_joined_and_counters_become_rates() {
        let text = "seconds,running,generation_tokens,gpu0_power_watts,gpu1_power_watts,gpu0_throttle,gpu1_throttle\n\
            -0.5,0,0,100,110,none,none\n0.5,8,500,400,,none,sw_power_cap\n1.5,8,1500,400,410,,\n";
        let charts = charts_of(text);
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
        let charts = charts_of(&format!("seconds,running\n{rows}"));
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
            assert_eq!(charts_of(text), Value::Null, "{text}");
        }
    }
}
