//! Writes the matrix as JSON, piece by piece, so that a million points need no more memory than one.

use crate::matrix::{Matrix, ServerConfig};
use crate::plan::{Params, Plan};
use crate::rehearse::Rehearsal;
use itertools::Itertools;
use serde_json::{Value, json};
use std::io::{self, Write};

pub fn write(
    plan: &Plan,
    matrix: &Matrix,
    estimate: &Result<Rehearsal, String>,
    out: &mut impl Write,
) -> io::Result<()> {
    let shown = |params: &Params| plan.secrets.redact_params(params);
    out.write_all(b"{")?;
    let servers = matrix.servers().map(|server| {
        json!({
            "id": server.id,
            "name": plan.secrets.redact(&server.name),
            "argv": plan.secrets.redact_argv(&server.argv),
            "env": plan.secrets.redact_env(&server.env),
            "params": shown(&server.params),
        })
    });
    write_items("servers", servers, out)?;
    let points = matrix.points().map(|point| {
        json!({
            "id": point.id,
            "server": point.server,
            "params": shown(&point.params),
            "argv": point.argv.as_ref().map(|argv| plan.secrets.redact_argv(argv)),
            "runs": plan.runs.least(),
        })
    });
    write_items("points", points, out)?;
    if plan.sla.is_some() {
        let searches = |server: ServerConfig| {
            let searches = matrix.searches_of(&server).map(|search| {
                json!({
                    "id": search.id,
                    "server": search.server,
                    "params": shown(&search.params),
                    "vary": search.settings.vary,
                    "min": search.settings.lower,
                    "max": search.settings.upper,
                    "targets": search.settings.targets,
                })
            });
            searches.collect_vec()
        };
        write_items("searches", matrix.servers().flat_map(searches), out)?;
    }
    if plan.explore.is_some() {
        let explorations = |server: ServerConfig| {
            let explorations = matrix.explorations_of(&server).map(|exploration| {
                json!({
                    "id": exploration.id,
                    "server": exploration.server,
                    "params": shown(&exploration.params),
                    "vary": exploration.settings.vary,
                    "levels": exploration.settings.levels,
                    "spacing": exploration.settings.spacing,
                    "max_concurrency": exploration.settings.max_concurrency,
                    "runs": exploration.settings.runs,
                })
            });
            explorations.collect_vec()
        };
        write_items("explorations", matrix.servers().flat_map(explorations), out)?;
    }
    out.write_all(b"\"predicted\":")?;
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

/// Writes a list with this name, and the comma before the next field.
fn write_items(name: &str, items: impl Iterator<Item = Value>, out: &mut impl Write) -> io::Result<()> {
    write!(out, "\"{name}\":[")?;
    for (position, item) in items.enumerate() {
        out.write_all(if position == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &item)?;
    }
    out.write_all(b"\n],")
}
