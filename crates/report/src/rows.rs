//! Reads the journal and the run files into the table of runs. A run file is used only if it is byte for byte the recorded one; any other
//! is shown as damaged, without figures.

use super::findings::attainment::Shares;
use super::findings::nodes;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use vsweep_base::cause::{Cause, NOT_TRIED, Outcome};
use vsweep_base::error::Error;
use vsweep_base::files::{MOST_RESULT, read};
use vsweep_base::ids::{Hash256, ServerId};
use vsweep_base::threads;
use vsweep_plan::{Params, ReportOptions, spelling};
use vsweep_record::journal::{self, Check, Directory, RunRecord, ServerRecord, State, StoredFile};
use vsweep_record::table::{COMBO, RunFigures, RunRow, Table, TableBuilder, read_scalars, used_gpus};

/// The table of an experiment's runs, and what is wrong with its files.
#[derive(Debug)]
pub struct Runs {
    /// One row for each run.
    pub table: Table,
    /// One line for each run file that cannot be read or is not the recorded one.
    pub damaged: Vec<String>,
    /// The record of a directory of vsweep; `None` for results of other programs.
    pub state: Option<State>,
}

impl Runs {
    /// Runs without their record.
    pub(super) fn of(table: Table, damaged: Vec<String>) -> Runs {
        let state = None;
        Runs { table, damaged, state }
    }
}

/// Number of runs that are read before they are added to the table: enough to keep every core busy, few enough to hold in memory.
const BATCH: usize = 256;

/// Figures of run files that were read and verified before, by their SHA-256. While a sweep runs, its tables are written after every run,
/// and only the new file needs to be read.
pub type FigureCache = HashMap<Hash256, RunFigures>;

/// Reads the files of all recorded runs and makes one row for each run.
pub fn read_runs(directory: &Directory, state: &State) -> Runs {
    read_asked(directory, state, &ReportOptions::default(), None)
}

/// The record of a directory and the table of its runs, as `read_asked` makes it with the options of the recorded plan. Every run file is
/// compared with its recorded hash. If a file was changed, the record is loaded again with all hashes checked, and the files are read
/// again. Then another result of the same run can count.
pub(super) fn load(
    directory: &Directory,
    options: impl FnOnce(&State) -> ReportOptions,
) -> Result<(State, Runs, ReportOptions), Error> {
    let state = journal::load(directory, Check::Lengths)?;
    let options = options(&state);
    let runs = read_asked(directory, &state, &options, None);
    if runs.damaged.is_empty() {
        return Ok((state, runs, options));
    }
    let state = journal::load(directory, Check::Hashes)?;
    let runs = read_asked(directory, &state, &options, None);
    Ok((state, runs, options))
}

/// Like `read_runs`, with the columns that a plan asks for: shares of requests within limits, and the cost of tokens. Files in `cache`
/// are not read again.
pub fn read_asked(
    directory: &Directory,
    state: &State,
    options: &ReportOptions,
    mut cache: Option<&mut FigureCache>,
) -> Runs {
    let shares = Shares::asked_by(&options.requirements);
    let unknown = ServerRecord::default();
    let used = |server: &ServerRecord| used_gpus(&server.params, &server.argv, &server.launches);
    let gpus: BTreeMap<&ServerId, Option<f64>> = state.servers.iter().map(|(id, server)| (id, used(server))).collect();
    let mut builder = TableBuilder::new();
    let has_several_nodes = nodes::has_several_nodes(state);
    let mut damaged = Vec::new();
    let runs: Vec<&RunRecord> = state.runs().collect();
    let mut like = RunFigures::default();
    for batch in runs.chunks(BATCH) {
        let known = |run: &RunRecord| cache.as_ref()?.get(&run.file.as_ref()?.sha256).cloned();
        let read =
            |run: &&RunRecord| known(run).map_or_else(|| read_figures(directory.root(), run, &shares, &like), Ok);
        let figures = threads::map(threads::cores(), batch, read);
        if let Some(Ok(last)) = figures.last() {
            like = last.clone();
        }
        for (run, figures) in batch.iter().zip(figures) {
            let server = state.servers.get(&run.server).unwrap_or(&unknown);
            let serve = with_combo(&server.params, server.combo.as_deref());
            let bench = with_combo(&run.params, run.combo.as_deref());
            let measured = (run.outcome != Outcome::Failed).then_some(run.validity);
            let (outcome, validity, cause, figures) = match figures {
                Ok(figures) => (run.outcome, measured, run.cause, figures),
                Err(problem) => {
                    // Lost results are not listed here, because they are reported together elsewhere.
                    if !run.is_lost() {
                        damaged.push(problem);
                    }
                    (Outcome::Failed, None, Some(Cause::ResultDamaged), RunFigures::default())
                }
            };
            builder.push(RunRow {
                point: &run.point.0,
                run: run.run,
                outcome,
                validity,
                doubts: if validity.is_some() { &run.doubts } else { &[] },
                cause,
                detail: &detail_of(run),
                serve: Some(&serve),
                bench: Some(&bench),
                simulated: server.is_simulated(),
                gpus: gpus.get(&run.server).copied().flatten(),
                metrics: Some(&figures),
                errors: Some(&run.errors),
                slot: run.slot,
                launch: state.launch_of(run).map(|launch| launch.to_string()),
                order: run.rank.line.seq,
                machine: state.measured_at(run).filter(|_| has_several_nodes),
            });
            if let (Some(cache), Some(file)) = (&mut cache, &run.file)
                && cause != Some(Cause::ResultDamaged)
            {
                cache.insert(file.sha256, figures);
            }
        }
    }
    let mut table = builder.finish();
    table.add_energies();
    if let Some(price) = options.price_per_gpu_hour {
        table.add_costs(price);
    }
    Runs::of(table, damaged)
}

/// The parameters with the name of their combination before them, unless a parameter has that name.
pub(super) fn with_combo<'p>(params: &'p Params, combo: Option<&str>) -> Cow<'p, Params> {
    match combo.filter(|_| spelling::find(params, COMBO).is_none()) {
        None => Cow::Borrowed(params),
        Some(name) => {
            let named = std::iter::once((COMBO.to_owned(), Value::from(name)));
            Cow::Owned(named.chain(params.clone()).collect())
        }
    }
}

/// The observation of a run, for people.
pub(super) fn detail_of(run: &RunRecord) -> Cow<'_, str> {
    match run.tried {
        true => Cow::Borrowed(&run.detail),
        false => Cow::Owned(format!("{NOT_TRIED}{}", run.detail)),
    }
}

/// The figures of a run. Names that `like` has too are shared with it, to save memory.
pub(super) fn read_figures(
    root: &Path,
    run: &RunRecord,
    shares: &Shares,
    like: &RunFigures,
) -> Result<RunFigures, String> {
    let Some(file) = &run.file else {
        return Ok(RunFigures::default());
    };
    let content = read_content(root, run)?;
    let mut figures =
        read_scalars(&content, like).map_err(|error| format!("{}: is not the JSON of a run: {error}", file.path))?;
    figures.extend(shares.read(&content));
    Ok(figures)
}

/// The content of a run's file, if it is the recorded one; empty for a run without a file.
pub(super) fn read_content(root: &Path, run: &RunRecord) -> Result<Vec<u8>, String> {
    let Some(file) = &run.file else {
        return Ok(Vec::new());
    };
    let problem = |what: String| format!("{}: {what}", file.path);
    let content =
        read(&root.join(&*file.path), MOST_RESULT).map_err(|error| problem(format!("cannot be read: {error}")))?;
    verify(file, &content).map_err(problem)?;
    Ok(content)
}

fn verify(file: &StoredFile, content: &[u8]) -> Result<(), String> {
    if content.len() as u64 != file.bytes {
        return Err(format!(
            "has {} bytes, the journal recorded {}",
            content.len(),
            file.bytes
        ));
    }
    if Hash256::of(content) != file.sha256 {
        return Err("was changed after it was measured (its SHA-256 is not the recorded one)".into());
    }
    Ok(())
}
