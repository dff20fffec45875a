//! Damage to the files of a directory: flipped bits, and lines and files that are lost, duplicated, copied, swapped or cut.

use crate::journal::event::*;
use crate::journal::{Check, Directory};
use proptest::prelude::*;
use proptest::sample::Index;
use std::fs;
use std::path::PathBuf;
use vsweep_base::ids::PointId;

/// The name of a copied journal.
const COPY: &str = "00000000000000aa.jsonl";

/// A kind of damage, with the places that it hits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Damage {
    Flip(Index, Index, u8),
    DropLine(Index, Index),
    DoubleLine(Index, Index, Index),
    SwapLines(Index, Index, Index),
    CopyLine(Index, Index, Index),
    CutTail(Index, Index),
    LoseJournal(Index),
    CopyJournal(Index),
    FlipFile(Index, Index, u8),
    LoseFile(Index),
}

pub(super) fn damage() -> impl Strategy<Value = Damage> {
    let i = any::<Index>;
    prop_oneof![
        4 => (i(), i(), 0..8u8).prop_map(|(journal, byte, bit)| Damage::Flip(journal, byte, bit)),
        2 => (i(), i()).prop_map(|(journal, line)| Damage::DropLine(journal, line)),
        1 => (i(), i(), i()).prop_map(|(journal, line, to)| Damage::DoubleLine(journal, line, to)),
        1 => (i(), i(), i()).prop_map(|(journal, one, other)| Damage::SwapLines(journal, one, other)),
        1 => (i(), i(), i()).prop_map(|(journal, line, to)| Damage::CopyLine(journal, line, to)),
        2 => (i(), i()).prop_map(|(journal, at)| Damage::CutTail(journal, at)),
        1 => i().prop_map(Damage::LoseJournal),
        1 => i().prop_map(Damage::CopyJournal),
        2 => (i(), i(), 0..8u8).prop_map(|(file, byte, bit)| Damage::FlipFile(file, byte, bit)),
        1 => i().prop_map(Damage::LoseFile),
    ]
}

/// Description of a damage that was done, and of its possible effects.
#[derive(Debug)]
pub(super) struct DamageReport {
    pub(super) what: String,
    /// True if the damage may look like a session that died.
    pub(super) cuts: bool,
    /// True if reading may stop with an error because of the damage.
    pub(super) may_stop: bool,
    /// The run whose line was hit, if the damage may cost no other run.
    pub(super) costs: Option<(PointId, u32)>,
}

impl Damage {
    pub(super) fn inflict(self, directory: &Directory) -> Option<DamageReport> {
        let mut journals = directory.journals().ok()?;
        // A copy is not damaged further, because only its first line distinguishes it from a journal.
        journals.retain(|path| !path.ends_with(COPY));
        let lines_of = |path: &PathBuf| -> Vec<Vec<u8>> {
            let bytes = fs::read(path).unwrap_or_default();
            bytes
                .split_inclusive(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect()
        };
        let pick = |which: Index| (!journals.is_empty()).then(|| which.get(&journals));
        let done = |what: String, line: &[u8], cuts: bool| {
            let text = String::from_utf8_lossy(line);
            let is_grave = ["session_started", "search_started", "results_retired"]
                .iter()
                .any(|name| text.contains(name));
            let decoded = crate::journal::line::decode(line.strip_suffix(b"\n").unwrap_or(line));
            let own = decoded.and_then(|(line, _)| match line.event.ok()? {
                Event::RunStarted(run) if run.search.is_none() => Some((run.point, run.run)),
                _ => None,
            });
            Some(DamageReport {
                what,
                cuts,
                may_stop: is_grave || text.contains("\"anew\""),
                costs: own,
            })
        };
        match self {
            Damage::Flip(journal, byte, bit) => {
                let path = pick(journal)?;
                let mut bytes = fs::read(path).ok().filter(|bytes| !bytes.is_empty())?;
                let at = byte.index(bytes.len());
                let start = bytes[..at]
                    .iter()
                    .rposition(|byte| *byte == b'\n')
                    .map_or(0, |at| at + 1);
                let end = bytes[at..]
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(bytes.len(), |end| at + end + 1);
                let line = bytes[start..end].to_vec();
                let is_feed = bytes[at] == b'\n';
                // Without its line feed, a line is joined with the next one.
                let next = bytes[end..]
                    .split_inclusive(|byte| *byte == b'\n')
                    .next()
                    .unwrap_or_default();
                let joined = if is_feed {
                    [line.clone(), next.to_vec()].concat()
                } else {
                    line
                };
                let is_last = is_feed && next.is_empty();
                bytes[at] ^= 1 << bit;
                fs::write(path, bytes).ok()?;
                let mut done = done(format!("flip {at} of {}", path.display()), &joined, is_last || is_feed)?;
                done.costs = done.costs.filter(|_| !is_feed);
                Some(done)
            }
            Damage::DropLine(journal, line) => {
                let path = pick(journal)?;
                let mut lines = lines_of(path);
                let at = (!lines.is_empty()).then(|| line.index(lines.len()))?;
                let dropped = lines.remove(at);
                // If no whole line follows, the lost line looks like one that was never written because its session died, perhaps leaving a
                // torn line.
                let is_last = lines[at..].iter().all(|line| !line.ends_with(b"\n"));
                fs::write(path, lines.concat()).ok()?;
                done(format!("drop {at} of {}", path.display()), &dropped, is_last)
            }
            Damage::DoubleLine(journal, line, to) => {
                let path = pick(journal)?;
                let mut lines = lines_of(path);
                lines.retain(|line| line.ends_with(b"\n"));
                let at = (!lines.is_empty()).then(|| line.index(lines.len()))?;
                let to = to.index(lines.len() + 1);
                lines.insert(to, lines[at].clone());
                fs::write(path, lines.concat()).ok()?;
                done(format!("double {at} of {} at {to}", path.display()), b"", false)
            }
            Damage::SwapLines(journal, one, other) => {
                let path = pick(journal)?;
                let mut lines = lines_of(path);
                lines.retain(|line| line.ends_with(b"\n"));
                let (one, other) = (!lines.is_empty()).then(|| (one.index(lines.len()), other.index(lines.len())))?;
                lines.swap(one, other);
                fs::write(path, lines.concat()).ok()?;
                done(format!("swap {one} and {other} of {}", path.display()), b"", false)
            }
            Damage::CopyLine(journal, line, to) => {
                let (path, to) = (pick(journal)?, pick(to)?);
                let lines = lines_of(path);
                let at = (!lines.is_empty()).then(|| line.index(lines.len()))?;
                let mut bytes = fs::read(to).ok()?;
                if bytes.last().is_some_and(|byte| *byte != b'\n') || !lines[at].ends_with(b"\n") {
                    return None;
                }
                bytes.extend_from_slice(&lines[at]);
                fs::write(to, bytes).ok()?;
                let what = format!("copy {at} of {} to {}", path.display(), to.display());
                let mut done = done(what, &lines[at], false)?;
                done.costs = None;
                Some(done)
            }
            Damage::CutTail(journal, at) => {
                let path = pick(journal)?;
                let bytes = fs::read(path).ok()?;
                let at = at.index(bytes.len() + 1);
                fs::write(path, &bytes[..at]).ok()?;
                let start = bytes[..at]
                    .iter()
                    .rposition(|byte| *byte == b'\n')
                    .map_or(0, |start| start + 1);
                done(format!("cut {} at {at}", path.display()), &bytes[start..], true)
            }
            Damage::LoseJournal(journal) => {
                let path = pick(journal)?;
                let bytes = fs::read(path).ok()?;
                fs::remove_file(path).ok()?;
                done(format!("lose {}", path.display()), &bytes, true)
            }
            Damage::CopyJournal(journal) => {
                let path = pick(journal)?;
                let first = lines_of(path).first()?.strip_suffix(b"\n")?.to_vec();
                crate::journal::line::decode(&first).filter(|(line, _)| line.seq == 0)?;
                fs::copy(path, path.with_file_name(COPY)).ok()?;
                done(format!("copy {}", path.display()), b"", false)
            }
            Damage::FlipFile(file, byte, bit) => {
                let path = pick_file(directory, file)?;
                let mut bytes = fs::read(&path).ok()?;
                let at = byte.index(bytes.len());
                bytes[at] ^= 1 << bit;
                fs::write(&path, bytes).ok()?;
                done(format!("flip {at} of {}", path.display()), b"", false)
            }
            Damage::LoseFile(file) => {
                let path = pick_file(directory, file)?;
                fs::remove_file(&path).ok()?;
                let name = path.strip_prefix(directory.root()).ok()?.to_str()?;
                let texts = journals.iter().map(|journal| fs::read(journal).unwrap_or_default());
                let mut texts = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
                // A file is unknown if its session died before it wrote the line.
                let is_named = texts.any(|text| text.contains(name));
                done(format!("lose {}", path.display()), b"", !is_named)
            }
        }
    }
}

pub(super) fn pick_file(directory: &Directory, which: Index) -> Option<PathBuf> {
    let listed = crate::journal::files::list(directory, Check::Hashes).ok()?;
    let mut files: Vec<String> = listed.into_iter().map(|(path, _)| path).collect();
    files.sort();
    (!files.is_empty()).then(|| directory.root().join(which.get(&files)))
}
