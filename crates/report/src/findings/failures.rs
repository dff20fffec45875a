//! Groups the failures of an experiment by causes and codes of doubts, with excerpts from the servers' logs.

mod words;

pub use words::describe_reasons;

use crate::ordered::Ordered;
use crate::texts::words::server_name;
use itertools::Itertools;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use vsweep_base::cause::{Cause, Failure, RuledOut};
use vsweep_base::closed_list::in_words;
use vsweep_base::files::open;
use vsweep_base::ids::ServerId;
use vsweep_base::printable::{printable_lines, shorten};
use vsweep_base::request_error::RequestError;
use vsweep_base::units::{show_count, show_many};
use vsweep_base::validity::{Code, Doubt, Validity};
use vsweep_plan::Secrets;
use vsweep_record::journal::{Directory, RunRecord, State, UnlistedRuns};
use vsweep_record::table::Points;

/// Reason why runs have no figures, or doubtful ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Reason {
    /// The runs failed.
    #[serde(rename = "cause")]
    Failed(Cause),
    /// The runs were measured with a doubt.
    #[serde(rename = "code")]
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
}

/// An observation that some runs share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Detail {
    /// Text of the observation, or of one of several similar ones; a single line in [`Group::seen`].
    #[serde(rename = "example")]
    pub text: String,
    /// Number of runs.
    pub runs: usize,
    /// The most frequent error of failed requests, if that is the observation.
    #[serde(skip)]
    pub request_error: Option<RequestError>,
    /// The server that ran out of memory, if the run was skipped because its own server needs at least as much.
    #[serde(skip)]
    pub ruled_out: Option<Arc<RuledOut>>,
    /// True if similar observations with other texts were combined with this one.
    #[serde(skip)]
    pub differs: bool,
}

/// The runs of one reason, as `vsweep status --format json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
    /// Validity of the runs with a doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validity: Option<Validity>,
    /// Number of runs, with those that were skipped.
    pub runs: usize,
    /// Number of runs that were not tried, because the failure of another run implied theirs.
    #[serde(skip)]
    pub skipped: usize,
    /// The most frequent observation.
    pub example: String,
    /// Observations, similar ones combined, most frequent first.
    pub seen: Vec<Detail>,
    /// The remedy.
    pub advice: String,
    /// Rows of the run table, one for each point, in order.
    #[serde(skip)]
    pub rows: Vec<usize>,
    /// The settings that the servers of its runs share, and others lack; empty if there are none.
    #[serde(skip)]
    pub settings: String,
    /// Number of further points, which have no row.
    #[serde(skip)]
    pub unlisted: usize,
    /// All distinct observations, most frequent first.
    #[serde(skip)]
    pub details: Vec<Detail>,
    /// The log of the server of its first run, relative to the directory, if vsweep started the server.
    #[serde(skip)]
    pub log: Option<String>,
}

impl Group {
    /// State of its runs: `failed`, `invalid`, `suspect`.
    pub fn status_word(&self) -> &'static str {
        self.validity.map_or("failed", Validity::name)
    }

    /// Its runs' state as a verb: `failed`, `are suspect`.
    pub fn verb(&self) -> String {
        match (self.validity, self.runs) {
            (None, _) => "failed".to_owned(),
            (Some(validity), 1) => format!("is {}", validity.name()),
            (Some(validity), _) => format!("are {}", validity.name()),
        }
    }

    /// Its runs with the settings that they share: `1 run and 175 skipped ones with TP 1`. Failed and skipped runs are counted apart, as in
    /// other places.
    pub fn runs_in_words(&self) -> String {
        let tried = show_many((self.runs - self.skipped) as u64, "run");
        let runs = match (self.runs - self.skipped, self.skipped) {
            (_, 0) => tried,
            (0, skipped) => show_many(skipped as u64, "skipped run"),
            (_, 1) => format!("{tried} and 1 skipped one"),
            (_, skipped) => format!("{tried} and {} skipped ones", show_count(skipped as u64)),
        };
        match self.settings.as_str() {
            "" => runs,
            settings => format!("{runs} with {settings}"),
        }
    }

    /// Its reason in words: `out of memory while loading`.
    pub fn in_words(&self) -> String {
        in_words(self.reason.name())
    }

    fn of(reason: Reason, runs: &[Member<'_>], unlisted: &[(&UnlistedRuns, u64)], state: &State) -> Group {
        let mut seen = runs.iter().map(|(_, _, seen)| *seen).counts();
        for (lost, runs) in unlisted {
            *seen.entry((&lost.detail, None, lost.ruled_out.as_ref())).or_default() += *runs as usize;
        }
        let details = seen.into_iter().filter(|((text, ..), _)| !text.is_empty());
        let details = details.map(|((text, request_error, ruled_out), runs)| Detail {
            text: (*text).to_owned(),
            runs,
            request_error: request_error.cloned(),
            ruled_out: ruled_out.cloned(),
            differs: false,
        });
        let details: Vec<Detail> = details
            .ordered_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.text.cmp(&b.text)))
            .collect();
        let of_runs = runs.iter().map(|(_, run, _)| &run.server);
        let mut servers = of_runs.chain(unlisted.iter().map(|(lost, _)| &lost.server));
        let settings = shared_settings(&servers.clone().collect(), state);
        let log = servers.next().and_then(|server| log_of(server, state));
        let points = runs.iter().unique_by(|(_, run, _)| &run.point);
        let listed = runs.iter().map(|(_, run, _)| &run.point).collect();
        let unlisted_runs = unlisted.iter().map(|(_, runs)| *runs as usize).sum::<usize>();
        Group {
            reason,
            validity: match reason {
                Reason::Failed(_) => None,
                Reason::Doubted(code) => Some(code.severity()),
            },
            runs: runs.len() + unlisted_runs,
            skipped: runs.iter().filter(|(_, run, _)| run.is_skipped()).count() + unlisted_runs,
            example: details
                .first()
                .map_or_else(String::new, |detail| one_line(&detail.text)),
            seen: combine_similar(&details),
            advice: advice(reason, &details, log.as_deref()),
            rows: points.map(|(row, ..)| *row).collect(),
            settings,
            unlisted: state.unlisted_points(unlisted.iter().map(|(lost, _)| *lost), &listed),
            details,
            log,
        }
    }
}

/// The settings that all these servers share and some other server of the experiment lacks, which point at the cause: `TP 1, KV cache fp8`.
/// Empty if there are none.
fn shared_settings(servers: &HashSet<&ServerId>, state: &State) -> String {
    let parts = |server: &ServerId| server_name(server, state).split(", ").map(str::to_owned).collect_vec();
    let in_common = |mut known: Vec<String>, server: &ServerId| {
        let parts = parts(server);
        known.retain(|part| parts.contains(part));
        known
    };
    let mut rest = servers.iter().copied().sorted();
    let first = rest.next().map_or_else(Vec::new, parts);
    let mut shared = rest.fold(first, in_common);
    let others = state.servers.keys().filter(|server| !servers.contains(server));
    let usual = others.fold(shared.clone(), in_common);
    shared.retain(|part| !usual.contains(part));
    shared.join(", ")
}

/// Returns the remedy for a reason: the one that all observations need, else the general remedy for the cause.
fn advice(reason: Reason, details: &[Detail], log: Option<&str>) -> String {
    let cause = match reason {
        Reason::Failed(cause) => cause,
        Reason::Doubted(code) => return code.advice().to_owned(),
    };
    let failures = details.iter().map(|detail| Failure {
        cause,
        detail: detail.text.clone(),
        request_error: detail.request_error.clone(),
        ruled_out: None,
    });
    match failures.unique_by(Failure::advice).exactly_one() {
        Ok(failure) => failure.advice_with(log),
        Err(_) => cause.advice_with(log),
    }
}

/// Combines observations that differ only in numbers: `3 of 40 requests failed` and `5 of 40 requests failed`. Errors of requests are
/// compared with their digits, which may be an HTTP status.
fn combine_similar(details: &[Detail]) -> Vec<Detail> {
    let kind = |detail: &Detail| match &detail.request_error {
        Some(error) => error.said.clone(),
        None => detail.text.replace(|letter: char| letter.is_ascii_digit(), ""),
    };
    let mut kinds: Vec<(String, Detail)> = Vec::new();
    for detail in details {
        let (kind, text) = (kind(detail), one_line(&detail.text));
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, seen)) => {
                seen.runs += detail.runs;
                seen.differs |= seen.text != text;
            }
            None => kinds.push((kind, Detail { text, ..detail.clone() })),
        }
    }
    let seen = kinds.into_iter().map(|(_, seen)| seen);
    seen.ordered_by_key(|seen| Reverse(seen.runs)).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().join(" ")
}

/// The log of a server's last failed launch, or of its last launch if none failed, relative to the directory; `None` if vsweep did not
/// start the server.
pub fn log_of(server: &ServerId, state: &State) -> Option<String> {
    let record = state.servers.get(server).filter(|record| !record.argv.is_empty())?;
    let launches = &record.launches;
    let chosen = launches
        .iter()
        .rfind(|launched| launched.exit.cause.is_some())
        .or(launches.last())?;
    Some(Directory::server_log_file(server, chosen.launch))
}

/// Size of the end of a server's log that is searched, in bytes.
const TAIL_BYTES: u64 = 256 * 1024;
/// Lines shown before and after the decisive one.
const AROUND: usize = 6;

/// Groups the runs that the tables show as failed or in doubt, without lost ones. The rows of `points.runs` must be those of
/// `state.runs()` in their order, as [`crate::read_runs`] makes them. The table, unlike the journal, knows of run files that were damaged
/// later.
pub fn group(points: &Points<'_>, state: &State) -> Vec<Group> {
    let runs = state
        .runs()
        .enumerate()
        .take(points.runs.rows())
        .filter(|(_, run)| !run.is_lost());
    let shown = runs.flat_map(|(row, run)| {
        let name = points.runs.cell("cause", row).to_string();
        let cause = Cause::ALL.into_iter().find(|cause| cause.name() == name);
        reasons(row, run, cause)
    });
    group_runs(shown, state)
}

/// Groups the runs that the journal records as failed or in doubt, without lost ones; rows are indices into `state.runs()`.
pub fn group_recorded(state: &State) -> Vec<Group> {
    let runs = state.runs().enumerate().filter(|(_, run)| !run.is_lost());
    group_runs(runs.flat_map(|(row, run)| reasons(row, run, run.cause)), state)
}

/// A run of a group: its row, its record, and the observation of it.
type Member<'a> = (usize, &'a RunRecord, Observation<'a>);

/// An observation: its text, and the values that the text contains.
type Observation<'a> = (&'a str, Option<&'a RequestError>, Option<&'a Arc<RuledOut>>);

/// Each reason of a run, with the observation of it.
fn reasons(row: usize, run: &RunRecord, cause: Option<Cause>) -> impl Iterator<Item = (Reason, Member<'_>)> {
    let failed = cause.map(|cause| {
        let seen = (&*run.detail, run.request_error.as_deref(), run.ruled_out.as_ref());
        (Reason::Failed(cause), (row, run, seen))
    });
    // A doubt that leaves a run valid concerns some figures only, and is shown next to them.
    let is_listed = move |doubt: &&Doubt| cause.is_none() && doubt.code.severity() != Validity::Valid;
    let doubts = run.doubts.iter().filter(is_listed);
    let doubted = doubts.map(move |doubt| {
        let seen = (&*doubt.detail, doubt.request_error.as_ref(), None);
        (Reason::Doubted(doubt.code), (row, run, seen))
    });
    failed.into_iter().chain(doubted)
}

/// Groups runs by reason: failures first, then invalid runs, then suspect ones, each with the most frequent first.
fn group_runs<'a>(runs: impl Iterator<Item = (Reason, Member<'a>)>, state: &State) -> Vec<Group> {
    let mut unlisted = state
        .unlisted()
        .into_group_map_by(|(lost, _)| Reason::Failed(lost.cause));
    let mut groups = runs.into_group_map();
    for reason in unlisted.keys() {
        groups.entry(*reason).or_default();
    }
    let groups = groups.into_iter().ordered_by_key(|(reason, _)| *reason);
    let groups =
        groups.map(|(reason, runs)| Group::of(reason, &runs, &unlisted.remove(&reason).unwrap_or_default(), state));
    groups
        .ordered_by_key(|group| (group.validity.map(Reverse), Reverse(group.runs)))
        .collect()
}

/// Returns for each group the part of the server's log with the decisive line; `None` without a log, or for a reason that the server does
/// not log.
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
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

/// The lines around the last one that contains `decisive` or is quoted in it, else the last lines.
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

/// Returns true if a detail quotes the line. Short lines do not count, because they would match anything.
fn is_within(line: &str, detail: &str) -> bool {
    line.trim().len() >= 20 && detail.contains(line.trim())
}

/// The line without control characters, shortened to 400 characters.
fn clean(line: &str) -> String {
    shorten(printable_lines(line).as_ref(), 400)
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
