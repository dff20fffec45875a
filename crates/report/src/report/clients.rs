//! Loads that several clients sent: their figures side by side, and what these do not have in common, in words. What each of them means
//! by its figures is told in the book.

use super::variation::{settings, varying};
use super::words::{axis_title, show_number};
use itertools::Itertools;
use vsweep_plan::plan::commands::COMMAND;
use vsweep_record::table::{Point, Points, Section};

/// Figures that are compared, where two clients at least have them.
const FIGURES: [&str; 6] = [
    "request_throughput",
    "output_throughput",
    "median_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "mean_itl_ms",
];
/// Loads in the table.
const MOST_LOADS: usize = 4;

/// What several clients say of the same loads.
pub struct Clients {
    /// What their figures do not have in common.
    pub remark: String,
    /// A row for each load and figure, a column for each client; the first row has the heads. Medians over runs, and how many times the
    /// first client's each is.
    pub table: Vec<Vec<String>>,
}

/// The clients of the points; `None` where there is one.
pub fn side_by_side(points: &Points<'_>) -> Option<Clients> {
    let of_bench = |name: &str| name == COMMAND || name == format!("bench.{COMMAND}");
    let mut columns = points.runs.columns().iter();
    let client = columns.find(|column| column.section == Section::Bench && of_bench(&column.name))?;
    let name = |point: &Point| client.cells[point.row].to_string();
    let clients: Vec<String> = points.points.iter().map(name).unique().collect();
    if clients.len() < 2 {
        return None;
    }
    let mut varied = varying(points);
    varied.retain(|column| column.name != client.name);
    let all = points.points.iter();
    let loads = all.into_group_map_by(|point| settings(&varied, point.row)).into_iter();
    let loads = loads.map(|(load, all)| {
        let of_client = |client: &String| all.iter().copied().find(|point| name(point) == *client);
        (load, clients.iter().map(of_client).collect_vec())
    });
    let loads = loads.filter(|(_, own)| own.iter().flatten().count() > 1);
    let loads = loads.sorted_by_key(|(_, own)| own.iter().flatten().map(|point| point.row).min());
    let loads = loads.collect_vec();
    let heads = ["load", "figure"].map(str::to_owned).into_iter();
    let mut table = vec![heads.chain(clients.iter().cloned()).collect_vec()];
    for (load, of_clients) in loads.iter().take(MOST_LOADS) {
        let tokens = of_clients.iter().map(|point| input_tokens(points, (*point)?));
        let figures = FIGURES.iter().map(|figure| {
            let values = of_clients.iter();
            let values = values.map(|point| Some(points.spread((*point)?, figure)?.median));
            (axis_title(figure), values.collect_vec())
        });
        let tokens = ("Input tokens of a request".to_owned(), tokens.collect_vec());
        let rows = [tokens].into_iter().chain(figures);
        for (figure, values) in rows.filter(|(_, values)| values.iter().flatten().count() > 1) {
            let cells = values.iter().map(|value| beside(values[0], *value));
            table.push([load.clone(), figure].into_iter().chain(cells).collect());
        }
    }
    let more = match loads.len().saturating_sub(MOST_LOADS) {
        0 => String::new(),
        more => format!("; {more} more loads are in points.csv"),
    };
    let of_all = clients.iter().map(|client| {
        let own = points.points.iter().filter(|point| name(point) == *client);
        let seen: Vec<f64> = own.filter_map(|point| input_tokens(points, point)).collect();
        match seen.len() {
            0 => format!("{client} unknown"),
            count => format!("{client} {}", show_number(seen.iter().sum::<f64>() / count as f64)),
        }
    });
    Some(Clients {
        remark: format!(
            "{} clients sent these loads; input tokens of a request as each counts them: {}. They also differ in where TTFT starts, in \
             TPOT, warm-up and their own lag: docs/moving.md, \"Why two clients disagree\"{more}",
            clients.len(),
            of_all.sorted().join(", ")
        ),
        table: if table.len() > 1 { table } else { Vec::new() },
    })
}

/// A figure, and how many times the first client's it is.
fn beside(first: Option<f64>, value: Option<f64>) -> String {
    match (first, value) {
        (_, None) => "-".to_owned(),
        (Some(first), Some(value)) if first > 0.0 && first.to_bits() != value.to_bits() => {
            format!("{} ({:.2}×)", show_number(value), value / first)
        }
        (_, Some(value)) => show_number(value),
    }
}

/// Input tokens of a request by the client's own count, a mean over the runs.
fn input_tokens(points: &Points<'_>, point: &Point) -> Option<f64> {
    let number = |name: &str, row: usize| points.runs.cell(name, row).number().filter(|number| *number > 0.0);
    let shares = point
        .used
        .iter()
        .filter_map(|row| Some(number("total_input_tokens", *row)? / number("completed", *row)?));
    let shares: Vec<f64> = shares.collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}
