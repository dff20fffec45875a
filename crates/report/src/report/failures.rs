//! What went wrong in an experiment, grouped by causes of failures and codes of doubts, and what the servers' logs say about
//! it.

use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use vsweep_plan::cause::{Cause, Failure};
use vsweep_plan::ids::ServerId;
use vsweep_plan::plan::Secrets;
use vsweep_plan::printable::printable_lines;
use vsweep_plan::request_error::RequestError;
use vsweep_plan::validity::{Code, Validity};
use vsweep_record::journal::{Directory, RunRecord, State};
use vsweep_record::table::Points;

/// Why runs have no figures, or figures that may not be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// They failed.
    Failed(Cause),
    /// They were measured with a doubt.
    Doubted(Code),
}

impl Reason {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Failed(cause) => cause.name(),
            Reason::Doubted(code) => code.name(),
        }
    }

    /// What its runs are: `failed`, `invalid`, `suspect`.
    pub fn verb(self) -> &'static str {
        match self {
            Reason::Failed(_) => "failed",
            Reason::Doubted(code) => code.severity().name(),
        }
    }

    /// Failures first, then what is no measurement, then what is one with a mark.
    fn rank(self) -> u8 {
        match self {
            Reason::Failed(_) => 0,
            Reason::Doubted(code) if code.severity() == Validity::Invalid => 1,
            Reason::Doubted(_) => 2,
        }
    }
}

/// What was seen of some runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// In one line.
    pub text: String,
    /// What failed requests said most often, where that is what was seen.
    pub request_error: Option<RequestError>,
    /// Number of runs.
    pub runs: usize,
}

/// The runs of one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Why they failed or are in doubt.
    pub reason: Reason,
    /// Number of runs.
    pub runs: usize,
    /// Rows of the run table, one for each point, in order.
    pub rows: Vec<usize>,
    /// What was seen, most frequent first.
    pub details: Vec<Detail>,
    /// The log of the server of its first run, relative to the directory, if that was ours.
    pub log: Option<String>,
}

impl Group {
    /// What to do about it.
    pub fn advice(&self) -> String {
        match self.reason {
            Reason::Failed(cause) => {
                let failures = self.details.iter().map(|detail| Failure {
                    cause,
                    detail: detail.text.clone(),
                    request_error: detail.request_error.clone(),
                });
                match failures.unique_by(Failure::advice).exactly_one() {
                    Ok(failure) => failure.advice_with(self.log.as_deref()),
                    Err(_) => cause.advice_with(self.log.as_deref()),
                }
            }
            Reason::Doubted(code) => code.advice().to_owned(),
        }
    }
}

/// The log of the start of a server that failed last, or else was last, relative to the directory; `None` if somebody else
/// started it.
pub fn log_of(server: &ServerId, state: &State) -> Option<String> {
    let record = state.servers.get(server).filter(|record| !record.argv.is_empty())?;
    let starts = &record.starts;
    let guilty = starts.iter().rfind(|start| start.cause.is_some()).or(starts.last())?;
    Some(Directory::server_log_file(server, guilty.launch))
}

/// The end of a server's log that is looked at, in bytes.
const TAIL_BYTES: u64 = 256 * 1024;
/// Lines shown before and after the decisive one.
const AROUND: usize = 6;

/// The runs that the tables show as failed or in doubt. The rows of `points.runs` must be those of `state.runs()` in their
/// order, as [`super::read_runs`] makes them. The table knows better than the journal where a run's file was damaged later.
pub fn group(points: &Points<'_>, state: &State) -> Vec<Group> {
    let runs = state.runs().enumerate().take(points.runs.rows());
    let shown = runs.flat_map(|(row, run)| {
        let name = points.runs.cell("cause", row).to_string();
        let cause = Cause::ALL.into_iter().find(|cause| cause.name() == name);
        reasons(row, run, cause)
    });
    group_runs(shown, state)
}

/// The runs that the journal records as failed or in doubt; rows are their places among `state.runs()`.
pub fn group_recorded(state: &State) -> Vec<Group> {
    let runs = state.runs().enumerate();
    group_runs(runs.flat_map(|(row, run)| reasons(row, run, run.cause)), state)
}

/// A run in one group, and what was seen of it.
type Member<'a> = (usize, &'a RunRecord, (&'a str, Option<RequestError>));

/// Each reason of a run, with what was seen of it.
fn reasons(row: usize, run: &RunRecord, cause: Option<Cause>) -> impl Iterator<Item = (Reason, Member<'_>)> {
    let seen = |detail, error: &Option<_>| (detail, RequestError::recorded(error.as_ref(), detail));
    let failed = cause.map(|cause| (Reason::Failed(cause), (row, run, seen(&run.detail, &run.request_error))));
    let doubts = run.doubts.iter().filter(move |_| cause.is_none());
    let doubted = doubts.map(move |doubt| {
        let seen = seen(&doubt.detail, &doubt.request_error);
        (Reason::Doubted(doubt.code), (row, run, seen))
    });
    failed.into_iter().chain(doubted)
}

/// Failures first, then doubts, each with the most frequent first.
fn group_runs<'a>(runs: impl Iterator<Item = (Reason, Member<'a>)>, state: &State) -> Vec<Group> {
    let mut groups: BTreeMap<Reason, Vec<Member<'_>>> = BTreeMap::new();
    for (reason, run) in runs {
        groups.entry(reason).or_default().push(run);
    }
    let group = |(reason, runs): (Reason, Vec<Member<'_>>)| {
        let points = runs.iter().unique_by(|(_, run, _)| &run.point);
        let seen = runs.iter().map(|(_, _, seen)| seen);
        let details = seen.filter(|(text, _)| !text.is_empty()).counts().into_iter();
        let details = details.map(|((text, request_error), runs)| Detail {
            text: (*text).to_owned(),
            request_error: request_error.clone(),
            runs,
        });
        Group {
            reason,
            runs: runs.len(),
            rows: points.map(|(row, ..)| *row).collect(),
            details: details
                .sorted_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.text.cmp(&b.text)))
                .collect(),
            log: log_of(&runs[0].1.server, state),
        }
    };
    let groups = groups.into_iter().map(group);
    groups
        .sorted_by_key(|group| (group.reason.rank(), Reverse(group.runs)))
        .collect()
}

/// For each group, the part of its server's log that shows the decisive line; nothing where no log is there.
pub fn read_excerpts(directory: &Directory, groups: &[Group]) -> Vec<Option<String>> {
    let is_of_server = |reason| matches!(reason, Reason::Failed(_) | Reason::Doubted(Code::RequestErrors));
    let excerpt = |group: &Group| {
        if !is_of_server(group.reason) {
            return None;
        }
        let tail = read_tail(&directory.root().join(group.log.as_ref()?)).ok()?;
        let decisive = group.details.first().map_or("", |detail| &detail.text);
        let excerpt = Secrets::default().redact_foreign(&choose_lines(&tail, decisive));
        (!excerpt.trim().is_empty()).then_some(excerpt)
    };
    groups.iter().map(excerpt).collect()
}

fn read_tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

/// The lines around the last one that the cause was read from, else the last lines.
fn choose_lines(log: &str, decisive: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let says_so = |line: &&str| !decisive.is_empty() && (line.contains(decisive) || is_within(line, decisive));
    let (first, last) = match lines.iter().rposition(says_so) {
        Some(at) => (at.saturating_sub(AROUND), (at + AROUND + 1).min(lines.len())),
        None => (lines.len().saturating_sub(2 * AROUND), lines.len()),
    };
    let shown = lines[first..last].iter().map(|line| clean(line));
    shown.collect::<Vec<_>>().join("\n")
}

/// Whether a detail quotes the line; a few characters would match anything.
fn is_within(line: &str, detail: &str) -> bool {
    line.trim().len() >= 20 && detail.contains(line.trim())
}

/// A harmless line of at most 400 characters.
fn clean(line: &str) -> String {
    printable_lines(line).chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_excerpt_surrounds_the_decisive_line() {
        let log: Vec<String> = (0..100).map(|i| format!("line {i}.")).collect();
        let log = log.join("\n");
        let around = choose_lines(&log, "line 50.");
        assert!(
            around.starts_with("line 44.") && around.ends_with("line 56."),
            "{around}"
        );
        assert!(choose_lines(&log, "never said").ends_with("line 99."));
        assert_eq!(choose_lines("", "x"), "");
    }

    proptest! {
        #[test]
        fn any_log_is_shown(log: String, decisive: String) {
            choose_lines(&log, &decisive);
        }
    }
}
