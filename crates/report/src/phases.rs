//! The report of `vsweep bench phases`: rows of prefill and decode throughput as JSON, as a Markdown page, and as two charts.
//! Everything is drawn from the rows; nothing is measured here.

use super::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style, Tick};
use super::html::text::safe;
use super::texts::markdown;
use super::texts::template::fill;
use super::texts::words::show_number;
use crate::ordered::Ordered;
use itertools::Itertools;
use minijinja::context;
use minijinja::value::Serde;
use serde_json::{Value, json};
use vsweep_plan::Params;

/// Rows measured so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Phases {
    model: String,
    simulated: bool,
    prefill: Vec<Params>,
    decode: Vec<Params>,
}

impl Phases {
    /// A report without rows.
    pub fn new(model: &str, simulated: bool) -> Phases {
        Phases {
            model: model.to_owned(),
            simulated,
            prefill: Vec::new(),
            decode: Vec::new(),
        }
    }

    /// Returns true if nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.prefill.is_empty() && self.decode.is_empty()
    }

    /// Adds a row to the phase `prefill`, or to decode if `phase` is anything else.
    pub fn add(&mut self, phase: &str, row: Params) {
        match phase {
            "prefill" => self.prefill.push(row),
            _ => self.decode.push(row),
        }
    }

    /// The rows as JSON text.
    pub fn json(&self) -> String {
        let mut document = json!({"prefill": self.prefill, "decode": self.decode});
        if self.simulated {
            document["simulated"] = json!(true);
        }
        serde_json::to_string_pretty(&document).expect("JSON values can be written") + "\n"
    }

    /// The rows as a Markdown page.
    pub fn markdown(&self) -> String {
        let warmups = self.rows().filter_map(|row| number(row, "warmup_s"));
        let (least, most) = warmups.fold((f64::INFINITY, 0.0_f64), |(least, most), seconds| {
            (least.min(seconds), most.max(seconds))
        });
        let decode = self.by_ratio().into_iter().map(|(ratio, rows)| {
            let rows = rows.into_iter().map(|row| (Serde(row.clone()), margin(row)));
            (percent(ratio), percent(1.0 - ratio), rows.collect_vec())
        });
        let warnings = self.rows().filter_map(|row| row.get("warnings")?.as_array());
        let cautions = warnings.flatten().filter_map(Value::as_str).map(str::to_owned);
        let parts = context! {
            model => self.model.as_str(),
            simulated => self.simulated,
            first => self.rows().next().cloned().map(Serde),
            warmups => [least, most].map(|seconds| format!("{seconds:.1}")),
            prefill => Serde(self.prefill.clone()),
            decode => decode.collect_vec(),
            cautions => cautions.unique().collect_vec(),
        };
        let mut page = markdown::environment();
        page.add_filter("known", known);
        page.add_filter("rate", rate);
        fill(&page, include_str!("phases.md.jinja"), parts)
    }

    fn rows(&self) -> impl Iterator<Item = &Params> {
        self.prefill.iter().chain(&self.decode)
    }

    /// Decode rows by their ratio, in the order measured.
    fn by_ratio(&self) -> Vec<(f64, Vec<&Params>)> {
        let ratio = |row: &Params| number(row, "ratio").unwrap_or(0.0);
        let of_ratio = |wanted: f64| {
            let rows = self.decode.iter().filter(|row| ratio(row) == wanted);
            (wanted, rows.collect())
        };
        let ratios = self.decode.iter().map(ratio);
        ratios.unique_by(|ratio| ratio.to_bits()).map(of_ratio).collect()
    }

    /// A chart of each phase that was measured.
    pub fn charts(&self) -> Vec<Chart> {
        let prefill = [("", "Prefill throughput (tokens/s)", "total_throughput")];
        let decode = [
            ("Output", "Output tokens/s", "output_throughput"),
            ("Prompts and output", "Tokens/s in all", "total_throughput"),
        ];
        let ratios = self.by_ratio().into_iter();
        let ratios = ratios.map(|(ratio, rows)| (format!("{} % input", percent(ratio)), rows));
        let curve = ("prefill".to_owned(), self.prefill.iter().collect());
        let charts = [
            self.chart(
                "prefill",
                "Prefill throughput against concurrency",
                &prefill,
                vec![curve],
            ),
            self.chart(
                "decode",
                "Decode throughput against concurrency",
                &decode,
                ratios.collect(),
            ),
        ];
        charts.into_iter().flatten().collect()
    }

    /// Draws a chart. Each panel is given by its title, the title of its y axis and a metric; each curve by its name and its rows. `None`
    /// without rows.
    fn chart(
        &self,
        name: &str,
        title: &str,
        panels: &[(&str, &str, &str)],
        curves: Vec<(String, Vec<&Params>)>,
    ) -> Option<Chart> {
        let rows = curves.iter().flat_map(|(_, rows)| rows);
        let levels = rows.filter_map(|row| number(row, "concurrency"));
        let levels = levels.ordered_by(f64::total_cmp).dedup().collect_vec();
        let ticks = levels.iter().map(|at| Tick {
            at: *at,
            label: show_number(*at),
        });
        let x = Axis::of("Concurrent requests", Scale::Log).with_ticks(ticks);
        let panels = panels.iter().map(|(title, y, metric)| {
            let curves = curves.iter().enumerate();
            let series = curves.map(|(index, (name, rows))| series(name, index, rows, metric));
            Panel {
                title: (*title).to_owned(),
                ..Panel::of(x.clone(), Axis::of(*y, Scale::Linear), series.collect())
            }
        });
        let panels = panels.collect_vec();
        let range = |key: &str| {
            let known = curves.iter().flat_map(|(_, rows)| rows);
            let known = known.filter_map(|row| number(row, key)).minmax_by(f64::total_cmp);
            let (least, most) = known.into_option()?;
            let (least, most) = (show_number(least), show_number(most));
            Some(match least == most {
                true => least,
                false => format!("{least} to {most}"),
            })
        };
        let seconds = range("elapsed_s").unwrap_or("unknown".to_owned());
        let capacity = range("kv_capacity_tokens").unwrap_or("?".to_owned());
        let bars = match panels.iter().flat_map(Panel::marks).any(|mark| mark.bar.is_some()) {
            true => "; bars are 95 % intervals within that time",
            false => "",
        };
        (!levels.is_empty()).then(|| Chart {
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
        })
    }
}

fn series(name: &str, index: usize, rows: &[&Params], metric: &str) -> Series {
    let mark = |row: &&Params| {
        Some(Mark {
            bar: interval(row).filter(|_| metric == "total_throughput"),
            ..Mark::at(number(row, "concurrency")?, number(row, metric)?)
        })
    };
    let points = rows.iter().filter_map(mark).ordered_by(|a, b| a.x.total_cmp(&b.x));
    Series::new(name, Style::Curve(index), points.collect())
}

fn number(row: &Params, key: &str) -> Option<f64> {
    row.get(key)?.as_f64()
}

fn interval(row: &Params) -> Option<(f64, f64)> {
    let ends = row.get("confidence_95")?.get("total_throughput")?;
    Some((ends[0].as_f64()?, ends[1].as_f64()?))
}

/// Replaces a missing setting by `unknown`.
fn known(value: minijinja::Value) -> minijinja::Value {
    match value.is_none() || value.is_undefined() {
        true => "unknown".into(),
        false => value,
    }
}

/// Formats a figure with one decimal, or as a dash if it is missing. The dash is not escaped, because a cell of a table cannot begin a
/// list.
fn rate(value: minijinja::Value) -> minijinja::Value {
    safe(f64::try_from(value).map_or("-".to_owned(), |rate| format!("{rate:.1}")))
}

/// A share in percent, with one decimal at most.
fn percent(share: f64) -> String {
    show_number((share * 1000.0).round() / 10.0)
}

/// Half the width of the 95 % interval, in percent of its middle.
fn margin(row: &Params) -> Option<f64> {
    let (low, high) = interval(row)?;
    Some((high - low) / (high + low).max(f64::MIN_POSITIVE) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, concurrency: u64, rate: f64) -> Params {
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
    fn each_phase_is_a_chart_with_its_levels_in_order() {
        let charts = phases().charts();
        let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
        assert_eq!(names, ["prefill", "decode"]);
        let xs: Vec<f64> = charts[0].panels[0].series[0].points.iter().map(|mark| mark.x).collect();
        assert_eq!(xs, [32.0, 64.0]);
        assert_eq!(charts[1].panels.len(), 2);
        assert_eq!(charts[1].panels[0].series.len(), 2);
        assert!(Phases::new("m", false).charts().is_empty());
    }

    #[test]
    fn each_chart_names_the_duration_of_its_own_rows() {
        let mut phases = phases();
        for (row, seconds) in phases.decode.iter_mut().zip([20.0, 25.5]) {
            row.insert("elapsed_s".to_owned(), json!(seconds));
        }
        let notes = phases.charts().into_iter().map(|chart| chart.note).collect_vec();
        assert!(notes[0].contains("Measured over 15 s;"), "{notes:?}");
        assert!(notes[1].contains("Measured over 20 to 25.5 s;"), "{notes:?}");
    }
}
