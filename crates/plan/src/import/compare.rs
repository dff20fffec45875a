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
    let bench = |record: usize| theirs::apply(&bench_command, &without_percentiles(&read.bench[record].params));
    let start = |s: usize, b: usize| {
        let engine = theirs::apply(&read.bench_command, &read.serve[s].params)?;
        theirs::apply(&engine, &read.bench[b].params)
    };
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
    let mut lines: Vec<CommandLine<'_>> = Vec::new();
    if !is_startup {
        for ((argv, _), (s, _)) in ours.iter().zip(&rows) {
            lines.push(("server", &read.serve[*s], serve(*s), argv));
        }
    }
    for ((_, loads), (s, row)) in ours.iter().zip(&rows) {
        for (argv, b) in loads.iter().zip(row) {
            lines.push(match is_startup {
                true => ("start", &read.serve[*s], start(*s, *b), argv),
                false => ("load", &read.bench[*b], bench(*b), argv),
            });
        }
    }
    // In the command of a start, a flag may stand elsewhere.
    let is_same = |theirs: &Option<Vec<String>>, ours: &[String]| match (is_startup, theirs) {
        (true, Some(theirs)) => theirs.iter().sorted().eq(ours.iter().sorted()),
        _ => theirs.as_deref() == Some(ours),
    };
    let differences = lines.into_iter().filter(|(_, _, theirs, ours)| !is_same(theirs, ours));
    let told: Vec<String> = differences
        .map(|(side, record, theirs, ours)| {
            let called = match theirs::name(record).as_str() {
                "" => String::new(),
                called => format!(" `{called}`"),
            };
            let theirs = theirs.map_or("fails, because a flag at the end lacks its value".to_owned(), |words| {
                format!("runs {}", hide(&words))
            });
            format!("{side}{called}: vLLM's sweep {theirs}; this plan runs {}", hide(ours))
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

/// What a command line starts, the record that it comes from, and the line as vLLM's sweep makes it, unless that fails, and as the
/// plan does.
type CommandLine<'a> = (&'static str, &'a Combo, Option<Vec<String>>, &'a [String]);

fn without_percentiles(params: &Params) -> Params {
    let mut params = params.clone();
    params.retain(|name, _| !spelling::same(name, "percentile_metrics"));
    params
}
