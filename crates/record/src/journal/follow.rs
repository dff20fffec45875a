//! All journals of a directory as one state, read once and then followed as they grow. Each session records how much of the other journals
//! it read. A comparison with the files shows journals that were lost or shortened since.

use super::directory::Directory;
use super::event::{ReadPositions, SeenJournal};
use super::line::Entry;
use super::rank::Nonce;
use super::reader::{Read, Reader};
use super::state::{MissingRecord, State};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::REFUSED;

/// The journals of a directory and the state after all lines read so far.
#[derive(Debug)]
pub struct Follower {
    directory: Directory,
    /// The state, which is shared because copies of a large state would fill the memory.
    state: Arc<State>,
    readers: BTreeMap<Nonce, Reader>,
    /// The journal that this process writes itself, and its number of lines.
    own: Option<(Nonce, u64)>,
    /// Defects of whole files, as the last [`Follower::refresh`] found them.
    damage: Vec<String>,
}

impl Follower {
    /// Reads every journal.
    pub fn open(directory: &Directory) -> Result<Follower> {
        let mut follower = Follower {
            directory: directory.clone(),
            state: Arc::default(),
            readers: BTreeMap::new(),
            own: None,
            damage: Vec::new(),
        };
        follower.refresh()?;
        Ok(follower)
    }

    /// Reads the lines that other processes have written since the last call.
    pub fn refresh(&mut self) -> Result<()> {
        self.damage = self.directory.irregular();
        for path in self.directory.journals()? {
            match Reader::of(&path) {
                Some(reader) if self.own.is_some_and(|(own, _)| own == reader.nonce) => {}
                Some(reader) => _ = self.readers.entry(reader.nonce).or_insert(reader),
                None => self
                    .damage
                    .push(format!("{} has no name of a journal; it is not read", path.display())),
            }
        }
        let mut has_news = false;
        for nonce in self.readers.keys().copied().collect::<Vec<_>>() {
            let reader = self.readers.get_mut(&nonce).expect("just listed");
            let state = &mut self.state;
            let mut take = |entry| {
                has_news = true;
                Arc::make_mut(state).take(entry);
            };
            let read = match reader.read(&mut take) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Read::Changed,
                Err(Error::Io { source, path, .. }) if source.kind() == REFUSED => {
                    self.damage.push(format!("{} is not read: {source}", path.display()));
                    self.readers.remove(&nonce);
                    continue;
                }
                read => read?,
            };
            match read {
                Read::On => {}
                Read::Foreign | Read::Endless => {
                    let path = reader.path.display();
                    self.damage
                        .push(format!("{path} is a journal under another name; it is not read"));
                    self.readers.remove(&nonce);
                }
                Read::Changed => {
                    let path = reader.path.display();
                    self.damage.push(format!(
                        "{path} became shorter or was removed while it was read; what was read of it counts for now"
                    ));
                }
            }
        }
        if has_news {
            self.state_mut().judge_answers();
        }
        Ok(())
    }

    /// Returns the current state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the current state, which does not change when more is read.
    pub fn snapshot(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    /// Returns the state, with all defects added to its `damage`.
    pub fn into_state(self) -> State {
        let (damage, seen) = (self.damage(), self.seen());
        let mut state = Arc::unwrap_or_clone(self.state);
        state.damage.extend(damage);
        state.note_read(seen);
        state
    }

    /// Returns true if there are no lines at all.
    pub(super) fn is_blank(&self) -> bool {
        self.readers.values().all(|reader| reader.length() == 0)
    }

    pub(super) fn state_mut(&mut self) -> &mut State {
        Arc::make_mut(&mut self.state)
    }

    /// Applies a line that this process has written itself.
    pub(super) fn note_own(&mut self, entry: Entry) {
        let line = entry.rank.line;
        self.own = Some((line.journal, line.seq + 1));
        self.state_mut().apply(entry);
    }

    /// Returns the defects of the journals, one sentence each.
    pub fn damage(&self) -> Vec<String> {
        let of_readers = self.readers.values().flat_map(|reader| reader.damage());
        let mut damage: Vec<String> = self.damage.iter().cloned().chain(of_readers).collect();
        let mut most: BTreeMap<Nonce, SeenJournal> = BTreeMap::new();
        for (nonce, seen) in self.state.all_seen() {
            let known = most.entry(*nonce).or_insert_with(|| seen.clone());
            if seen.lines > known.lines {
                known.clone_from(seen);
            }
        }
        for (nonce, seen) in most {
            damage.extend(self.compare(nonce, &seen));
        }
        damage
    }

    /// Compares a journal with the part of it that a session saw, and describes the difference.
    fn compare(&self, nonce: Nonce, seen: &SeenJournal) -> Option<String> {
        if self.own.is_some_and(|(own, _)| own == nonce) {
            return None;
        }
        let remedy = "its results are measured again unless it is restored from a copy";
        let many = seen.lines;
        let Some(reader) = self.readers.get(&nonce) else {
            return Some(format!(
                "journal/{nonce}.jsonl is missing, of which a session saw {many} lines; {remedy}"
            ));
        };
        let length = reader.length();
        if length < many {
            return Some(format!(
                "journal/{nonce}.jsonl has {length} lines, and a session saw {many}; {remedy}"
            ));
        }
        // A damaged line has no sum, and is reported on its own.
        let sum = many.checked_sub(1).and_then(|last| reader.sum(last));
        let is_other = sum.is_some_and(|sum| sum != seen.sum && seen.sum != Default::default());
        is_other.then(|| format!("journal/{nonce}.jsonl is not what a session saw of it; {remedy}"))
    }

    /// Returns the missing records without which the experiment cannot be evaluated.
    pub fn gaps(&self) -> Vec<MissingRecord> {
        let mut gaps = self.state.gaps();
        for reader in self.readers.values() {
            let nonce = reader.nonce;
            let has_no_plan = reader.length() > 1 && reader.sum(1).is_none();
            if has_no_plan && !self.state.is_known(nonce, 2) {
                gaps.push(MissingRecord {
                    text: format!(
                        "{}: the line that records the plan (the second) is missing or damaged; restore the file from a copy, or \
                         run the plan again: that records it anew, and keeps all results that are left",
                        reader.path.display()
                    ),
                    is_repaired_by_run: true,
                });
            }
            gaps.extend(reader.doubtful.iter().map(|line| MissingRecord {
                text: format!(
                    "{}:{line}: a damaged line that seems to retire earlier results; restore the file from a copy, or start over \
                     with `vsweep run --fresh`",
                    reader.path.display()
                ),
                is_repaired_by_run: false,
            }));
        }
        gaps
    }

    /// Returns how far each journal was read, except this process's own.
    pub(super) fn seen(&self) -> ReadPositions {
        let seen = self.readers.values().map(|reader| {
            let (lines, sum) = (reader.length(), reader.last_sum());
            (reader.nonce, SeenJournal { lines, sum })
        });
        seen.collect()
    }
}
