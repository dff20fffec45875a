//! The matrix as JSON, written piece by piece so that a million points need no more memory than one.

use crate::matrix::{LoadExploration, LoadSearch, Matrix, Point, ServerConfig};
use crate::plan::Plan;
use crate::rehearse::Rehearsal;
use serde_json::{Value, json};
use std::io::{self, Write};

pub fn write(
    plan: &Plan,
    matrix: &Matrix,
    estimate: &Result<Rehearsal, String>,
    out: &mut impl Write,
) -> io::Result<()> {
    out.write_all(b"{\"servers\":[")?;
    write_items(matrix.servers().map(|server| server_line(plan, &server)), out)?;
    out.write_all(b"\n],\"points\":[")?;
    write_items(matrix.points().map(|point| point_line(plan, &point)), out)?;
    if plan.sla.is_some() {
        out.write_all(b"\n],\"searches\":[")?;
        let searches = matrix
            .servers()
            .flat_map(|server| matrix.searches_of(&server).collect::<Vec<_>>());
        write_items(searches.map(|search| search_line(plan, &search)), out)?;
    }
    if plan.explore.is_some() {
        out.write_all(b"\n],\"explorations\":[")?;
        let explorations = matrix
            .servers()
            .flat_map(|server| matrix.explorations_of(&server).collect::<Vec<_>>());
        write_items(
            explorations.map(|exploration| exploration_line(plan, &exploration)),
            out,
        )?;
    }
    out.write_all(b"\n],\"predicted\":")?;
    let predicted = match estimate {
        Ok(rehearsal) => json!({
            "seconds": rehearsal.total.interval(),
            "starts": rehearsal.starts(),
            "runs": rehearsal.runs(),
            "assumed": rehearsal.assumptions,
        }),
        Err(why) => json!({"unknown": why}),
    };
    serde_json::to_writer(&mut *out, &predicted)?;
    out.write_all(b"}\n")
}

fn write_items(items: impl Iterator<Item = Value>, out: &mut impl Write) -> io::Result<()> {
    for (position, item) in items.enumerate() {
        out.write_all(if position == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &item)?;
    }
    Ok(())
}

fn server_line(plan: &Plan, server: &ServerConfig) -> Value {
    json!({
        "id": server.id,
        "name": plan.secrets.redact(&server.name),
        "argv": plan.secrets.redact_argv(&server.argv),
        "env": plan.secrets.redact_env(&server.env),
        "params": plan.secrets.redact_params(&server.params),
    })
}

fn point_line(plan: &Plan, point: &Point) -> Value {
    json!({
        "id": point.id,
        "server": point.server,
        "params": plan.secrets.redact_params(&point.params),
        "argv": point.argv.as_ref().map(|argv| plan.secrets.redact_argv(argv)),
        "runs": plan.runs.least(),
    })
}

fn search_line(plan: &Plan, search: &LoadSearch) -> Value {
    json!({
        "id": search.id,
        "server": search.server,
        "params": plan.secrets.redact_params(&search.params),
        "vary": search.settings.vary,
        "min": search.settings.lower,
        "max": search.settings.upper,
        "targets": search.settings.targets,
    })
}

fn exploration_line(plan: &Plan, exploration: &LoadExploration) -> Value {
    json!({
        "id": exploration.id,
        "server": exploration.server,
        "params": plan.secrets.redact_params(&exploration.params),
        "vary": exploration.settings.vary,
        "levels": exploration.settings.levels,
        "spacing": exploration.settings.spacing,
        "max_concurrency": exploration.settings.max_concurrency,
        "runs": exploration.settings.runs,
    })
}
