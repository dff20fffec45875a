//! The one writer of an experiment: holds the lock, appends events, commits run files, and on opening adopts the run
//! files whose journal line a crash prevented.

use super::directory::{Directory, Shard};
use super::event::{Entry, Event, FORMAT, RunFinished};
use super::lock::Lock;
use super::log::{self, Log};
use super::state::{State, Unfinished, fold};
use super::vouch::{disowned, stored};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use vsweep_metrics::metrics::RunResult;
use vsweep_plan::error::{Error, Result};
use vsweep_plan::files::{create_folder, write_atomic};
use vsweep_plan::plan::{Params, Secrets, spelling};

/// An experiment opened for writing.
#[derive(Debug)]
pub struct Recorder {
    directory: Directory,
    log: Log,
    state: State,
    shard: Shard,
    /// Hidden in whatever is written.
    secrets: Secrets,
    _lock: Lock,
}

/// The part of a run file that makes it a commit of its own: enough to write the journal line if a crash prevented it.
#[derive(Serialize, Deserialize)]
struct Provenance {
    shard: String,
    started_seq: u64,
    started_at: String,
    finished: RunFinished,
}

const PROVENANCE_KEY: &str = "vsweep";

impl Recorder {
    /// Creates or opens the directory, takes its lock and recovers what an earlier crash left half done.
    pub fn open(directory: Directory, shard: Shard) -> Result<Recorder> {
        directory.create()?;
        let lock = Lock::take(&directory, shard)?;
        let own = directory.journal(shard);
        let (log, entries) = Log::open(&own)?;
        let interrupted = State::of(&entries).unfinished;
        let is_new = entries.is_empty();
        let mut journals = vec![entries];
        for journal in directory.journals()?.iter().filter(|journal| **journal != own) {
            journals.push(log::read(journal)?);
        }
        let mut state = fold(&directory, journals)?;
        state.disowned = disowned(&directory, &state);
        let mut recorder = Recorder {
            directory,
            log,
            state,
            shard,
            secrets: Secrets::default(),
            _lock: lock,
        };
        if is_new {
            recorder.record(Event::JournalCreated {
                format: format!("{}.{}", FORMAT.0, FORMAT.1),
                vsweep: env!("CARGO_PKG_VERSION").into(),
                shard: shard.to_string(),
            })?;
        }
        for unfinished in &interrupted {
            recorder.adopt(unfinished)?;
        }
        Ok(recorder)
    }

    /// Hides these secrets in everything that is written from now on.
    pub fn hide(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    /// Where the experiment lives.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Everything known so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Appends one event durably.
    pub fn record(&mut self, event: Event) -> Result<Entry> {
        let entry = self.log.append(self.secrets.redact_data(event))?;
        self.state.apply(&entry);
        Ok(entry)
    }

    /// Commits a measured run: its file first, then the line that vouches for it. `result` is written with the run's
    /// parameters beside its metrics; a parameter never overwrites a metric of the same name.
    pub fn commit(&mut self, started: &Entry, mut finished: RunFinished, mut measured: Measured) -> Result<Entry> {
        let path = Directory::run_file(&finished.point, finished.run);
        let provenance = Provenance {
            shard: self.shard.to_string(),
            started_seq: started.seq,
            started_at: started.at.clone(),
            finished: finished.clone(),
        };
        measured.result.values = self.secrets.redact_result(&measured.result.values);
        let content = run_file(&provenance, &self.server_params(&finished), measured);
        // Columns are texts of servers too.
        let content = self.secrets.redact_json(content);
        let target = self.directory.root().join(&path);
        if let Some(folder) = target.parent() {
            create_folder(folder)?;
        }
        write_atomic(&target, &content)?;
        finished.file = Some(stored(path, &content));
        self.record(Event::RunFinished(Box::new(finished)))
    }

    fn is_of(&self, provenance: &Provenance, unfinished: &Unfinished) -> bool {
        provenance.shard == self.shard.to_string()
            && (provenance.started_seq, &provenance.started_at) == (unfinished.seq, &unfinished.at)
    }

    fn server_params(&self, finished: &RunFinished) -> Params {
        let server = self.state.servers.get(&finished.server);
        server.map(|record| record.params.clone()).unwrap_or_default()
    }

    /// Writes the journal line of a run whose file is complete: the crash came between the two.
    fn adopt(&mut self, unfinished: &Unfinished) -> Result<()> {
        let path = Directory::run_file(&unfinished.point, unfinished.run);
        let target = self.directory.root().join(&path);
        let content = match fs::read(&target) {
            Ok(content) => content,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("read", &target)(error)),
        };
        let provenance = serde_json::from_slice::<Params>(&content)
            .ok()
            .and_then(|mut file| file.remove(PROVENANCE_KEY))
            .and_then(|value| serde_json::from_value::<Provenance>(value).ok());
        match provenance {
            Some(mut provenance) if self.is_of(&provenance, unfinished) => {
                let finished = &mut provenance.finished;
                finished.file = Some(stored(path, &content));
                self.record(Event::RunFinished(Box::new(provenance.finished)))?;
                Ok(())
            }
            // The file of an earlier measurement of the same run: the journal already knows it.
            _ => Ok(()),
        }
    }
}

/// What a benchmark gave, and on what kind of server.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What the benchmark gave.
    pub result: RunResult,
    /// Whether the server was the simulator.
    pub simulated: bool,
}

fn run_file(provenance: &Provenance, server_params: &Params, measured: Measured) -> Vec<u8> {
    let mut result = measured.result;
    let file = &mut result.values;
    // Readers take everything before `run_number` for the result, so a result's own key of that name must not stay.
    for key in ["run_number", "simulated", PROVENANCE_KEY] {
        file.shift_remove(key);
    }
    file.insert("run_number".into(), provenance.finished.run.into());
    file.insert("simulated".into(), measured.simulated.into());
    let bench_params = &provenance.finished.params;
    let mut keep = |key: String, value: &Value| {
        file.entry(key).or_insert_with(|| value.clone());
    };
    for (key, value) in server_params.iter().chain(bench_params) {
        keep(key.clone(), value);
    }
    // The plain name says only one side's value where both have it.
    for (key, value) in server_params {
        if let Some(other) = spelling::find(bench_params, key) {
            keep(format!("serve.{key}"), value);
            keep(format!("bench.{key}"), other);
        }
    }
    let provenance = serde_json::to_value(provenance).expect("plain data always serialises");
    file.insert(PROVENANCE_KEY.into(), provenance);
    serde_json::to_vec(&result).expect("a JSON object always serialises")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vsweep_plan::cause::Outcome;
    use vsweep_plan::ids::{PointId, ServerId, sha256_hex};

    fn finished() -> RunFinished {
        let params = json!({"max_concurrency": 4, "duration": 99, "seed": 3});
        RunFinished {
            point: PointId("p".into()),
            server: ServerId("s".into()),
            run: 0,
            name: "max_concurrency=4".into(),
            params: params.as_object().expect("an object").clone(),
            combo: None,
            outcome: Outcome::Ok,
            cause: None,
            detail: String::new(),
            seconds: 1.5,
            file: None,
            search: None,
        }
    }

    fn started() -> Event {
        let finished = finished();
        Event::RunStarted {
            point: finished.point,
            run: finished.run,
            name: String::new(),
            start: 1,
        }
    }

    fn result() -> Measured {
        let result = json!({"run_number": "mine", "duration": 1.25});
        Measured {
            result: result.as_object().expect("an object").clone().into(),
            simulated: false,
        }
    }

    #[test]
    fn a_commit_is_a_file_and_a_line_that_vouches_for_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut recorder = Recorder::open(Directory::at(folder.path()), Shard::WHOLE).expect("new");
        let start = recorder.record(started()).expect("recorded");
        let params = json!({"seed": 1, "tensor_parallel_size": 2});
        let declared = Event::ServerDeclared {
            server: ServerId("s".into()),
            name: "s".into(),
            argv: Vec::new(),
            env: Default::default(),
            combo: None,
            params: params.as_object().expect("an object").clone(),
        };
        recorder.record(declared).expect("recorded");
        recorder.commit(&start, finished(), result()).expect("committed");
        let run = recorder.state().runs().next().expect("one run").clone();
        let file = run.file.expect("a file");
        let content = fs::read(folder.path().join(&file.path)).expect("readable");
        assert_eq!((file.bytes, file.sha256), (content.len() as u64, sha256_hex(&content)));
        let content: Params = serde_json::from_slice(&content).expect("JSON");
        assert_eq!(content["duration"], 1.25, "a parameter must not overwrite a metric");
        assert_eq!(content["max_concurrency"], 4);
        assert_eq!(content["tensor_parallel_size"], 2);
        assert_eq!((&content["serve.seed"], &content["bench.seed"]), (&json!(1), &json!(3)));
    }

    #[test]
    fn a_file_without_its_line_is_adopted_not_measured_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let mut recorder = Recorder::open(directory.clone(), Shard::WHOLE).expect("new");
        let start = recorder.record(started()).expect("recorded");
        let before = fs::read(directory.journal(Shard::WHOLE)).expect("readable");
        recorder.commit(&start, finished(), result()).expect("committed");
        drop(recorder);
        // The crash: the file is there, the line is not.
        fs::write(directory.journal(Shard::WHOLE), &before).expect("written");
        let recorder = Recorder::open(directory, Shard::WHOLE).expect("recovered");
        assert_eq!(recorder.state().outcome(&PointId("p".into()), 0), Some(Outcome::Ok));
        assert!(recorder.state().unfinished.is_empty());
    }

    #[test]
    fn an_older_file_of_the_same_run_is_not_adopted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let mut recorder = Recorder::open(directory.clone(), Shard::WHOLE).expect("new");
        let start = recorder.record(started()).expect("recorded");
        recorder.commit(&start, finished(), result()).expect("committed");
        recorder.record(started()).expect("measured again");
        drop(recorder);
        let recorder = Recorder::open(directory, Shard::WHOLE).expect("recovered");
        assert_eq!(recorder.state().unfinished.len(), 1);
    }

    #[test]
    fn a_second_writer_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let _first = Recorder::open(directory.clone(), Shard::WHOLE).expect("new");
        assert!(Recorder::open(directory, Shard::WHOLE).is_err());
    }
}
