//! Whether the plan does what the command line did: both sides' command lines are made, and what differs is told.

use super::plan_text::without_percentile_metrics;
use super::records::{Kept, Sides};
use super::{Loads, ReadSweep, pairs, theirs};
use crate::matrix::Matrix;
use crate::plan::{self, Combo, Format, Params, Problems, World, spelling};
use crate::shell::shell_line;
use itertools::Itertools;
use std::path::Path;

/// Differences of one side that are told word by word.
const MOST_TOLD: usize = 3;

/// Reads the plan back; it must be valid. Adds a note for each server and load whose command line is another. Returns where
/// vLLM keeps the results of each point.
pub(super) fn compare(
    read: &ReadSweep<'_>,
    sides: &Sides,
    text: &str,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<String>>, Problems> {
    let plan = plan::parse(text, Format::Toml, Path::new("plan.toml"), &[], &World::empty())?;
    let matrix = Matrix::expand(&plan)?;
    let hide = |words: &[String]| shell_line(plan.secrets.redact_argv(words));

    let servers: Vec<_> = matrix.servers().collect();
    let ours: Vec<(&[String], Vec<Vec<String>>)> = servers
        .iter()
        .map(|server| {
            let loads = matrix.points_of(server).filter_map(|point| point.argv);
            (server.argv.as_slice(), loads.collect())
        })
        .collect();

    let (bench_command, _) = without_percentile_metrics(&read.bench_command);
    let serve = |record: usize| theirs::apply(&read.serve_command, &read.serve[record].params);
    let bench = |record: usize| theirs::apply(&bench_command, &without_percentiles(&read.bench[record]).params);
    let kept = |side: &[Kept], record: usize| side.iter().any(|kept| kept.record == record);
    let rows = pairs(&read.serve, &read.bench, &read.links)
        .filter(|(s, b, is_kept)| *is_kept && kept(&sides.serve, *s) && kept(&sides.bench, *b))
        .map(|(s, b, _)| (s, b));
    let rows: Vec<(usize, Vec<usize>)> = rows
        .chunk_by(|(s, _)| *s)
        .into_iter()
        .map(|(s, rows)| (s, rows.map(|(_, b)| b).collect()))
        .collect();

    let is_startup = matches!(read.sweep.loads, Loads::Startup { .. });
    let is_listed = is_startup || matches!(read.sweep.loads, Loads::Listed);
    let loads_of = |loads: &[Vec<String>], row: &[usize]| !is_listed || loads.len() == row.len();
    let has_same_rows = ours.len() == rows.len()
        && ours
            .iter()
            .zip(&rows)
            .all(|((_, loads), (_, row))| loads_of(loads, row));
    if !has_same_rows {
        let (count, theirs) = match is_listed {
            true => (
                matrix.counts().points,
                rows.iter().map(|(_, row)| row.len()).sum::<usize>(),
            ),
            false => (matrix.counts().servers, rows.len()),
        };
        notes.push(format!(
            "the plan has {count} pairs where vLLM keeps {theirs}: it links only parameters of exactly the spelling that --link-vars has"
        ));
        return Ok(None);
    }
    let of_servers = ours.iter().zip(&rows).map(|((argv, _), (record, _))| {
        let called = theirs::name(&read.serve[*record]);
        ("server", called, serve(*record), argv.to_vec())
    });
    let of_loads = ours.iter().zip(&rows).flat_map(|((_, loads), (_, row))| {
        let loads = loads.iter().zip(row);
        loads.map(|(argv, record)| ("load", theirs::name(&read.bench[*record]), bench(*record), argv.clone()))
    });
    let of_starts = ours.iter().zip(&rows).flat_map(|((_, loads), (s, row))| {
        let loads = loads.iter().zip(row);
        loads.map(|(argv, b)| {
            let engine = theirs::apply(&read.bench_command, &read.serve[*s].params);
            let theirs = engine.and_then(|engine| theirs::apply(&engine, &read.bench[*b].params));
            ("start", theirs::name(&read.serve[*s]), theirs, argv.clone())
        })
    });
    // In the command of a start, a flag may stand elsewhere.
    let is_same = |theirs: &Option<Vec<String>>, ours: &Vec<String>| match (is_startup, theirs) {
        (true, Some(theirs)) => theirs.iter().sorted().eq(ours.iter().sorted()),
        _ => theirs.as_ref() == Some(ours),
    };
    let of_sides = of_servers.chain(of_loads).filter(|_| !is_startup);
    let differences = of_sides
        .chain(of_starts.filter(|_| is_startup))
        .filter(|(_, _, theirs, ours)| !is_same(theirs, ours));
    let told: Vec<String> = differences
        .map(|(side, called, theirs, ours)| {
            let called = if called.is_empty() {
                String::new()
            } else {
                format!(" `{called}`")
            };
            let theirs = theirs.map_or("fails, because a flag at the end lacks its value".to_owned(), |words| {
                format!("runs {}", hide(&words))
            });
            format!("{side}{called}: vLLM's sweep {theirs}; this plan runs {}", hide(&ours))
        })
        .unique()
        .collect();
    notes.extend(told.iter().take(MOST_TOLD).cloned());
    if told.len() > MOST_TOLD {
        notes.push(format!("and {} more command lines differ", told.len() - MOST_TOLD));
    }
    let folder = |s: usize, b: usize| match is_startup {
        true => theirs::folder_of([("SERVE-", &read.serve[s]), ("STARTUP-", &read.bench[b])], &[]),
        false => theirs::folder(&read.serve[s], &read.bench[b], &[]),
    };
    let folders = rows.iter().flat_map(|(s, row)| row.iter().map(move |b| folder(*s, *b)));
    Ok(is_listed.then(|| folders.collect()))
}

fn without_percentiles(record: &Combo) -> Combo {
    let params = record.params.iter();
    let kept = params.filter(|(name, _)| !spelling::same(name, "percentile_metrics"));
    Combo {
        name: record.name.clone(),
        params: kept
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Params>(),
    }
}
