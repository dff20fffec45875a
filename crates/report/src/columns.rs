//! The columns of tables by name: their titles, and the benchmarks that fill them, so that a plan can be checked before its first run.
//! `columns.csv` has a line for each.

use itertools::Itertools;
use std::sync::LazyLock;
use vsweep_plan::{BenchRunner, Offline};
use vsweep_record::table::ECHOED;
use vsweep_strategy::stats::{figure_of, split_class};

/// A line of `columns.csv`.
struct KnownColumn {
    /// Name in tables. `*_ttft_ms` is every statistic of a latency: `p99_ttft_ms`, `mean_ttft_ms`.
    name: &'static str,
    /// Benchmarks that fill it, separated by spaces; `all` for every benchmark, empty for a parameter.
    filled_by: &'static str,
    /// Name in labels; empty if the name is short enough.
    short: &'static str,
    /// Title of an axis, with the unit; empty if the name is clear enough.
    title: &'static str,
}

static COLUMNS: LazyLock<Vec<KnownColumn>> = LazyLock::new(|| {
    let lines = include_str!("columns.csv").lines().skip(1);
    let cells = lines.filter_map(|line| line.splitn(4, ',').collect_tuple());
    let column = |(name, filled_by, short, title)| KnownColumn {
        name,
        filled_by,
        short,
        title,
    };
    cells.map(column).collect()
});

fn find(name: &str) -> Option<&'static KnownColumn> {
    COLUMNS.iter().find(|known| known.name == name)
}

/// The statistic and the latency of a column such as `p99_ttft_ms`.
fn latency(column: &str) -> Option<(&str, &'static KnownColumn)> {
    let (statistic, quantity) = column.strip_suffix("_ms")?.split_once('_')?;
    let known = find(&format!("*_{quantity}_ms"))?;
    (!statistic.is_empty()).then_some((statistic, known))
}

/// The axis title of a metric or parameter: `p99 TTFT (ms)`, `Output throughput (tokens/s)`; a name that is not known
/// stays as it is.
pub fn axis_title(column: &str) -> String {
    if let (Some(class), own) = split_class(column)
        && is_of_class(own)
    {
        return format!("{class}: {}", axis_title(own));
    }
    let titled = |known: &&KnownColumn| !known.title.is_empty();
    if let Some(known) = find(column).filter(titled) {
        return known.title.to_owned();
    }
    let Some((statistic, known)) = latency(column).filter(|(_, known)| titled(known)) else {
        return column.to_owned();
    };
    let mut statistic = statistic.to_owned();
    if let Some(first) = statistic.get_mut(..1).filter(|first| *first != "p") {
        first.make_ascii_uppercase();
    }
    format!("{statistic} {} (ms)", known.title)
}

/// The short name of a parameter, after its side if the column's name has one: `serve seed`.
pub fn short_name(name: &str) -> String {
    let plain = name.replace('-', "_");
    if let Some((side @ ("serve" | "bench"), bare)) = plain.split_once('.') {
        return format!("{side} {}", short_name(bare));
    }
    let short = find(&plain).map(|known| known.short);
    short.filter(|short| !short.is_empty()).unwrap_or(&plain).to_owned()
}

/// Returns true if each class of a mixed load has a figure of this name.
fn is_of_class(figure: &str) -> bool {
    OF_CLASS.contains(&figure) || latency(figure).is_some_and(|(statistic, _)| is_statistic(statistic))
}

/// Figures of a class besides its latencies.
const OF_CLASS: [&str; 9] = [
    "share",
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
];

/// The usual columns of these classes of a mixed load.
pub fn known_of(classes: &[String]) -> impl Iterator<Item = String> {
    let figures = |class: &String| {
        let latencies = ["p99_ttft_ms", "p99_tpot_ms", "p99_itl_ms", "p99_e2el_ms"];
        let names = OF_CLASS.into_iter().chain(latencies);
        names.map(|name| figure_of(Some(class), name)).collect::<Vec<_>>()
    };
    classes.iter().flat_map(figures)
}

/// Returns true if a column is a figure of one of these classes of a mixed load.
pub fn is_known_of(classes: &[String], column: &str) -> bool {
    matches!(split_class(column), (Some(class), own) if is_of_class(own) && classes.iter().any(|known| known == class))
}

/// Returns true if a run may fill a column of this name. External benchmarks may write any column.
pub fn is_known(runner: &BenchRunner, column: &str) -> bool {
    let column = column.replace('-', "_");
    let is_time = |name: &str| name.ends_with("_time") && name.starts_with('p');
    matches!(runner, BenchRunner::Command(_))
        || (runner.offline() == Some(Offline::Startup) && is_time(&column))
        // Each multimodal processor has stages of its own.
        || (runner.offline() == Some(Offline::MmProcessor) && column.ends_with("_ms"))
        || echoed(runner).contains(&&*column)
        || filled_by(runner).any(|known| known.name == column)
        || latency(&column).is_some_and(|(statistic, known)| is_filled(known, runner) && is_statistic(statistic))
}

/// The columns to suggest in place of one that is not known.
pub fn known(runner: &BenchRunner) -> impl Iterator<Item = String> {
    let columns = filled_by(runner).flat_map(|known| match known.name.strip_prefix('*') {
        Some(latency) => STATISTICS
            .iter()
            .map(|statistic| format!("{statistic}{latency}"))
            .collect(),
        None => vec![known.name.to_owned()],
    });
    columns.chain(echoed(runner).iter().map(|name| (*name).to_owned()))
}

/// Settings that the results of a benchmark repeat.
fn echoed(runner: &BenchRunner) -> &'static [&'static str] {
    match runner {
        BenchRunner::Native => &ECHOED,
        _ => &[],
    }
}

/// Statistics of a latency that are suggested.
const STATISTICS: [&str; 7] = ["mean", "median", "std", "p50", "p90", "p95", "p99"];

fn filled_by(runner: &BenchRunner) -> impl Iterator<Item = &'static KnownColumn> {
    COLUMNS.iter().filter(|known| is_filled(known, runner))
}

fn is_filled(known: &KnownColumn, runner: &BenchRunner) -> bool {
    let who = match runner {
        BenchRunner::Offline(_) => Some("offline"),
        own => own.name(),
    };
    let mut filling = known.filled_by.split(' ');
    filling.any(|filling| filling == "all" || Some(filling) == who)
}

/// Returns true for the name of a statistic, such as `p99.9` or `median`.
fn is_statistic(word: &str) -> bool {
    let percentile = word.strip_prefix('p').and_then(|percent| percent.parse().ok());
    percentile.map_or(["mean", "median", "std"].contains(&word), |percent: f64| {
        (0.0..=100.0).contains(&percent)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_strategy::search::Vary;

    #[test]
    fn metrics_have_titles_with_units() {
        assert_eq!(axis_title("p99_ttft_ms"), "p99 TTFT (ms)");
        assert_eq!(axis_title("median_e2el_ms"), "Median E2EL (ms)");
        assert_eq!(axis_title("p99.9_itl_ms"), "p99.9 ITL (ms)");
        assert_eq!(axis_title("chat.p99.9_ttft_ms"), "chat: p99.9 TTFT (ms)");
        assert_eq!(
            axis_title("chat.output_throughput"),
            "chat: Output throughput (tokens/s)"
        );
        assert_eq!(axis_title("chat.mode"), "chat.mode");
        assert_eq!(axis_title("my_own"), "my_own");
        assert_eq!(axis_title("_ms"), "_ms");
        assert_eq!(axis_title("__ms"), "__ms");
    }

    #[test]
    fn a_searched_load_has_one_word() {
        for vary in [Vary::MaxConcurrency, Vary::RequestRate] {
            assert_eq!(short_name(vary.name()), vary.word());
        }
    }

    #[test]
    fn what_is_suggested_is_known() {
        for runner in [BenchRunner::Native, BenchRunner::Iterations, BenchRunner::Phases] {
            for name in known(&runner) {
                assert!(is_known(&runner, &name), "{name}");
            }
        }
        let native = |name: &str| is_known(&BenchRunner::Native, name);
        assert!(native("p99.9_ttft_ms") && native("p0_itl_ms") && native("max-concurrency"));
        for wrong in ["p99_ttfft_ms", "p101_ttft_ms", "worst_ttft_ms", "p99_ttft", "nope_x"] {
            assert!(!native(wrong), "{wrong}");
        }
    }

    #[test]
    fn each_benchmark_has_columns_of_its_own() {
        let (batches, phases) = (BenchRunner::Iterations, BenchRunner::Phases);
        assert!(is_known(&batches, "step_ms") && !is_known(&batches, "p99_ttft_ms"));
        assert!(is_known(&phases, "p99_ttft_ms") && !is_known(&phases, "p99_tpot_ms"));
        assert!(is_known(
            &BenchRunner::Command(vsweep_plan::Commands::default()),
            "anything"
        ));
    }
}
