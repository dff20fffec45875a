//! Figures, settings and servers in words, as used by every text, label and axis. Titles of columns are in `columns`.

pub use crate::columns::{axis_title, short_name};

use itertools::Itertools;
use std::fmt::Display;
use vsweep_base::cause::RuledOut;
use vsweep_base::ids::ServerId;
use vsweep_record::journal::State;
use vsweep_record::table::{COMBO, Cell, Spread};

/// Ratios that differ from one by less are written as `within 1 % of`.
const ALIKE: f64 = 0.01;

/// A figure in a sentence: `p99 TTFT 80.9 ms`, `2,005 output tokens/s per GPU`.
pub fn say(column: &str, figure: &str) -> String {
    let title = axis_title(column);
    if let Some(rate) = rate(&title) {
        return format!("{figure} {rate}");
    }
    match title.strip_suffix(')').and_then(|title| title.rsplit_once(" (")) {
        // Money has its sign in front.
        Some((name, "$")) => format!("{name} ${figure}"),
        Some((name, unit)) => format!("{name} {figure} {unit}"),
        None => format!("{title} {figure}"),
    }
}

/// The throughput of a frontier, whose metric depends on whether GPUs are known.
pub fn throughput_in_words(metric: &str) -> &'static str {
    match metric {
        "tokens_per_gpu" => "throughput per GPU",
        _ => "throughput",
    }
}

/// The things that a rate counts: `output tokens/s`, `requests/s`; `None` for another figure.
fn rate(title: &str) -> Option<String> {
    match title
        .strip_suffix(')')
        .and_then(|title| title.split_once(" throughput ("))
    {
        Some((kind, unit)) if unit.starts_with(&lower_first(kind)) => Some(unit.to_owned()),
        Some((kind, unit)) => Some(format!("{} {unit}", lower_first(kind))),
        None => title.contains("tokens/s per ").then(|| lower_first(title)),
    }
}

/// A text with its first letter in lower case.
pub fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next();
    first.map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

/// Parameters that decide the duration of a run and not its subject. Labels, and lists of the settings that differ, leave them out unless
/// they come first.
pub const SIZING: [&str; 4] = ["duration", "duration_grace", "num_prompts", "num_warmups"];

/// A label of the plan as short as it can be understood: `fast TP 2, concurrency 8` for
/// `fast tensor_parallel_size=2, max_concurrency=8, num_prompts=80`.
pub fn short_label(label: &str) -> String {
    let said = settings(label)
        .into_iter()
        .map(|(name, value)| say_setting(&name, value));
    said.collect::<Vec<_>>().join(", ")
}

/// The name of a server config, as short as in charts; its id if it has no name.
pub fn server_name(server: &ServerId, state: &State) -> String {
    let name = state.servers.get(server).map(|record| short_label(&record.name));
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| server.to_string())
}

/// A setting by its short name, which may be empty, and its value: `TP 2`, `eager`, `no eager`. A named command line is its name alone.
pub fn say_setting(name: &str, value: &str) -> String {
    match (name, value) {
        // The name of a command line says enough.
        ("" | "command", value) => value.to_owned(),
        (name, "true") => name.to_owned(),
        (name, "false") => format!("no {name}"),
        // Lengths of prompts and answers.
        ("in" | "out", value) => format!("{value} {name}"),
        (name, value) => format!("{name} {value}"),
    }
}

/// The settings of a label of the plan as [`short_label`] shows them: short names and values, `("TP", "2")`. A part without a name gets an
/// empty name.
pub fn settings(label: &str) -> Vec<(String, &str)> {
    let mut settings = Vec::new();
    for part in label.split(", ").filter(|part| !part.is_empty()) {
        let Some((named, value)) = part.split_once('=') else {
            settings.push((String::new(), part));
            continue;
        };
        let (combo, name) = named.rsplit_once(' ').unwrap_or(("", named));
        if !SIZING.contains(&name) || settings.is_empty() {
            let name = format!("{combo} {}", short_name(name)).trim_start().to_owned();
            settings.push((name, value));
        }
    }
    settings
}

/// The names of some labels' settings, and each label's values: `TP/seqs` and `1/32`. `None` unless all have the same names.
pub fn brief_labels(labels: &[&str]) -> Option<(String, Vec<String>)> {
    let named = labels.iter().map(|label| settings(label).into_iter());
    let (names, values): (Vec<Vec<String>>, Vec<Vec<&str>>) = named.map(Iterator::unzip).unzip();
    let is_named = |names: &&Vec<String>| names.len() > 1 && !names.contains(&String::new());
    let heading = names.first().filter(is_named).filter(|_| names.iter().all_equal())?;
    Some((
        heading.join("/"),
        values.iter().map(|values| values.join("/")).collect(),
    ))
}

/// Reason why a server was not started, with the shortest understandable names.
pub fn with_short_names(ruled_out: &RuledOut) -> RuledOut {
    ruled_out.renamed(short_name, short_label)
}

/// A parameter and its value as short as they can be understood: `TP 2`, `concurrency 32`, `fp8`.
pub fn short_setting(name: &str, value: &Cell) -> String {
    let short = short_name(name);
    match value {
        // The name of a combination says enough.
        Cell::Text(name) if short.rsplit(' ').next() == Some(COMBO) => name.to_string(),
        Cell::Missing => format!("{short} unset"),
        Cell::Float(number) => format!("{short} {}", show_number(*number)),
        other => say_setting(&short, &other.to_string()),
    }
}

/// A parameter and its value in full: `max_num_seqs = 64`.
pub fn show_setting(name: &str, value: &Cell) -> String {
    match value {
        Cell::Missing => format!("{name} unset"),
        Cell::Float(number) => format!("{name} = {number}"),
        other => format!("{name} = {other}"),
    }
}

/// A number for people with about three significant digits: `0.25`, `12.5`, `1,250`, `1.2M`.
pub fn show_number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return value.to_string();
    }
    if size >= 1e15 || (size > 0.0 && size < 1e-4) {
        return format!("{value:.2e}");
    }
    if size >= 1e6 {
        return format!("{}M", trim_zeros(format!("{:.2}", value / 1e6)));
    }
    if size >= 100.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", vsweep_base::units::show_count(size.round() as u64));
    }
    trim_zeros(format!("{value:.0$}", decimals_of(size)))
}

/// Like [`show_number`], with trailing zeros, so that all figures of a column have equally many digits: `60.0`, `0.570`.
pub fn show_figure(value: f64) -> String {
    match value.abs() {
        size if size > 0.0 && size < 100.0 => show_digits(value, decimals_of(size)),
        _ => show_number(value),
    }
}

/// Figures that belong together, with the decimals of the first: a value and the ends of its interval. Whole numbers need none.
pub fn show_together<const N: usize>(values: [f64; N]) -> [String; N] {
    let is_plain = |value: &f64| value.is_finite() && (1e-4..1e6).contains(&value.abs().max(1e-4));
    let first = values[0].abs();
    if values.iter().all(|value| value.fract() == 0.0) || !values.iter().all(is_plain) || first == 0.0 {
        return values.map(show_number);
    }
    let decimals = if first >= 100.0 { 0 } else { decimals_of(first) };
    values.map(|value| show_digits(value, decimals))
}

/// A number with this many decimals. Without decimals, thousands have separators.
fn show_digits(value: f64, decimals: usize) -> String {
    match value.abs() >= 100.0 && decimals == 0 {
        true => show_number(value),
        false => format!("{value:.decimals$}"),
    }
}

/// Decimals of a number below 100 that leave three significant digits.
fn decimals_of(size: f64) -> usize {
    if size >= 10.0 {
        1
    } else if size >= 1.0 || size == 0.0 {
        2
    } else {
        (2.0 - size.log10().floor()) as usize
    }
}

/// Numbers along one axis in one format: the same decimals and the same unit for all; zero has neither.
pub fn show_alike(values: &[f64]) -> Vec<String> {
    let most = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    if !(1e-4..1e15).contains(&most) {
        return values.iter().map(|value| show_number(*value)).collect();
    }
    let (divisor, unit) = if most >= 1e6 { (1e6, "M") } else { (1.0, "") };
    let is_exact = |decimals: &i32| {
        let power = 10_f64.powi(*decimals) / divisor;
        values
            .iter()
            .all(|value| ((value * power).round() - value * power).abs() < 1e-6)
    };
    let decimals = (0..8).find(is_exact).unwrap_or(8) as usize;
    let show = |value: &f64| match value / divisor {
        0.0 => "0".to_owned(),
        whole if decimals == 0 && unit.is_empty() && whole.abs() >= 1000.0 => show_number(whole),
        value => format!("{value:.decimals$}{unit}"),
    };
    values.iter().map(show).collect()
}

/// Formats a ratio: `1.24 times`, or `within 1 % of` if the difference is negligible.
pub fn show_ratio(ratio: f64) -> String {
    match (ratio - 1.0).abs() < ALIKE {
        true => "within 1 % of".to_owned(),
        false => format!("{} times", show_number(ratio)),
    }
}

/// Formats a number of a column: money with its sign in front.
pub fn show_of(column: &str, value: f64) -> String {
    money_sign(column).to_owned() + &show_number(value)
}

/// The sign before a number of a column of money; nothing before others.
pub fn money_sign(column: &str) -> &'static str {
    if axis_title(column).ends_with("($)") { "$" } else { "" }
}

/// A load in a sentence: `concurrency 72`.
pub fn short_setting_of(name: &str, value: &str) -> String {
    say_setting(&short_name(name), value)
}

/// A figure, and the range behind it: its 95 % interval, else from the lowest to the highest run. The range is empty if there is none.
pub fn show_parts(spread: &Spread) -> (String, String) {
    let (low, high) = spread.reach();
    with_range(spread.value, low, high)
}

/// A figure, and its range: `60.0` and ` (59.9 to 60.0)`.
pub fn with_range(value: f64, low: f64, high: f64) -> (String, String) {
    match high > low {
        true => {
            let [value, low, high] = show_together([value, low, high]);
            (value, format!(" ({low} to {high})"))
        }
        false => (show_number(value), String::new()),
    }
}

/// The first `most` items, and the number of further ones: `n0, n1 and 3 more`.
pub fn show_some<T: Display>(all: impl Iterator<Item = T>, most: usize) -> String {
    join_some(all, most, ", ")
}

/// Like [`show_some`], with another separator, for items that have commas themselves.
pub fn join_some<T: Display>(mut all: impl Iterator<Item = T>, most: usize, separator: &str) -> String {
    let named = all.by_ref().take(most).join(separator);
    match all.count() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn trim_zeros(text: String) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A metric as people call it, without its unit.
pub fn title(metric: &str) -> String {
    split_title(&axis_title(metric)).0.to_owned()
}

/// Splits the title of an axis into the name and, if it has one, the unit: `p99 TTFT (ms)`.
pub fn split_title(title: &str) -> (&str, Option<&str>) {
    let parts = title.strip_suffix(')').and_then(|title| title.rsplit_once(" ("));
    parts.map_or((title, None), |(name, unit)| (name, Some(unit)))
}

/// A metric within a sentence: `output throughput`, `p99 TTFT`.
pub fn name(metric: &str) -> String {
    let title = title(metric);
    let mut letters = title.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => first.to_lowercase().chain(letters).collect(),
        _ => title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 0.00123, 12.54, 99.96, 1250.4, 1_234_567.0, -250.0, 1e-9].map(show_number);
        let expected = [
            "0", "0.25", "0.00123", "12.5", "100", "1,250", "1.23M", "-250", "1.00e-9",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_rate_is_a_number_of_things() {
        assert_eq!(say("output_throughput", "3,996"), "3,996 output tokens/s");
        assert_eq!(say("request_throughput", "49.4"), "49.4 requests/s");
        assert_eq!(say("tokens_per_gpu", "2,005"), "2,005 output tokens/s per GPU");
        assert_eq!(say("p99_ttft_ms", "80.9"), "p99 TTFT 80.9 ms");
        assert_eq!(say("é throughput (é/s)", "1"), "1 é/s");
    }

    #[test]
    fn figures_that_belong_together_have_the_same_decimals() {
        assert_eq!(show_together([60.0, 59.94, 60.02]), ["60.0", "59.9", "60.0"]);
        assert_eq!(show_together([0.57, 0.57, 0.5774]), ["0.570", "0.570", "0.577"]);
        assert_eq!(show_together([80.0, 80.0, 107.0]), ["80", "80", "107"]);
        assert_eq!(show_together([1.0, 1.0, 1.0492]), ["1.00", "1.00", "1.05"]);
        assert_eq!(show_together([3994.2, 3821.0, 4174.4]), ["3,994", "3,821", "4,174"]);
        assert_eq!(show_together([120.4, 8.31, 260.0]), ["120", "8", "260"]);
        assert_eq!(
            [60.0, 7.0, 0.57, 0.0, 1250.4].map(show_figure),
            ["60.0", "7.00", "0.570", "0", "1,250"]
        );
        assert_eq!(with_range(4.4, 4.4, 4.4), ("4.4".to_owned(), String::new()));
    }

    #[test]
    fn numbers_of_an_axis_have_one_format() {
        let shown = |values: &[f64]| show_alike(values).join(" ");
        assert_eq!(shown(&[0.0, 0.25, 0.5, 1.0]), "0 0.25 0.50 1.00");
        assert_eq!(shown(&[-5000.0, 0.0, 5000.0, 10_000.0]), "-5,000 0 5,000 10,000");
        assert_eq!(shown(&[0.0, 500_000.0, 1e6]), "0 0.5M 1.0M");
        assert_eq!(shown(&[0.0, 1e-7]), "0 1.00e-7");
        assert_eq!(shown(&[]), "");
        assert_eq!(show_of("cost_per_million_output_tokens", 0.0361), "$0.0361");
        assert_eq!(show_of("p99_ttft_ms", 12.54), "12.5");
    }

    #[test]
    fn labels_are_short() {
        let long = "fast tensor_parallel_size=2, enable_x=true, max_concurrency=8, num_prompts=80";
        assert_eq!(short_label(long), "fast TP 2, enable_x, concurrency 8");
        assert_eq!(short_label("num_prompts=80"), "prompts 80");
        assert_eq!(short_label("default"), "default");
        assert_eq!(
            short_label("random_input_len=128, random_output_len=96"),
            "128 in, 96 out"
        );
    }

    #[test]
    fn labels_with_the_same_settings_name_them_once() {
        let brief = brief_labels(&[
            "tensor_parallel_size=1, max_num_seqs=8",
            "tensor_parallel_size=2, max_num_seqs=8",
        ]);
        let values = vec!["1/8".to_owned(), "2/8".to_owned()];
        assert_eq!(brief, Some(("TP/seqs".to_owned(), values)));
        assert_eq!(
            brief_labels(&["tensor_parallel_size=1, max_num_seqs=8", "max_num_seqs=8"]),
            None
        );
    }

    #[test]
    fn settings_are_short() {
        assert_eq!(short_setting("tensor-parallel-size", &Cell::Integer(2)), "TP 2");
        assert_eq!(short_setting("serve.seed", &Cell::Integer(2)), "serve seed 2");
        assert_eq!(short_setting("enable_x", &Cell::Bool(false)), "no enable_x");
        assert_eq!(short_setting("request_rate", &Cell::Float(f64::INFINITY)), "rate inf");
    }
}
