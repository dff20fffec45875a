//! The matrix as JSON, written piece by piece so that a million points need no more memory than one.

use crate::matrix::{LoadExploration, LoadSearch, Matrix, Point, ServerConfig};
use crate::plan::{Params, Plan};
use crate::rehearse::Rehearsal;
use crate::search::{Spacing, Target, Vary};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};

#[derive(Serialize)]
struct ServerLine {
    id: String,
    name: String,
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    params: Params,
}

#[derive(Serialize)]
struct PointLine {
    id: String,
    server: String,
    params: Params,
    argv: Option<Vec<String>>,
    runs: u32,
}

pub fn write(
    plan: &Plan,
    matrix: &Matrix,
    estimate: &Result<Rehearsal, String>,
    out: &mut impl Write,
) -> io::Result<()> {
    out.write_all(b"{\"servers\":[")?;
    write_items(matrix.servers().map(|server| server_line(plan, server)), out)?;
    out.write_all(b"\n],\"points\":[")?;
    write_items(matrix.points().map(|point| point_line(plan, point)), out)?;
    if plan.sla.is_some() {
        out.write_all(b"\n],\"searches\":[")?;
        let searches = matrix
            .servers()
            .flat_map(|server| matrix.searches_of(&server).collect::<Vec<_>>());
        write_items(searches.map(|search| search_line(plan, search)), out)?;
    }
    if plan.explore.is_some() {
        out.write_all(b"\n],\"explorations\":[")?;
        let explorations = matrix
            .servers()
            .flat_map(|server| matrix.explorations_of(&server).collect::<Vec<_>>());
        write_items(explorations.map(|exploration| exploration_line(plan, exploration)), out)?;
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

#[derive(Serialize)]
struct SearchLine {
    id: String,
    server: String,
    params: Params,
    vary: Vary,
    min: f64,
    max: f64,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct ExplorationLine {
    id: String,
    server: String,
    params: Params,
    vary: Vary,
    levels: usize,
    spacing: Spacing,
    max_concurrency: u64,
    runs: u32,
}

fn exploration_line(plan: &Plan, exploration: LoadExploration) -> ExplorationLine {
    ExplorationLine {
        id: exploration.id.0,
        server: exploration.server.0,
        params: plan.secrets.redact_params(&exploration.params),
        vary: exploration.settings.vary,
        levels: exploration.settings.levels,
        spacing: exploration.settings.spacing,
        max_concurrency: exploration.settings.max_concurrency,
        runs: exploration.settings.runs,
    }
}

fn search_line(plan: &Plan, search: LoadSearch) -> SearchLine {
    SearchLine {
        id: search.id.0,
        server: search.server.0,
        params: plan.secrets.redact_params(&search.params),
        vary: search.settings.vary,
        min: search.settings.lower,
        max: search.settings.upper,
        targets: search.settings.targets,
    }
}

fn write_items(items: impl Iterator<Item = impl Serialize>, out: &mut impl Write) -> io::Result<()> {
    for (position, item) in items.enumerate() {
        out.write_all(if position == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &item)?;
    }
    Ok(())
}

fn server_line(plan: &Plan, server: ServerConfig) -> ServerLine {
    ServerLine {
        id: server.id.0,
        name: plan.secrets.redact(&server.name),
        argv: plan.secrets.redact_argv(&server.argv),
        env: plan.secrets.redact_env(&server.env),
        params: plan.secrets.redact_params(&server.params),
    }
}

fn point_line(plan: &Plan, point: Point) -> PointLine {
    PointLine {
        id: point.id.0,
        server: point.server.0,
        params: plan.secrets.redact_params(&point.params),
        argv: point.argv.map(|argv| plan.secrets.redact_argv(&argv)),
        runs: plan.runs.least(),
    }
}
