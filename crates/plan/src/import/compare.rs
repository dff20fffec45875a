//! Checks that the imported plan does what the command line did, by comparing the command lines that vsweep and vLLM's sweep would run.

use super::plan_text::without_percentile_metrics;
use super::records::{Record, Sides};
use super::{Loads, ReadSweep, vllm_sweep};
use crate::matrix::{Matrix, ServerConfig};
use crate::{Format, Problems, World, spelling};
use itertools::Itertools;
use std::path::Path;
use vsweep_base::shell::shell_line;

/// Maximum number of differing command lines that are quoted; the others are only counted.
const MOST_LISTED: usize = 3;

/// Reads the plan back, and adds notes about servers, starts and loads whose command line differs from vLLM's. Returns the folder in which
/// vLLM keeps the results of each point, or `None` if the loads are not listed or the plan has other pairs of server and load.
///
/// # Errors
///
/// The problems of the plan, if it is not valid.
pub(super) fn compare(
    read: &ReadSweep<'_>,
    sides: &Sides<'_>,
    text: &str,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<String>>, Problems> {
    let plan = crate::parse(text, Format::Toml, Path::new("the imported plan"), &World::empty())?;
    let matrix = Matrix::expand(&plan)?;
    let loads = |server: ServerConfig| {
        let loads = matrix.points_of(&server).filter_map(|point| point.argv);
        (loads.collect(), server.argv)
    };
    let ours: Vec<(Vec<Vec<String>>, Vec<String>)> = matrix.servers().map(loads).collect();

    let row = |serve: &Record<'_>| {
        let keeps =
            |bench: &&Record<'_>| vllm_sweep::links_keep(&read.links, &serve.theirs.params, &bench.theirs.params);
        sides.bench.iter().filter(keeps).collect_vec()
    };
    let rows = sides.serve.iter().map(|serve| (serve, row(serve)));
    let rows = rows.filter(|(_, row)| !row.is_empty()).collect_vec();

    let is_startup = matches!(read.sweep.loads, Loads::Startup { .. });
    let is_listed = is_startup || matches!(read.sweep.loads, Loads::Listed);
    let both = || ours.iter().zip(&rows);
    let has_same_loads = !is_listed || both().all(|((loads, _), (_, row))| loads.len() == row.len());
    if ours.len() != rows.len() || !has_same_loads {
        let (count, theirs) = match is_listed {
            true => (matrix.counts().points, rows.iter().map(|(_, row)| row.len()).sum()),
            false => (matrix.counts().servers, rows.len()),
        };
        notes.push(format!(
            "the plan has {count} pairs where vLLM keeps {theirs}: vLLM links only parameters spelled exactly as in --link-vars, and \
             no number with its text"
        ));
        return Ok(None);
    }

    let bench_command = without_percentile_metrics(&read.bench_command);
    let servers = both().filter(|_| !is_startup).map(|((_, argv), (serve, _))| {
        let theirs = vllm_sweep::apply(&read.serve_command, &serve.theirs.params);
        ("server", *serve, theirs, argv)
    });
    let loads = both().flat_map(|((loads, _), (serve, row))| loads.iter().zip(row).map(move |load| (*serve, load)));
    let loads = loads.map(|(serve, (argv, bench))| match is_startup {
        true => {
            let engine = vllm_sweep::apply(&read.bench_command, &serve.theirs.params);
            let theirs = engine.and_then(|engine| vllm_sweep::apply(&engine, &bench.theirs.params));
            ("start", serve, theirs, argv)
        }
        false => {
            let mut params = bench.theirs.params.clone();
            params.retain(|name, _| !spelling::same(name, "percentile_metrics"));
            ("load", *bench, vllm_sweep::apply(&bench_command, &params), argv)
        }
    });
    // In the command of a start, flags may come in another order.
    let is_same = |theirs: &Option<Vec<String>>, ours: &[String]| match (is_startup, theirs) {
        (true, Some(theirs)) => theirs.iter().sorted().eq(ours.iter().sorted()),
        _ => theirs.as_deref() == Some(ours),
    };
    let hide = |words: &[String]| shell_line(plan.secrets.redact_argv(words));
    let differences = servers.chain(loads).filter(|(.., theirs, ours)| !is_same(theirs, ours));
    let lines = differences.map(|(side, record, theirs, ours)| {
        let called = match vllm_sweep::name(record.theirs).as_str() {
            "" => String::new(),
            called => format!(" `{called}`"),
        };
        let theirs = theirs.map_or("fails, because a flag at the end lacks its value".to_owned(), |words| {
            format!("runs {}", hide(&words))
        });
        format!("{side}{called}: vLLM's sweep {theirs}; this plan runs {}", hide(ours))
    });
    let lines: Vec<String> = lines.unique().collect();
    notes.extend(lines.iter().take(MOST_LISTED).cloned());
    if lines.len() > MOST_LISTED {
        notes.push(format!("and {} more command lines differ", lines.len() - MOST_LISTED));
    }
    let load = if is_startup { "STARTUP-" } else { "BENCH-" };
    let folder = |serve: &Record<'_>, bench: &Record<'_>| {
        vllm_sweep::folder_of([("SERVE-", serve.theirs), (load, bench.theirs)], &[])
    };
    let folders = rows
        .iter()
        .flat_map(|(serve, row)| row.iter().map(|bench| folder(serve, bench)));
    Ok(is_listed.then(|| folders.collect()))
}
