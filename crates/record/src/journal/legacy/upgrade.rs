//! Turns the lines of vsweep 1.x, in their order, into those of today. Most of what they tell has kept its name and its members; what
//! came later is added, and what moved is put in its place.

use super::cold::Cold;
use crate::journal::declared::RecordedPlan;
use crate::journal::directory::Directory;
use crate::journal::event::{Event, Learned, Link, RunFinished, RunStarted, SessionStarted, StoredFile};
use crate::journal::given_up::{GroupGivenUp, Untried};
use crate::journal::line::Entry;
use crate::journal::rank::{LineId, Nonce, Rank};
use crate::journal::run_file::PROVENANCE;
use crate::journal::state::{FIRST_SLOT, Sealed, Session};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Result, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vsweep_plan::cause::{Cause, NOT_TRIED, Outcome};
use vsweep_plan::ids::{PointId, SearchId};
use vsweep_plan::plan::Params;
use vsweep_plan::validity::{Code, Doubt, Validity};
use vsweep_strategy::search::{Level, Probe};

/// What was read so far.
pub(super) struct Upgrade<'d> {
    pub(super) sealed: Sealed,
    directory: &'d Directory,
    /// Names of the journals.
    pub(super) shards: Vec<String>,
    /// Runs that were begun and have no result, by shard: where, when, on which start.
    open: BTreeMap<(usize, PointId, u32), (u64, String, u32)>,
    /// Where the run of a point that has a file stands among the entries: one that was measured again wrote over it.
    runs: HashMap<(PointId, u32), usize>,
    /// What the next probe of each search follows, and how many are before it.
    chains: HashMap<SearchId, (LineId, u32)>,
    cold: Cold,
}

/// What a run said of the search that asked for it.
#[derive(Deserialize)]
struct OldSearched {
    id: SearchId,
    probe: Option<Probe>,
    #[serde(default)]
    level: Option<Level>,
}

/// The provenance in a run file of 1.x.
#[derive(Deserialize)]
struct OldProvenance {
    shard: String,
    started_seq: u64,
    started_at: String,
    finished: Params,
}

/// A member of what was told; one that is missing is null.
pub(super) fn member<T: DeserializeOwned>(body: &Params, name: &str) -> Result<T> {
    serde_json::from_value(body.get(name).cloned().unwrap_or_default())
}

/// What was told then as a type of today, with members that came later.
fn today<T: DeserializeOwned>(mut body: Params, later: Value) -> Result<T> {
    for (name, value) in later.as_object().into_iter().flatten() {
        body.entry(name).or_insert_with(|| value.clone());
    }
    serde_json::from_value(Value::Object(body))
}

impl<'d> Upgrade<'d> {
    pub(super) fn new(directory: &'d Directory) -> Upgrade<'d> {
        Upgrade {
            sealed: Sealed::default(),
            directory,
            shards: Vec::new(),
            open: BTreeMap::new(),
            runs: HashMap::new(),
            chains: HashMap::new(),
            cold: Cold::of(directory),
        }
    }

    fn rank(&self) -> Rank {
        let (journal, seq) = (Nonce::SEALED, self.sealed.entries.len() as u64);
        Rank {
            lamport: seq,
            line: LineId { journal, seq },
        }
    }

    fn push(&mut self, at: &str, event: Event) -> LineId {
        let rank = self.rank();
        let (at, prev) = (at.to_owned(), Nonce::SEALED);
        self.sealed.entries.push(Entry { rank, at, event, prev });
        rank.line
    }

    /// Takes in what a line of a journal told, by its name then.
    pub(super) fn take(&mut self, shard: usize, seq: u64, at: &str, name: &str, mut body: Params) -> Result<()> {
        match name {
            "journal_created" => {}
            "session_started" => self.begin_session(shard, at, body)?,
            "session_ended" => {
                let mut sessions = self.sealed.sessions.iter_mut();
                if let Some(session) = sessions.rfind(|session| session.host == self.shards[shard]) {
                    session.ended = member(&body, "reason")?;
                }
            }
            "points_dropped" => self.sealed.dropped.extend(member::<Vec<PointId>>(&body, "points")?),
            "points_restored" => {
                let restored: BTreeSet<PointId> = member(&body, "points")?;
                self.sealed.dropped.retain(|point| !restored.contains(point));
            }
            "searches_planned" => self.sealed.searches = member(&body, "searches")?,
            "server_declared" => {
                let begun = json!({"server": member::<Value>(&body, "server")?, "slot": FIRST_SLOT, "config": body});
                self.push(at, serde_json::from_value(json!({"group_begun": begun}))?);
            }
            "run_started" => {
                let key = (shard, member(&body, "point")?, member(&body, "run")?);
                self.open.insert(key, (seq, at.to_owned(), member(&body, "start")?));
            }
            "run_finished" => {
                let key = (shard, member(&body, "point")?, member(&body, "run")?);
                let start = self.open.remove(&key).map_or(0, |(_, _, start)| start);
                self.finish_run(at, body, start)?;
            }
            "search_finished" => {
                if let Some((after, _)) = self.chains.get(&member(&body, "search")?) {
                    body.insert("after".into(), after.to_string().into());
                    self.push(at, serde_json::from_value(json!({"search_finished": body}))?);
                }
            }
            _ => {
                let event = serde_json::from_value(json!({name: body}))?;
                let line = self.rank().line;
                if let Event::SearchStarted(started) = &event {
                    self.chains.entry(started.search.clone()).or_insert((line, 0));
                }
                self.push(at, event);
            }
        }
        Ok(())
    }

    fn begin_session(&mut self, shard: usize, at: &str, body: Params) -> Result<()> {
        let plan = RecordedPlan {
            sha256: member(&body, "plan_sha256")?,
            ..RecordedPlan::default()
        };
        // A shard works in one session at a time.
        let later =
            json!({"host": self.shards[shard], "boot": "", "started": 0, "plan": plan, "searches": 0, "seen": {}});
        let said: SessionStarted = today(body, later)?;
        let (started_at, rank) = (at.to_owned(), self.rank());
        self.sealed.sessions.push(Session {
            started_at,
            said,
            ended: None,
            rank,
        });
        Ok(())
    }

    fn finish_run(&mut self, at: &str, mut body: Params, start: u32) -> Result<()> {
        let searched: Option<OldSearched> = member(&body, "search")?;
        // A text, because some causes of then are reasons for doubt today.
        let why: Option<String> = member(&body, "cause")?;
        body.retain(|name, _| !matches!(name.as_str(), "search" | "cause"));
        let mut started: RunStarted = today(body.clone(), json!({"slot": FIRST_SLOT, "launch": start}))?;
        let mut finished: RunFinished = today(body, json!({"started": 0}))?;

        let key = (started.point.clone(), started.run);
        let replaced = self.runs.get(&key).copied().filter(|_| finished.file.is_some());
        if let Some(OldSearched { id, probe, level }) = searched {
            started.search = self.link(id, probe.as_ref(), replaced);
            finished.learned = probe.map(Learned::Probe).or(level.map(Learned::Level));
        }
        let known = |name: &str| Cause::ALL.into_iter().find(|cause| cause.name() == name);
        finished.cause = why.as_deref().and_then(known);
        let is_cold = self.cold.is_first(&started);
        if let (Outcome::Suspect, Some(name)) = (finished.outcome, &why) {
            // What was a cause for doubt then is a doubt today.
            finished.doubts.push(Doubt::new(Code::named(name), &finished.detail));
        }
        if is_cold && finished.outcome != Outcome::Failed {
            finished.doubts.push(Cold::doubt());
        }
        if finished.outcome == Outcome::Ok && !finished.doubts.is_empty() {
            finished.outcome = Outcome::Suspect;
        }
        if finished.outcome == Outcome::Suspect || !finished.doubts.is_empty() {
            finished.validity = Validity::Suspect;
        }
        if let (Some(detail), Some(cause)) = (finished.detail.strip_prefix(NOT_TRIED), finished.cause) {
            self.push(at, Event::GroupGivenUp(Box::new(given_up(started, cause, detail))));
            return Ok(());
        }
        if let Some(at_entry) = replaced {
            // The same line number keeps its place in tables and chains; its file was written over.
            finished.started = self.sealed.entries[at_entry].rank.line.seq;
            self.sealed.entries[at_entry].event = Event::RunStarted(Box::new(started));
            self.sealed.entries[at_entry + 1].event = Event::RunFinished(Box::new(finished));
            self.sealed.entries[at_entry + 1].at = at.to_owned();
            return Ok(());
        }
        if finished.file.is_some() {
            self.runs.insert(key, self.sealed.entries.len());
        }
        let link = started.search.clone();
        let line = self.push(at, Event::RunStarted(Box::new(started)));
        finished.started = line.seq;
        self.push(at, Event::RunFinished(Box::new(finished)));
        if let Some(Link { id, step, .. }) = link {
            self.chains.insert(id, (line, step + 1));
        }
        Ok(())
    }

    /// The place of a probe in the chain of its search: the next one, or that of the one which it replaces.
    fn link(&self, id: SearchId, probe: Option<&Probe>, replaced: Option<usize>) -> Option<Link> {
        let draw = probe.map_or(0, |probe| probe.question.draw);
        match replaced.map(|at| &self.sealed.entries[at].event) {
            Some(Event::RunStarted(before)) if before.search.as_ref().is_some_and(|link| link.id == id) => {
                let link = before.search.clone()?;
                Some(Link { draw, ..link })
            }
            _ => {
                let (after, step) = *self.chains.get(&id)?;
                Some(Link { id, after, step, draw })
            }
        }
    }

    /// Adopts runs whose file is complete and whose line is missing, as 1.x did when it went on.
    pub(super) fn finish(mut self) -> Sealed {
        for ((shard, point, run), (seq, at, start)) in std::mem::take(&mut self.open) {
            let path = format!("runs/{point}/{run}.json");
            let Ok(content) = std::fs::read(self.directory.root().join(&path)) else {
                continue;
            };
            let file = serde_json::from_slice::<Params>(&content);
            let Ok(provenance) = file.and_then(|file| member::<OldProvenance>(&file, PROVENANCE)) else {
                continue;
            };
            let is_of = (&provenance.shard, provenance.started_seq, &provenance.started_at);
            if is_of == (&self.shards[shard], seq, &at) {
                let file = StoredFile::of(path, &content);
                let mut finished = provenance.finished;
                finished.insert("file".into(), json!(file));
                // What cannot be read is open.
                let _ = self.finish_run(&at, finished, start);
            }
        }
        self.sealed
    }
}

/// A run that was not tried.
fn given_up(run: RunStarted, cause: Cause, detail: &str) -> GroupGivenUp {
    GroupGivenUp {
        server: run.server,
        slot: FIRST_SLOT,
        cause,
        detail: detail.to_owned(),
        ruled_out: None,
        blamed: Some(0),
        common: Params::new(),
        points: vec![Untried {
            point: run.point,
            runs: vec![run.run],
            name: run.name,
            params: run.params,
            combo: run.combo,
            search: run.search.map(|link| link.id),
        }],
        searches: Vec::new(),
    }
}
