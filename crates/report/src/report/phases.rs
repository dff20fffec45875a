//! The report of `vsweep phases`: rows of prefill and decode throughput as JSON, as a Markdown page, and as two charts.
//! Everything is drawn from the rows; nothing is measured here.

use super::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style, Tick};
use super::markdown::escape;
use super::words::show_number;
use serde_json::{Map, Value, json};
use std::fmt::Write;

type Row = Map<String, Value>;

/// Rows measured so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Phases {
    model: String,
    simulated: bool,
    prefill: Vec<Row>,
    decode: Vec<Row>,
}

impl Phases {
    /// No rows yet.
    pub fn new(model: &str, simulated: bool) -> Phases {
        Phases {
            model: model.to_owned(),
            simulated,
            prefill: Vec::new(),
            decode: Vec::new(),
        }
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.prefill.is_empty() && self.decode.is_empty()
    }

    /// Adds a row of the phase of this name.
    pub fn add(&mut self, phase: &str, row: Row) {
        match phase {
            "prefill" => self.prefill.push(row),
            _ => self.decode.push(row),
        }
    }

    /// The rows as a file.
    pub fn json(&self) -> String {
        let mut document = json!({"prefill": self.prefill, "decode": self.decode});
        if self.simulated {
            document["simulated"] = json!(true);
        }
        serde_json::to_string_pretty(&document).expect("JSON values can be written") + "\n"
    }

    /// The rows as a page.
    pub fn markdown(&self) -> String {
        let mut page = format!("# Benchmark: {}\n\n", escape(&self.model));
        if self.simulated {
            page.push_str("**Simulated: these figures are of no real server.**\n\n");
        }
        self.configuration(&mut page);
        if !self.prefill.is_empty() {
            let head = [
                "Concurrency",
                "Input Tokens",
                "Seq Len",
                "Prefill tok/s",
                "TTFT p50 (ms)",
            ];
            let row = |row: &Row| {
                vec![
                    text(row, "concurrency"),
                    text(row, "input_len"),
                    text(row, "seq_len"),
                    rate(row, "total_throughput"),
                    rate(row, "median_ttft_ms"),
                ]
            };
            page.push_str("\n## Prefill\n\n");
            table(&mut page, &head, self.prefill.iter().map(row));
        }
        if !self.decode.is_empty() {
            page.push_str("\n## Decode\n");
        }
        for (ratio, rows) in self.by_ratio() {
            let _ = write!(
                page,
                "\n### {}% input / {}% output\n\n",
                percent(ratio),
                percent(1.0 - ratio)
            );
            let head = [
                "Concurrency",
                "Input",
                "Output",
                "Seq Len",
                "Out tok/s",
                "Total tok/s",
                "95 % ±",
                "ITL p50 (ms)",
            ];
            let row = |row: &&Row| {
                vec![
                    text(row, "concurrency"),
                    text(row, "input_len"),
                    text(row, "output_len"),
                    text(row, "seq_len"),
                    rate(row, "output_throughput"),
                    rate(row, "total_throughput"),
                    margin(row),
                    rate(row, "median_itl_ms"),
                ]
            };
            table(&mut page, &head, rows.iter().map(row));
        }
        self.cautions(&mut page);
        page
    }

    fn configuration(&self, page: &mut String) {
        let Some(row) = self.rows().next() else {
            return;
        };
        let state = |key: &str| match row.get(key) {
            Some(Value::Bool(true)) => "enabled".to_owned(),
            Some(Value::Bool(false)) => "disabled".to_owned(),
            _ => "unknown".to_owned(),
        };
        let warmups: Vec<f64> = self.rows().filter_map(|row| row.get("warmup_s")?.as_f64()).collect();
        let least = warmups.iter().copied().fold(f64::INFINITY, f64::min);
        let most = warmups.iter().copied().fold(0.0, f64::max);
        let date = row.get("date").and_then(Value::as_str).unwrap_or_default();
        let lines = [
            ("Model", escape(&self.model)),
            ("TP", text(row, "tensor_parallel")),
            ("Engines (DP)", text(row, "engines")),
            ("Max Model Len", text(row, "sequence_limit")),
            ("KV Cache Tokens", text(row, "kv_capacity_tokens")),
            ("KV Cache Dtype", text(row, "kv_cache_dtype")),
            ("Prefix Caching", state("prefix_caching")),
            ("Warmup", format!("{least:.1} to {most:.1} s")),
            ("Measurement", format!("{} s", text(row, "elapsed_s"))),
            ("Date", date.to_owned()),
        ];
        page.push_str("## Server Configuration\n\n");
        let rows = lines.into_iter().map(|(name, value)| vec![name.to_owned(), value]);
        table(page, &["Parameter", "Value"], rows);
    }

    fn cautions(&self, page: &mut String) {
        let mut sentences: Vec<String> = Vec::new();
        for row in self.rows() {
            for warning in row.get("warnings").and_then(Value::as_array).into_iter().flatten() {
                let sentence = escape(warning.as_str().unwrap_or_default());
                if !sentences.contains(&sentence) {
                    sentences.push(sentence);
                }
            }
        }
        if !sentences.is_empty() {
            page.push_str("\n## Read with care\n\n");
            sentences.iter().for_each(|sentence| {
                let _ = writeln!(page, "- {sentence}");
            });
        }
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.prefill.iter().chain(&self.decode)
    }

    /// Decode rows by their ratio, in the order measured.
    fn by_ratio(&self) -> Vec<(f64, Vec<&Row>)> {
        let mut groups: Vec<(f64, Vec<&Row>)> = Vec::new();
        for row in &self.decode {
            let ratio = number(row, "ratio").unwrap_or(0.0);
            match groups.iter_mut().find(|(known, _)| *known == ratio) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((ratio, vec![row])),
            }
        }
        groups
    }

    /// A picture of each phase that was measured.
    pub fn charts(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        if !self.prefill.is_empty() {
            let rows: Vec<&Row> = self.prefill.iter().collect();
            let curve = series("prefill", 0, &rows, "total_throughput", true);
            let panel = self.panel("", &self.prefill, "Prefill throughput (tokens/s)", vec![curve]);
            charts.push(self.chart("prefill", "Prefill throughput against concurrency", vec![panel]));
        }
        if !self.decode.is_empty() {
            let groups = self.by_ratio();
            let panel = |title: &str, metric: &str, axis: &str| {
                let curves = groups.iter().enumerate().map(|(i, (ratio, rows))| {
                    let name = format!("{} % input", percent(*ratio));
                    series(&name, i, rows, metric, metric == "total_throughput")
                });
                self.panel(title, &self.decode, axis, curves.collect())
            };
            let panels = vec![
                panel("Output", "output_throughput", "Output tokens/s"),
                panel("Prompts and output", "total_throughput", "Tokens/s in all"),
            ];
            charts.push(self.chart("decode", "Decode throughput against concurrency", panels));
        }
        charts
    }

    fn chart(&self, name: &str, title: &str, panels: Vec<Panel>) -> Chart {
        let row = self.rows().next();
        let seconds = row.map(|row| text(row, "elapsed_s")).unwrap_or_default();
        let capacity = row
            .and_then(|row| number(row, "kv_capacity_tokens"))
            .map_or("?".to_owned(), show_number);
        let has_bars = panels.iter().flat_map(|panel| &panel.series);
        let has_bars = has_bars
            .flat_map(|series| &series.points)
            .any(|mark| mark.bar.is_some());
        let bars = if has_bars {
            "; bars are 95 % intervals within that time"
        } else {
            ""
        };
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            note: format!(
                "Sequences share a KV cache of {capacity} tokens, so they are shorter at higher concurrency. \
                 Measured over {seconds} s{bars}."
            ),
            footer: self.model.clone(),
            simulated: self.simulated,
            columns: panels.len(),
            panels,
        }
    }

    fn panel(&self, title: &str, rows: &[Row], y: &str, series: Vec<Series>) -> Panel {
        let mut levels: Vec<f64> = rows.iter().filter_map(|row| number(row, "concurrency")).collect();
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup();
        let ticks = levels.into_iter().map(|at| Tick {
            at,
            label: show_number(at),
        });
        Panel {
            title: title.to_owned(),
            x: Axis {
                title: "Concurrent requests".to_owned(),
                scale: Scale::Log,
                ticks: ticks.collect(),
                covers: None,
            },
            y: Axis::of(y, Scale::Linear),
            series,
        }
    }
}

fn series(name: &str, place: usize, rows: &[&Row], metric: &str, has_bars: bool) -> Series {
    let mark = |row: &&Row| {
        let bar = interval(row).filter(|_| has_bars);
        Some(Mark {
            x: number(row, "concurrency")?,
            y: number(row, metric)?,
            bar,
            label: Vec::new(),
            suspect: false,
        })
    };
    let mut points: Vec<Mark> = rows.iter().filter_map(mark).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series {
        name: name.to_owned(),
        style: Style::Curve(place),
        points,
    }
}

fn number(row: &Row, key: &str) -> Option<f64> {
    row.get(key)?.as_f64()
}

fn interval(row: &Row) -> Option<(f64, f64)> {
    let ends = row.get("confidence_95")?.get("total_throughput")?;
    Some((ends[0].as_f64()?, ends[1].as_f64()?))
}

fn text(row: &Row, key: &str) -> String {
    match row.get(key) {
        None | Some(Value::Null) => "unknown".to_owned(),
        Some(Value::String(text)) => escape(text),
        Some(other) => other.to_string(),
    }
}

fn rate(row: &Row, key: &str) -> String {
    number(row, key).map_or("-".to_owned(), |rate| format!("{rate:.1}"))
}

/// A share in percent, with one decimal at most.
fn percent(share: f64) -> String {
    show_number((share * 1000.0).round() / 10.0)
}

/// Half the 95 % interval as a share of the middle.
fn margin(row: &Row) -> String {
    interval(row).map_or("-".to_owned(), |(low, high)| {
        format!("{:.1} %", (high - low) / (high + low).max(f64::MIN_POSITIVE) * 100.0)
    })
}

fn table(page: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let _ = writeln!(page, "| {} |", head.join(" | "));
    let _ = writeln!(page, "|{}", " --- |".repeat(head.len()));
    rows.for_each(|row| {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, concurrency: u64, rate: f64) -> Row {
        let value = json!({
            "ratio": ratio, "concurrency": concurrency, "input_len": 99, "output_len": 1, "seq_len": 100,
            "elapsed_s": 15.0, "output_throughput": rate / 100.0, "total_throughput": rate, "warmup_s": 5.0,
            "confidence_95": {"total_throughput": [rate * 0.9, rate * 1.1]}, "kv_capacity_tokens": 6400,
            "warnings": ["a | b"],
        });
        value.as_object().cloned().expect("an object")
    }

    fn phases() -> Phases {
        let mut phases = Phases::new("org/m", true);
        phases.add("prefill", row(0.99, 64, 2000.0));
        phases.add("prefill", row(0.99, 32, 1500.0));
        phases.add("decode", row(0.25, 32, 800.0));
        phases.add("decode", row(0.5, 32, 900.0));
        phases
    }

    #[test]
    fn the_page_has_a_table_for_each_ratio() {
        let page = phases().markdown();
        assert!(page.starts_with("# Benchmark: org/m\n\n**Simulated"), "{page}");
        assert!(page.contains("| 64 | 99 | 100 | 2000.0 | - |"), "{page}");
        assert!(
            page.contains("### 25% input / 75% output") && page.contains("### 50% input / 50% output"),
            "{page}"
        );
        assert_eq!(page.matches("a \\| b").count(), 1, "{page}");
    }

    #[test]
    fn each_phase_is_a_picture_with_its_levels_in_order() {
        let charts = phases().charts();
        let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
        assert_eq!(names, ["prefill", "decode"]);
        let xs: Vec<f64> = charts[0].panels[0].series[0].points.iter().map(|mark| mark.x).collect();
        assert_eq!(xs, [32.0, 64.0]);
        assert_eq!(charts[1].panels.len(), 2);
        assert_eq!(charts[1].panels[0].series.len(), 2);
        assert!(Phases::new("m", false).charts().is_empty());
    }
}
