//! The matrix for people: servers with their points, and how much there is of everything.

use crate::matrix::{Counts, LoadFinder, Matrix, ServerConfig, text};
use crate::plan::{HIDDEN, Params, Plan, Target, show};
use crate::report::words::{short_label, short_name};
use crate::shell::{shell_line, shell_word};
use crate::units::{show_count, show_many};
use itertools::Itertools;
use std::fmt::Display;
use std::io::{self, Write};

/// A server's points beyond these are counted, not listed.
pub const MOST_LISTED: usize = 200;

pub fn write(plan: &Plan, matrix: &Matrix, out: &mut impl Write) -> io::Result<()> {
    for server in matrix.servers() {
        write_server(plan, &server, out)?;
        if !matrix.finds_its_loads() {
            write_points(plan, matrix, &server, out)?;
        }
        write_finders(plan, "search", &matrix.searches_of(&server).collect_vec(), out)?;
        write_finders(plan, "exploration", &matrix.explorations_of(&server).collect_vec(), out)?;
        writeln!(out)?;
    }
    write_counts(&matrix.counts(), out)
}

/// A server's id, name, command line and environment.
pub fn write_server(plan: &Plan, server: &ServerConfig, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "server {}  {}",
        server.id,
        plan.secrets.redact(&short_label(&server.name))
    )?;
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

/// Two lines for each of its searches or explorations, which are called `kind`.
pub fn write_finders<S: Display>(
    plan: &Plan,
    kind: &str,
    finders: &[LoadFinder<S>],
    out: &mut impl Write,
) -> io::Result<()> {
    for finder in finders {
        let load = text(&plan.secrets.redact_params(&finder.params));
        writeln!(out, "  {kind} {}  {load}", finder.id)?;
        writeln!(out, "    {}", finder.settings)?;
    }
    Ok(())
}

fn write_points(plan: &Plan, matrix: &Matrix, server: &ServerConfig, out: &mut impl Write) -> io::Result<()> {
    let mut points = matrix.points_of(server);
    let listed: Vec<_> = points.by_ref().take(MOST_LISTED).collect();
    let rows: Vec<Params> = listed
        .iter()
        .map(|point| plan.secrets.redact_params(&point.params))
        .collect();
    let names = rows.iter().flat_map(|row| row.keys()).unique();
    // What is the same everywhere is told once.
    let (same, names): (Vec<&String>, Vec<&String>) =
        names.partition(|name| rows.len() > 1 && rows.iter().map(|row| row.get(name.as_str())).all_equal());
    if let (false, Some(row)) = (same.is_empty(), rows.first()) {
        let same = same
            .iter()
            .map(|name| format!("{name}={}", row.get(name.as_str()).map(show).unwrap_or_default()));
        writeln!(out, "  every point: {}", same.collect::<Vec<String>>().join(", "))?;
    }
    let cells = |(id, row): (String, &Params)| {
        let cells = names
            .iter()
            .map(|name| row.get(name.as_str()).map(show).unwrap_or_default());
        [id].into_iter().chain(cells).collect()
    };
    let heads = names.iter().map(|name| short_name(name));
    let heads: Vec<String> = ["point".to_owned()].into_iter().chain(heads).collect();
    let ids = listed.iter().map(|point| point.id.to_string());
    let rows: Vec<Vec<String>> = [heads].into_iter().chain(ids.zip(&rows).map(cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=names.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).skip(1);
        let cells = cells.map(|(cell, width)| format!("  {cell:>width$}"));
        let line = format!("  {:<id$}{}", row[0], cells.collect::<String>(), id = widths[0]);
        writeln!(out, "{}", line.trim_end())?;
    }
    let left = points.count();
    if left > 0 {
        writeln!(out, "  ... and {} more", show_count(left as u64))?;
    }
    Ok(())
}

fn write_counts(counts: &Counts, out: &mut impl Write) -> io::Result<()> {
    let starts = show_many(counts.starts, "server start");
    let points = show_many(counts.points, "point");
    let runs = show_many(counts.runs, "run");
    let pairs = show_many(counts.pairs, "pair");
    match counts.searches {
        0 => writeln!(out, "{starts}, {points}, {runs}; {pairs} of server and load")?,
        many => writeln!(
            out,
            "{starts}, {}; {pairs} of server and load",
            show_many(many, "search")
        )?,
    }
    for removed in &counts.removed {
        writeln!(out, "  {} removed by {}", show_count(removed.pairs), removed.text)?;
    }
    Ok(())
}
