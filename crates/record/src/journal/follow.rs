//! All journals of a directory as one state, read once and then followed as they grow. Compares what sessions saw of each
//! other's journals with what is there, so that a journal that was lost or cut is named and never missed in silence.

use super::directory::Directory;
use super::event::{Seen, SeenJournal};
use super::legacy;
use super::line::Entry;
use super::rank::Nonce;
use super::reader::{Read, Reader};
use super::state::{Gap, State};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use vsweep_plan::error::{Error, Result};

/// The journals of a directory and what they tell so far.
#[derive(Debug)]
pub struct Follower {
    directory: Directory,
    state: State,
    readers: BTreeMap<Nonce, Reader>,
    /// Journals of vsweep 1.x as they were when they were read.
    sealed: Seen,
    /// The journal that this process writes itself, and how many lines it has.
    own: Option<(Nonce, u64)>,
    /// What is wrong with files of the journal folder.
    damage: Vec<String>,
}

impl Follower {
    /// Reads every journal.
    pub fn open(directory: &Directory) -> Result<Follower> {
        let mut follower = Follower {
            directory: directory.clone(),
            state: State::default(),
            readers: BTreeMap::new(),
            sealed: Seen::new(),
            own: None,
            damage: Vec::new(),
        };
        follower.refresh()?;
        Ok(follower)
    }

    /// Reads what was written since, by others than this process.
    pub fn refresh(&mut self) -> Result<()> {
        self.damage.clear();
        let is_first = self.readers.is_empty() && self.sealed.is_empty();
        let mut old = Vec::new();
        for path in self.directory.journals()? {
            match Reader::of(&path) {
                Some(reader) if self.own.is_some_and(|(own, _)| own == reader.nonce) => {}
                Some(reader) => _ = self.readers.entry(reader.nonce).or_insert(reader),
                None if is_old(&path) => old.push(path),
                None => self
                    .damage
                    .push(format!("{} has no name of a journal; it is not read", path.display())),
            }
        }
        if is_first && !old.is_empty() {
            let sealed = legacy::read(&self.directory, &old)?;
            self.sealed.clone_from(&sealed.seen);
            self.state.seal(sealed);
        }
        for nonce in self.readers.keys().copied().collect::<Vec<_>>() {
            let reader = self.readers.get_mut(&nonce).expect("just listed");
            let state = &mut self.state;
            let read = match reader.read(&mut |entry| state.apply(entry)) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Read::Changed,
                read => read?,
            };
            match read {
                Read::On => {}
                Read::Foreign => {
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
        Ok(())
    }

    /// What is known.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state by itself, with everything that is wrong.
    pub fn into_state(mut self) -> State {
        self.state.damage.extend(self.damage());
        self.state.note_read(self.seen());
        self.state
    }

    /// Whether there is not a single line.
    pub(super) fn is_blank(&self) -> bool {
        self.sealed.values().all(|seen| seen.lines == 0) && self.readers.values().all(|reader| reader.length() == 0)
    }

    pub(super) fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Notes a line that this process has written itself.
    pub(super) fn note_own(&mut self, entry: Entry) {
        let line = entry.rank.line;
        self.own = Some((line.journal, line.seq + 1));
        self.state.apply(entry);
    }

    /// What is wrong with the journals, one sentence each.
    pub fn damage(&self) -> Vec<String> {
        let of_readers = self.readers.values().flat_map(|reader| reader.damage.iter().cloned());
        let mut damage: Vec<String> = self.damage.iter().cloned().chain(of_readers).collect();
        let mut most: BTreeMap<String, SeenJournal> = BTreeMap::new();
        for (name, seen) in self.state.all_seen() {
            let known = most.entry(name.clone()).or_insert_with(|| seen.clone());
            if seen.lines > known.lines {
                known.clone_from(seen);
            }
        }
        for (name, seen) in most {
            damage.extend(self.compare(&name, &seen));
        }
        damage
    }

    /// What is wrong with a journal that a session saw.
    fn compare(&self, name: &str, seen: &SeenJournal) -> Option<String> {
        let remedy = "restore it from a copy; until then its results are measured again";
        let many = seen.lines;
        let nonce = name.parse::<Nonce>().ok();
        let Some((length, sum)) = (match nonce {
            Some(nonce) if self.own.is_some_and(|(own, _)| own == nonce) => return None,
            Some(nonce) => {
                let reader = self.readers.get(&nonce);
                let last = |reader: &Reader| many.checked_sub(1).and_then(|last| reader.sum(last));
                reader.map(|reader| (reader.length(), last(reader)))
            }
            None => self.sealed.get(name).map(|now| (now.lines, Some(now.sum))),
        }) else {
            return Some(format!(
                "journal/{name}.jsonl is missing, of which a session saw {many} lines; {remedy}"
            ));
        };
        if length < many {
            return Some(format!(
                "journal/{name}.jsonl has {length} lines, and a session saw {many}; {remedy}"
            ));
        }
        // A damaged line has no sum, and is named by itself.
        let is_other = sum.is_some_and(|sum| sum != seen.sum && seen.sum != Default::default());
        is_other.then(|| format!("journal/{name}.jsonl is not what a session saw of it; {remedy}"))
    }

    /// What is missing so that nothing may be said of the experiment.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = self.state.gaps();
        for reader in self.readers.values() {
            let nonce = reader.nonce;
            let has_no_plan = reader.length() > 1 && reader.sum(1).is_none();
            if has_no_plan && !self.state.is_known(nonce, 2) {
                gaps.push(Gap {
                    text: format!(
                        "{}: the line that records the plan (the second) is missing or damaged; restore the file from a copy, or \
                         run the plan again, which records it anew and keeps the results",
                        reader.path.display()
                    ),
                    heals: true,
                });
            }
            gaps.extend(reader.doubtful.iter().map(|line| Gap {
                text: format!(
                    "{}:{line}: a damaged line that seems to retire earlier results; restore the file from a copy, or start over \
                     with --fresh",
                    reader.path.display()
                ),
                heals: false,
            }));
        }
        gaps
    }

    /// How far each journal was read, this process's own left out.
    pub(super) fn seen(&self) -> Seen {
        let new = self.readers.values().map(|reader| {
            let (lines, sum) = (reader.length(), reader.last_sum());
            (reader.nonce.to_string(), SeenJournal { lines, sum })
        });
        new.chain(self.sealed.clone()).collect()
    }
}

/// Whether a journal of vsweep 1.x has such a name: `2-of-8`.
fn is_old(path: &Path) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.split_once("-of-")
        .is_some_and(|(index, count)| number(index) && number(count))
}
