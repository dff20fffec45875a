//! The only writer of a session: of its journal, and of the files of its runs. It holds the lock, which only saves work: sessions that
//! write at the same time use different files.

use super::directory::{Directory, RunFiles, Shard};
use super::event::{Event, FORMAT, ReadPositions, RunFinished, StoredFile};
use super::files::{self, BenchmarkResult, Check, Provenance};
use super::follow::Follower;
use super::line::Entry;
use super::lock::Lock;
use super::log::Log;
use super::rank::Nonce;
use super::state::{MissingRecord, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use vsweep_base::error::{Error, Result};
use vsweep_base::files::{remove_abandoned, write_atomic};
use vsweep_plan::Secrets;

/// An experiment opened for writing.
#[derive(Debug)]
pub struct Recorder {
    directory: Directory,
    follower: Follower,
    /// The journal, which is begun with the first event.
    log: Option<Arc<Mutex<Log>>>,
    nonce: Nonce,
    shard: Shard,
    /// The secrets that are redacted in everything that is written.
    secrets: Secrets,
    launches: u32,
    /// The runs that were begun and have no result, by the numbers of their lines.
    begun: BTreeMap<u64, Entry>,
    /// The parts of other journals that were recorded as read.
    last_seen: ReadPositions,
    lock: Lock,
}

impl Recorder {
    /// Creates or opens the directory, takes its lock and reads what is there. Nothing is recorded yet.
    pub fn open(directory: Directory, shard: Shard) -> Result<Recorder> {
        directory.create()?;
        let lock = Lock::take(&directory, shard)?;
        Recorder::begin_with(directory, shard, lock, Check::Hashes)
    }

    /// Begins a session that shares the work with others by leases. Compares only the sizes of run files and not their hashes, so that many
    /// sessions can begin at once.
    pub fn join(directory: Directory) -> Result<Recorder> {
        directory.create()?;
        let lock = Lock::join(&directory)?;
        Recorder::begin_with(directory, Shard::WHOLE, lock, Check::Lengths)
    }

    fn begin_with(directory: Directory, shard: Shard, lock: Lock, check: Check) -> Result<Recorder> {
        remove_abandoned(directory.root());
        let follower = follow(&directory, check)?;
        if let Some(gap) = follower.gaps().into_iter().find(|gap| !gap.is_repaired_by_run) {
            return Err(Error::Fatal(gap.text));
        }
        Ok(Recorder {
            directory,
            follower,
            log: None,
            nonce: Nonce::random(),
            shard,
            secrets: Secrets::default(),
            launches: 0,
            begun: BTreeMap::new(),
            last_seen: ReadPositions::new(),
            lock,
        })
    }

    /// Redacts these secrets in everything that is written from now on.
    pub fn hide(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    /// Returns the experiment's directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the current state.
    pub fn state(&self) -> &State {
        self.follower.state()
    }

    /// Returns the current state, which does not change when more is recorded.
    pub fn snapshot(&self) -> Arc<State> {
        self.follower.snapshot()
    }

    /// Ends the recorder. Returns the state as [`load`] reads it, with the events that other sessions have recorded meanwhile, and the lock.
    pub fn into_state(mut self) -> Result<(State, Lock)> {
        if self.log.is_some() {
            // The follower does not read the journal that this process writes.
            self.follower = follow(&self.directory, Check::Hashes)?;
        }
        self.refresh()?;
        Ok((complete_state(self.follower)?, self.lock))
    }

    /// Returns the lost and damaged records, one sentence each.
    pub fn damage(&self) -> Vec<String> {
        let mut damage = self.state().damage.clone();
        damage.extend(self.follower.damage());
        damage.extend(self.follower.gaps().into_iter().map(|gap| gap.text));
        damage
    }

    /// Returns the name of this session.
    pub fn nonce(&self) -> Nonce {
        self.nonce
    }

    /// Returns the missing records that this session replaces by its own.
    pub fn gaps(&self) -> Vec<MissingRecord> {
        self.follower.gaps()
    }

    /// Returns true if another plan counts now.
    pub fn is_superseded(&self) -> bool {
        let sessions = self.state().sessions();
        let own = sessions.iter().find(|session| session.rank.line.journal == self.nonce);
        let last = self.state().planning_session();
        own.zip(last)
            .is_some_and(|(own, last)| own.plan.sha256 != last.plan.sha256)
    }

    /// Reads the lines that other sessions have written since the last call.
    pub fn refresh(&mut self) -> Result<()> {
        self.follower.refresh()
    }

    /// Returns the parts of other journals that were read since the last call, in order to record them.
    fn newly_read(&mut self) -> ReadPositions {
        let mut seen = self.follower.seen();
        seen.retain(|name, now| self.last_seen.get(name) != Some(now));
        self.last_seen.extend(seen.clone());
        seen
    }

    /// Appends one event durably.
    pub fn record(&mut self, event: Event) -> Result<Entry> {
        let draft = self.draft(event, None)?;
        Ok(self.settle(draft.write()?))
    }

    /// Commits a measured run: writes its file first, then the line with the file's hash.
    pub fn commit(&mut self, finished: RunFinished, measured: BenchmarkResult) -> Result<Entry> {
        let draft = self.draft(Event::RunFinished(Box::new(finished)), Some(measured))?;
        Ok(self.settle(draft.write()?))
    }

    /// Begins the journal of a session that will record something, so that others know of it before the first event.
    pub fn announce(&mut self) -> Result<()> {
        match &self.log {
            Some(_) => Ok(()),
            None => self.begin().map(drop),
        }
    }

    /// Prepares an event for writing. Adds the facts that only the recorder knows: the number of a launch, the parts of other journals that
    /// were read, and the line that retired earlier results. The file of a measured run is written before the event. No other event may be
    /// drafted before this one is settled, or its writing has failed.
    pub fn draft(&mut self, mut event: Event, measured: Option<BenchmarkResult>) -> Result<Draft> {
        let mut run = None;
        match &mut event {
            Event::SessionStarted(started) => started.seen = self.newly_read(),
            Event::GroupBegun(begun) => begun.seen = self.newly_read(),
            Event::ServerStarting { launch, .. } => {
                self.launches += 1;
                *launch = self.launches;
            }
            Event::RunStarted(started) => started.anew = self.state().retired_by(&started.server, self.nonce),
            Event::RunFinished(finished) => {
                let whole = |measured| Box::new((self.directory.clone(), self.provenance(finished), measured));
                run = measured.map(whole);
            }
            _ => {}
        }
        let log = match &self.log {
            Some(log) => Arc::clone(log),
            None => self.begin()?,
        };
        Ok(Draft {
            log,
            lamport: self.state().lamport() + 1,
            secrets: self.secrets.clone(),
            event,
            run,
        })
    }

    /// Applies a written draft to the state.
    pub fn settle(&mut self, written: Entry) -> Entry {
        match &written.event {
            Event::RunStarted(_) => _ = self.begun.insert(written.rank.line.seq, written.clone()),
            Event::RunFinished(finished) => _ = self.begun.remove(&finished.started),
            _ => {}
        }
        self.follower.note_own(written.clone());
        written
    }

    /// Returns the content of the lines of the run that an event finishes.
    fn provenance(&self, finished: &RunFinished) -> Provenance {
        let begun = self.begun.get(&finished.started);
        let Some(Entry {
            rank,
            at,
            event: Event::RunStarted(started),
            ..
        }) = begun
        else {
            unreachable!("a run is committed after it was begun");
        };
        let server = self.state().servers.get(&started.server);
        Provenance {
            line: rank.line,
            lamport: rank.lamport,
            at: at.clone(),
            server: server.map(|record| record.config.clone()).unwrap_or_default(),
            started: (**started).clone(),
            finished: finished.clone(),
        }
    }

    /// Begins the journal.
    fn begin(&mut self) -> Result<Arc<Mutex<Log>>> {
        let mut log = Log::create(&self.directory.journal_folder(), self.nonce)?;
        let created = Event::JournalCreated {
            format: format!("{}.{}", FORMAT.0, FORMAT.1),
            vsweep: env!("CARGO_PKG_VERSION").into(),
            shard: self.shard.to_string(),
        };
        let entry = log.append(self.state().lamport() + 1, created)?;
        self.follower.note_own(entry);
        Ok(Arc::clone(self.log.insert(Arc::new(Mutex::new(log)))))
    }
}

/// An event on its way to disk, with everything to be written. Another thread can write it, so that supervision of servers continues. It
/// takes effect once it is written and given to [`super::Recorder::settle`]. No other event may be drafted before that.
#[derive(Debug)]
pub struct Draft {
    log: Arc<Mutex<Log>>,
    lamport: u64,
    secrets: Secrets,
    event: Event,
    /// The run that the event finishes, if it was measured. Its file is written first, then the line with the file's hash.
    run: Option<Box<(Directory, Provenance, BenchmarkResult)>>,
}

impl Draft {
    /// Writes the event and waits until it is on disk. Pass the line to [`super::Recorder::settle`].
    pub fn write(self) -> Result<Entry> {
        let mut event = self.event;
        if let (Event::RunFinished(finished), Some(run)) = (&mut event, self.run) {
            let (directory, provenance, measured) = *run;
            finished.file = Some(write_run(&directory, &provenance, measured, &self.secrets)?);
        }
        let event = self.secrets.redact_data(event);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.append(self.lamport, event)
    }
}

/// Writes the file of a measured run.
fn write_run(
    directory: &Directory,
    provenance: &Provenance,
    measured: BenchmarkResult,
    secrets: &Secrets,
) -> Result<StoredFile> {
    let Provenance { started, line, .. } = provenance;
    let path = RunFiles::of(&started.point, started.slot, started.run, *line).json();
    let target = directory.root().join(&path);
    let content = files::encode(provenance, measured, secrets);
    if let Some(folder) = target.parent() {
        directory.create_folder(folder)?;
    }
    write_atomic(&target, &content)?;
    Ok(StoredFile::of(path, &content))
}

/// Reads the journals of a directory, and compares the run files with them.
pub(super) fn follow(directory: &Directory, check: Check) -> Result<Follower> {
    let listed = files::list(directory, check)?;
    let mut follower = Follower::open(directory)?;
    if follower.is_blank() && directory.has_runs() {
        return Err(Error::Fatal(directory.lost_journal()));
    }
    files::compare(directory, follower.state_mut(), &listed, check);
    Ok(follower)
}

/// Loads the state from the journals and run files of a directory, without changing anything.
///
/// # Errors
///
/// A record is missing without which the tables would show an earlier state.
pub fn load(directory: &Directory, check: Check) -> Result<State> {
    complete_state(follow(directory, check)?)
}

fn complete_state(follower: Follower) -> Result<State> {
    match follower.gaps().into_iter().next() {
        Some(gap) => Err(Error::Fatal(gap.text)),
        None => Ok(follower.into_state()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::declared::{LoadNames, RecordedPlan, ServerDescription};
    use super::super::event::{GroupBegun, RunStarted, SessionStarted};
    use super::super::state::{DuplicateReason, FIRST_SLOT};
    use super::*;
    use serde_json::{Value, json};
    use std::fs;
    use vsweep_base::cause::{Cause, Outcome};
    use vsweep_base::ids::{PointId, ServerId};
    use vsweep_plan::Params;

    fn params(value: Value) -> Params {
        value.as_object().expect("an object").clone()
    }

    /// A session with a plan of this name. `joined` is true if it continued the plan that it found.
    fn session(name: &str, joined: bool) -> Event {
        Event::SessionStarted(Box::new(SessionStarted {
            renamed: LoadNames::default(),
            optimize: None,
            host: "h".into(),
            boot: "b".into(),
            pid: 1,
            started: 1,
            machine: None,
            joined,
            plan: RecordedPlan::new(name, name.to_owned(), &[], &[]),
            servers: 1,
            points: 1,
            starts: 1,
            runs: 1,
            searches: 0,
            compare: None,
            noise: Vec::new(),
            seen: ReadPositions::new(),
        }))
    }

    #[test]
    fn a_worker_that_begins_while_a_plan_is_submitted_does_not_bring_back_the_one_before() {
        // Which of the two sessions is later in the order depends on chance, so a single attempt would prove nothing.
        for _ in 0..20 {
            let folder = tempfile::tempdir().expect("a folder");
            let directory = Directory::at(folder.path().join("out"));
            let join = || Recorder::join(directory.clone()).expect("free");
            let mut first = join();
            first.record(session("old", false)).expect("written");
            let mut worker = join();
            let mut submit = join();
            submit.record(session("new", false)).expect("written");
            worker.record(session("old", true)).expect("written");
            let state = load(&directory, Check::Lengths).expect("readable");
            assert_eq!(state.plan_that_counts().map(|(name, ..)| name), Some("new"));
            worker.refresh().expect("readable");
            assert!(worker.is_superseded() && !submit.is_superseded());
        }
    }

    #[test]
    fn a_recorder_without_events_ends_with_the_state_on_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::at(folder.path().join("out"));
        let mut other = Recorder::join(directory.clone()).expect("free");
        other.record(session("old", false)).expect("written");
        let idle = Recorder::join(directory.clone()).expect("free");
        let before = idle.snapshot();
        other.record(session("new", false)).expect("written");
        let (state, _lock) = idle.into_state().expect("readable");
        let loaded = load(&directory, Check::Lengths).expect("readable");
        let plan = |state: &State| state.plan_that_counts().map(|(name, ..)| name.to_owned());
        assert_eq!(
            (plan(&before).as_deref(), plan(&state).as_deref()),
            (Some("old"), Some("new"))
        );
        assert_eq!((plan(&loaded), loaded.damage), (plan(&state), state.damage));
    }

    #[test]
    fn a_recorder_with_events_ends_with_the_basis_that_every_reader_computes() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::at(folder.path().join("out"));
        let mut recorder = Recorder::join(directory.clone()).expect("free");
        recorder.record(session("new", false)).expect("written");
        let (state, _lock) = recorder.into_state().expect("readable");
        let loaded = load(&directory, Check::Lengths).expect("readable");
        assert_eq!(state.basis(), loaded.basis());
    }

    fn begun() -> Event {
        let config = ServerDescription {
            params: params(json!({"seed": 1, "tensor_parallel_size": 2})),
            ..ServerDescription::default()
        };
        let (server, slot, seen) = (ServerId("s".into()), FIRST_SLOT, ReadPositions::new());
        Event::GroupBegun(Box::new(GroupBegun {
            proposed: None,
            server,
            slot,
            config,
            seen,
        }))
    }

    fn started() -> Event {
        Event::RunStarted(Box::new(RunStarted {
            point: PointId("p".into()),
            server: ServerId("s".into()),
            slot: FIRST_SLOT,
            run: 0,
            launch: 1,
            name: "max_concurrency=4".into(),
            params: params(json!({"max_concurrency": 4, "duration": 99, "seed": 3})),
            combo: None,
            search: None,
            anew: None,
        }))
    }

    fn finished(started: &Entry) -> RunFinished {
        RunFinished {
            started: started.rank.line.seq,
            outcome: Outcome::Ok,
            seconds: 1.5,
            ..RunFinished::default()
        }
    }

    fn result() -> BenchmarkResult {
        let result = params(json!({"run_number": "mine", "duration": 1.25}));
        let simulated = false;
        BenchmarkResult {
            result: result.into(),
            simulated,
        }
    }

    /// Records a server and one measured run. Returns the line that began the run.
    fn measure(recorder: &mut Recorder) -> Entry {
        recorder.record(begun()).expect("recorded");
        let start = recorder.record(started()).expect("recorded");
        recorder.commit(finished(&start), result()).expect("committed");
        start
    }

    #[test]
    fn a_commit_is_a_file_and_a_line_that_vouches_for_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut recorder = Recorder::open(Directory::at(folder.path()), Shard::WHOLE).expect("new");
        assert!(
            !recorder.directory().is_experiment(),
            "a session that records nothing has no journal"
        );
        let start = measure(&mut recorder);
        let run = recorder.state().runs().next().expect("one run").clone();
        let file = run.file.clone().expect("a file");
        assert_eq!(*file.path, format!("runs/p/0.0-{}.json", start.rank.line));
        let content = fs::read(folder.path().join(&*file.path)).expect("readable");
        assert_eq!(file, StoredFile::of(file.path.to_string(), &content));
        let content: Params = serde_json::from_slice(&content).expect("JSON");
        assert_eq!(content["duration"], 1.25, "a parameter must not overwrite a metric");
        assert_eq!(content["run_number"], 0);
        assert_eq!(content["max_concurrency"], 4);
        assert_eq!(content["tensor_parallel_size"], 2);
        assert_eq!((&content["serve.seed"], &content["bench.seed"]), (&json!(1), &json!(3)));
    }

    #[test]
    fn lost_lines_are_restored_from_the_run_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let mut recorder = Recorder::open(directory.clone(), Shard::WHOLE).expect("new");
        measure(&mut recorder);
        drop(recorder);
        let path = directory.journals().expect("readable").remove(0);
        let whole = fs::read_to_string(&path).expect("readable");
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        for lost in [&[3][..], &[2], &[1], &[1, 2]] {
            let mut text = String::new();
            for (at, line) in lines.iter().enumerate() {
                match lost.contains(&at) {
                    // The crash came before the last line.
                    true if at == 3 => {}
                    true => text += &line.replacen("lamport", "lampost", 1),
                    false => text += line,
                }
            }
            fs::write(&path, text).expect("written");
            let state = follow(&directory, Check::Lengths).expect("readable").into_state();
            let run = state.runs().next().expect("the run is there");
            assert_eq!(
                (run.outcome, run.params["max_concurrency"].as_u64()),
                (Outcome::Ok, Some(4)),
                "{lost:?}"
            );
            assert_eq!(state.servers[&run.server].params["tensor_parallel_size"], 2, "{lost:?}");
        }
    }

    #[test]
    fn the_failure_of_a_later_try_counts_instead_of_a_lost_result() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let mut recorder = Recorder::open(directory.clone(), Shard::WHOLE).expect("new");
        measure(&mut recorder);
        let file = recorder
            .state()
            .runs()
            .find_map(|run| run.file.clone())
            .expect("a file");
        drop(recorder);
        fs::remove_file(directory.root().join(&*file.path)).expect("it is there");
        let outcome = |state: &State| state.outcome(&PointId("p".into()), FIRST_SLOT, 0);
        assert_eq!(outcome(&load(&directory, Check::Hashes).expect("readable")), None);
        let mut later = Recorder::open(directory.clone(), Shard::WHOLE).expect("sound");
        later.record(session("plan", false)).expect("recorded");
        let start = later.record(started()).expect("recorded");
        let failed = RunFinished {
            outcome: Outcome::Failed,
            cause: Some(Cause::BadFlag),
            ..finished(&start)
        };
        later.record(Event::RunFinished(Box::new(failed))).expect("recorded");
        drop(later);
        let state = load(&directory, Check::Hashes).expect("readable");
        assert_eq!(outcome(&state), Some(Outcome::Failed), "else it is tried without end");
    }

    #[test]
    fn a_second_writer_is_refused_and_could_do_no_harm() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let mut first = Recorder::open(directory.clone(), Shard::WHOLE).expect("new");
        assert!(Recorder::open(directory.clone(), Shard::WHOLE).is_err());
        fs::remove_file(directory.lock(Shard::WHOLE)).expect("it is there");
        let mut second = Recorder::open(directory.clone(), Shard::WHOLE).expect("nobody is in the way");
        for recorder in [&mut first, &mut second] {
            measure(recorder);
        }
        let state = load(&directory, Check::Hashes).expect("sound");
        assert_eq!(
            (state.runs().count(), state.duplicates().len(), state.damage.len()),
            (1, 1, 0)
        );
        assert_eq!(state.duplicates()[0].why, DuplicateReason::MeasuredTwice);
        // After each loss the damage is one sentence, but the states differ.
        let [mut before, mut losses] = [state.basis(), String::new()];
        for run in state
            .runs()
            .chain(state.duplicates().into_iter().map(|spare| spare.run))
        {
            let file = run.file.as_ref().expect("measured");
            fs::remove_file(directory.root().join(&*file.path)).expect("it is there");
            let lost = load(&directory, Check::Hashes).expect("readable");
            assert_ne!(lost.basis(), std::mem::replace(&mut before, lost.basis()));
            losses += &lost.damage.len().to_string();
        }
        assert_eq!(losses, "11");
    }
}
