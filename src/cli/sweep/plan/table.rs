//! Parts of a plan for people: the numbers of starts, points and runs, and servers with their points.

use crate::matrix::{Counts, LoadFinder, Point, ServerConfig, settings_text};
use crate::plan::{HIDDEN, Params, Plan, Target, show};
use crate::report::texts::align::{align, fitting};
use crate::report::texts::words::{brief_labels, short_label, short_name};
use crate::shell::{shell_line, shell_word};
use crate::units::{show_count, show_many};
use itertools::Itertools;
use std::fmt::Display;
use std::io::{self, Write};

/// Most points of a server, and most servers, that are listed. The others are counted.
pub const MOST_LISTED: usize = 200;

/// Most servers of a plan that shows all of them in full.
const MOST_WHOLE: u64 = 12;

/// Number of servers that are shown in full: all if they are few, only the first if they are many.
pub fn count_whole(servers: u64) -> u64 {
    if servers > MOST_WHOLE { 1 } else { servers }
}

/// Writes a line for each of the other servers, with its work, up to [`MOST_LISTED`] lines. `count` is the number of these servers.
pub fn write_others(
    plan: &Plan,
    count: u64,
    others: impl Iterator<Item = (ServerConfig, String)>,
    out: &mut impl Write,
) -> io::Result<()> {
    let (others, works): (Vec<ServerConfig>, Vec<String>) = others.take(MOST_LISTED).unzip();
    let labels = others
        .iter()
        .map(|server| plan.secrets.redact(&server.name))
        .collect_vec();
    let rows = |(heading, names): (String, Vec<String>)| {
        let heading = ["server".to_owned(), "work".to_owned(), heading].to_vec();
        let row = |((server, work), name): ((&ServerConfig, &String), String)| {
            vec![server.id.to_string(), work.clone(), name]
        };
        let rows = others.iter().zip(&works).zip(names).map(row);
        align(&[heading].into_iter().chain(rows).collect_vec())
    };
    let long = (
        "settings".to_owned(),
        labels.iter().map(|label| short_label(label)).collect(),
    );
    let labels = labels.iter().map(AsRef::as_ref).collect_vec();
    let forms = [Some(long), brief_labels(&labels)].into_iter().flatten().map(rows);
    let table = fitting(forms, |table| table.lines().collect()).unwrap_or_default();
    write!(out, "\n{table}")?;
    match count - works.len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "... and {}", show_many(more, "more server")),
    }
}

/// Writes a server's id, name, command line and environment.
pub fn write_server(plan: &Plan, server: &ServerConfig, out: &mut impl Write) -> io::Result<()> {
    let name = plan.secrets.redact(&short_label(&server.name));
    writeln!(out, "server {}  {name}", server.id)?;
    match &plan.serve.target {
        Target::Launch(_) => {
            let offline = plan.bench.runner.offline();
            let engine = offline.and_then(|offline| offline.command(&server.argv).ok());
            let argv = engine.as_ref().unwrap_or(&server.argv);
            writeln!(out, "  {}", shell_line(plan.secrets.redact_argv(argv)))?;
        }
        Target::Attach(url) => writeln!(out, "  already running at {}", plan.secrets.redact(url))?,
    }
    for (name, value) in plan.secrets.redact_env(&server.env) {
        let shown = match value.as_str() {
            HIDDEN => HIDDEN.into(),
            value => shell_word(value),
        };
        writeln!(out, "  {name}={shown}")?;
    }
    Ok(())
}

/// Writes two lines for each of a server's searches or explorations. `kind` is the word for them.
pub fn write_finders<S: Display>(
    plan: &Plan,
    kind: &str,
    finders: &[LoadFinder<S>],
    out: &mut impl Write,
) -> io::Result<()> {
    for finder in finders {
        let load = settings_text(&plan.secrets.redact_params(&finder.params));
        writeln!(out, "  {kind} {}  {load}", finder.id)?;
        writeln!(out, "    {}", finder.settings)?;
    }
    Ok(())
}

/// Writes a row for each point, with its remaining work if that is given, and the number of points that are not listed.
pub fn write_points(
    plan: &Plan,
    listed: &[(Point, Option<String>)],
    more: u64,
    out: &mut impl Write,
) -> io::Result<()> {
    let ids = listed.iter().map(|(point, _)| point.id.to_string());
    let rows = listed
        .iter()
        .map(|(point, _)| plan.secrets.redact_params(&point.params));
    let rows: Vec<Params> = rows.collect();
    let value = |row: &Params, name: &str| row.get(name).map(show).unwrap_or_default();
    let names = rows.iter().flat_map(|row| row.keys()).unique();
    // Values common to all listed points are shown once.
    let (same, names): (Vec<&String>, Vec<&String>) =
        names.partition(|name| rows.len() > 1 && rows.iter().map(|row| row.get(name.as_str())).all_equal());
    if !same.is_empty() {
        let same = same.iter().map(|name| format!("{name}={}", value(&rows[0], name)));
        let which = if more == 0 { "every point" } else { "every listed point" };
        writeln!(out, "  {which}: {}", same.format(", "))?;
    }
    let left_aligned = |cell: &str, width: usize| format!("{cell:<width$}");
    let mut columns = vec![column("point".to_owned(), ids, left_aligned)];
    columns.extend(names.iter().map(|name| {
        let cells = rows.iter().map(|row| value(row, name));
        column(short_name(name), cells, |cell, width| format!("{cell:>width$}"))
    }));
    let left = listed.iter().filter_map(|(_, left)| left.clone()).collect_vec();
    if !left.is_empty() {
        columns.push(column("left".to_owned(), left.into_iter(), left_aligned));
    }
    for row in 0..=rows.len() {
        let line = columns.iter().map(|cells| &cells[row]).join("  ");
        writeln!(out, "  {}", line.trim_end())?;
    }
    match more {
        0 => Ok(()),
        more => writeln!(out, "  ... and {}", show_many(more, "more point")),
    }
}

/// Returns the heading and the cells of a column, padded to the width of the longest.
fn column(head: String, cells: impl Iterator<Item = String>, fill: fn(&str, usize) -> String) -> Vec<String> {
    let cells = [head].into_iter().chain(cells).collect_vec();
    let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    cells.iter().map(|cell| fill(cell, width)).collect()
}

/// Noun for a start of a server; a server at a `url` is not started.
pub fn noun_of_start(plan: &Plan) -> &'static str {
    match plan.serve.target {
        Target::Launch(_) => "server start",
        Target::Attach(_) => "running server",
    }
}

/// Describes the work: points with their runs, or searches.
pub fn describe_work(counts: &Counts) -> String {
    match counts.searches {
        0 => [show_many(counts.points, "point"), show_many(counts.runs, "run")].join(", "),
        searches => show_many(searches, "search"),
    }
}

/// Writes the numbers of starts, and of points and runs or searches. If pairs of server and load were removed, their number before follows,
/// and a line for each cause.
pub fn write_counts(plan: &Plan, counts: &Counts, out: &mut impl Write) -> io::Result<()> {
    let starts = show_many(counts.starts, noun_of_start(plan));
    let defaults = match (counts.keeps_defaults, counts.starts > counts.servers) {
        (None, _) => "",
        (Some(false), _) => " (no server has the default settings)",
        (Some(true), false) => " (one of them with the default settings)",
        (Some(true), true) => " (one server has the default settings)",
    };
    let work = describe_work(counts);
    let pairs = match counts.removed.is_empty() {
        true => String::new(),
        false => format!("; of {} of server and load", show_many(counts.pairs, "pair")),
    };
    writeln!(out, "{starts}{defaults}, {work}{pairs}")?;
    for removed in &counts.removed {
        writeln!(out, "  {} removed by {}", show_count(removed.pairs), removed.text)?;
    }
    Ok(())
}
