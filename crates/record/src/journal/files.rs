//! Compares the run files with the journals: finds files that are missing or changed, files that replace a lost line, and files that no
//! line names.

use super::declared::ServerDescription;
use super::directory::Directory;
use super::event::{RunFinished, RunStarted, StoredFile};
use super::line::{sealed, sum_of};
use super::rank::{LineId, Rank};
use super::state::State;
use itertools::Itertools;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::Path;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::{MOST_RESULT, read};
use vsweep_base::ids::Hash256;
use vsweep_base::threads;
use vsweep_base::units::show_many;
use vsweep_metrics::RunResult;
use vsweep_plan::{Secrets, spelling};

/// Thoroughness of the comparison of run files with the journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Compares lengths only, for a quick status.
    Lengths,
    /// Compares lengths and hashes.
    Hashes,
}

/// Maximum number of files that a message names. Of further files the message has only the number.
const MOST_NAMED: usize = 3;

/// Returns every run file in a directory: its path below the directory and, if [`Check::Lengths`] asks for it and the file is regular, its
/// length in bytes. Must be called before the journals are read: the line that begins a run precedes its file, so a listed file of a running
/// sweep has a line.
pub(super) fn list(directory: &Directory, check: Check) -> Result<Vec<(String, Option<u64>)>> {
    let folder = directory.runs_folder();
    let Ok(points) = fs::read_dir(&folder) else {
        return Ok(Vec::new());
    };
    let points: Vec<_> = points.collect::<io::Result<_>>().map_err(Error::io("read", &folder))?;
    let files_of = |point: &DirEntry| {
        let name = point.file_name().into_string().ok();
        let runs = fs::read_dir(point.path()).into_iter().flatten().flatten();
        let listed = runs.filter_map(|run| {
            let file = run
                .file_name()
                .into_string()
                .ok()
                .filter(|file| file.ends_with(".json"))?;
            let path = format!("runs/{}/{file}", name.as_ref()?);
            let bytes = match check {
                Check::Lengths => run.metadata().ok().filter(Metadata::is_file).map(|found| found.len()),
                Check::Hashes => None,
            };
            Some((path, bytes))
        });
        listed.collect::<Vec<_>>()
    };
    let listed = threads::map(threads::cores(), &points, files_of);
    Ok(listed.into_iter().flatten().collect())
}

/// Compares the run files with the journals, and restores the content of lost lines from them.
pub(super) fn compare(directory: &Directory, state: &mut State, listed: &[(String, Option<u64>)], check: Check) {
    recover(directory, state);
    let root = directory.root();
    let files = state.files();
    let lengths = listed.iter().filter_map(|(path, bytes)| Some((&**path, (*bytes)?)));
    let lengths: HashMap<&str, u64> = lengths.collect();
    let is_sound =
        |(_, file): &(usize, &StoredFile)| lengths.get(&*file.path) == Some(&file.bytes) || is_sound(root, file, check);
    let lost: Vec<usize> = threads::map(threads::cores(), &files, is_sound)
        .into_iter()
        .zip(&files)
        .filter(|(is_sound, _)| !is_sound)
        .map(|(_, (at, _))| *at)
        .collect();
    let named: HashSet<&str> = files.iter().map(|(_, file)| &*file.path).collect();
    let unnamed = listed
        .iter()
        .map(|(path, _)| path)
        .filter(|path| !named.contains(&***path));
    let unnamed: Vec<String> = unnamed.cloned().sorted().collect();
    drop((named, files));
    state.lose(&lost);
    let missed = state.missed(&lost);
    let describe = |names: &[String], what: &str| {
        let is = if names.len() == 1 { "is" } else { "are" };
        let many = show_many(names.len() as u64, "run file");
        format!("{many} {is} {what}: {}", first_few(names))
    };
    if !missed.is_empty() {
        let they = if missed.len() == 1 { "it is" } else { "they are" };
        let missing = describe(&missed, "missing or damaged");
        state
            .damage
            .push(format!("{missing}; {they} measured again unless restored from a copy"));
    }
    if !unnamed.is_empty() {
        let they = if unnamed.len() == 1 { "it counts" } else { "they count" };
        let nameless = describe(&unnamed, "in no journal, and in no table");
        state.damage.push(format!(
            "{nameless}; {they} again if the journal is restored from a copy"
        ));
    }
}

fn first_few(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let mut few = names[..names.len() - more].join(", ");
    if more > 0 {
        few += &format!(" and {more} more");
    }
    few
}

fn is_sound(root: &Path, file: &StoredFile, check: Check) -> bool {
    let path = root.join(&*file.path);
    match check {
        Check::Lengths => fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == file.bytes),
        Check::Hashes => read(&path, MOST_RESULT)
            .is_ok_and(|content| content.len() as u64 == file.bytes && Hash256::of(&content) == file.sha256),
    }
}

/// Restores from run files the content of lost lines: results, beginnings of runs, and descriptions of servers.
fn recover(directory: &Directory, state: &mut State) {
    let read = |path: &str| {
        let content = read(&directory.root().join(path), MOST_RESULT).ok()?;
        let (provenance, simulated) = Provenance::read(&content)?;
        Some((provenance, simulated, content))
    };
    for (line, path) in state.open_runs() {
        match read(&path).filter(|(provenance, ..)| provenance.line == line) {
            Some((provenance, _, content)) => {
                let mut finished = provenance.finished;
                finished.file = Some(StoredFile::of(path, &content));
                state.finish_run(line, None, String::new(), finished);
            }
            None if directory.root().join(&path).exists() => state.damage.push(format!(
                "{path} is damaged, and no line says what it held; its run is measured again unless it is restored from a copy"
            )),
            None => {}
        }
    }
    for (line, file) in state.orphans() {
        let whole = read(&file.path).filter(|(_, _, content)| file.sha256 == Hash256::of(content));
        if let Some((provenance, ..)) = whole.filter(|(provenance, ..)| provenance.line == line) {
            state.begin_run(provenance.rank(), provenance.started);
        }
    }
    for (server, path) in state.unknown_servers() {
        if let Some((provenance, simulated, _)) = read(&path) {
            let rank = provenance.rank();
            state.recover_server(&server, provenance.server, rank, simulated);
        }
    }
    state.judge_answers();
}

// The file of a run: its result with parameters and the content of its lines, with a checksum of its own. So the content of a lost line can
// be restored from it.

/// Key of the content of the run's lines.
pub(super) const PROVENANCE: &str = "vsweep";

/// The result of a benchmark, and the kind of server.
#[derive(Debug, Clone)]
pub struct BenchmarkResult {
    /// The result of the benchmark.
    pub result: RunResult,
    /// True if the server was the simulator.
    pub simulated: bool,
}

/// The content of a run's lines.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Provenance {
    /// Its `run_started` line.
    pub line: LineId,
    /// The lamport number of that line.
    pub lamport: u64,
    /// Time of writing.
    pub at: String,
    pub started: RunStarted,
    pub server: ServerDescription,
    pub finished: RunFinished,
}

impl Provenance {
    /// Returns the rank of the line that began the run.
    pub fn rank(&self) -> Rank {
        Rank {
            lamport: self.lamport,
            line: self.line,
        }
    }

    /// Reads the content of the lines from a run file, and true if the server was the simulator. `None` if the file is damaged.
    pub fn read(content: &[u8]) -> Option<(Provenance, bool)> {
        #[derive(Deserialize)]
        struct Part {
            simulated: bool,
            vsweep: Provenance,
        }
        sum_of(content)?;
        let part: Part = serde_json::from_str(std::str::from_utf8(content).ok()?).ok()?;
        Some((part.vsweep, part.simulated))
    }
}

/// Returns the content of a run's file: the result, then the parameters. A parameter never overwrites a figure of the same name. Secrets
/// are redacted.
pub(super) fn encode(provenance: &Provenance, measured: BenchmarkResult, secrets: &Secrets) -> Vec<u8> {
    let mut result = measured.result;
    result.values = secrets.redact_result(&result.values);
    let file = &mut result.values;
    // Readers take everything before `run_number` for the result, so a result's own key of that name must not stay.
    for key in ["run_number", "simulated", PROVENANCE, "sum"] {
        file.shift_remove(key);
    }
    let started = &provenance.started;
    file.insert("run_number".into(), started.run.into());
    file.insert("simulated".into(), measured.simulated.into());
    let (bench_params, server_params) = (&started.params, &provenance.server.params);
    let mut keep = |key: String, value: &Value| {
        file.entry(key).or_insert_with(|| value.clone());
    };
    for (key, value) in server_params
        .iter()
        .chain(bench_params)
        .filter(|(key, _)| *key != "sum")
    {
        keep(key.clone(), value);
    }
    // If both sides have a parameter of this name, the plain name holds at most one of the values. So both are also kept with their sides.
    for (key, value) in server_params {
        if let Some(other) = spelling::find(bench_params, key) {
            keep(format!("serve.{key}"), value);
            keep(format!("bench.{key}"), other);
        }
    }
    let mut content = serde_json::to_vec(&result).expect("a JSON object always serialises");
    content.pop();
    content.extend_from_slice(format!(",\"{PROVENANCE}\":").as_bytes());
    serde_json::to_writer(&mut content, provenance).expect("plain data always serialises");
    // Keys may come from servers too, so they are also redacted.
    sealed(secrets.redact_json(content)).0
}
