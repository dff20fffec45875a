//! What went wrong in an experiment, grouped by cause, and what the servers' logs say about it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use vsweep_plan::cause::{Cause, Outcome};
use vsweep_plan::ids::{PointId, ServerId};
use vsweep_plan::plan::Secrets;
use vsweep_plan::printable::printable_lines;
use vsweep_record::journal::{Directory, RunRecord, State};
use vsweep_record::table::Points;

/// The runs of one outcome and cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Failed, or measured with a doubt.
    pub outcome: Outcome,
    /// Why.
    pub cause: Cause,
    /// Number of runs.
    pub runs: usize,
    /// Rows of the run table, one for each point, in order.
    pub rows: Vec<usize>,
    /// What was seen, each with the number of runs that saw it, most frequent first.
    pub details: Vec<(String, usize)>,
    /// The server of the group's first run.
    pub server: ServerId,
}

/// The end of a server's log that is looked at, in bytes.
const TAIL_BYTES: u64 = 256 * 1024;
/// Lines shown before and after the decisive one.
const AROUND: usize = 6;

/// The runs that the tables show as failed or in doubt. The rows of `points.runs` must be those of `state.runs()` in their
/// order, as [`super::read_runs`] makes them. The table knows better than the journal where a run's file was damaged later.
pub fn group(points: &Points<'_>, state: &State) -> Vec<Group> {
    let runs = state.runs().enumerate().take(points.runs.rows());
    let shown = runs.filter_map(|(row, run)| {
        let name = points.runs.cell("cause", row).to_string();
        let cause = Cause::ALL.into_iter().find(|cause| cause.name() == name)?;
        let is_suspect = points.runs.cell("outcome", row).to_string() == Outcome::Suspect.to_string();
        let outcome = if is_suspect { Outcome::Suspect } else { Outcome::Failed };
        Some((row, run, outcome, cause))
    });
    group_runs(shown)
}

/// The runs that the journal records as failed or in doubt; rows are their places among `state.runs()`.
pub fn group_recorded(state: &State) -> Vec<Group> {
    let runs = state.runs().enumerate().filter(|(_, run)| run.outcome != Outcome::Ok);
    group_runs(runs.filter_map(|(row, run)| Some((row, run, run.outcome, run.cause?))))
}

/// Failures first, then doubts, each with the most frequent first.
fn group_runs<'a>(runs: impl Iterator<Item = (usize, &'a RunRecord, Outcome, Cause)>) -> Vec<Group> {
    let mut groups: BTreeMap<(bool, Cause), (Group, Counts<'a>)> = BTreeMap::new();
    for (row, run, outcome, cause) in runs {
        let (group, counts) = groups.entry((outcome == Outcome::Suspect, cause)).or_insert_with(|| {
            let group = Group {
                outcome,
                cause,
                runs: 0,
                rows: Vec::new(),
                details: Vec::new(),
                server: run.server.clone(),
            };
            (group, Counts::default())
        });
        group.runs += 1;
        if counts.points.insert(&run.point) {
            group.rows.push(row);
        }
        if !run.detail.is_empty() {
            *counts.details.entry(&run.detail).or_default() += 1;
        }
    }
    let sort = |(mut group, counts): (Group, Counts<'_>)| {
        let details = counts.details.into_iter();
        group.details = details.map(|(text, count)| (text.to_owned(), count)).collect();
        group.details.sort_by_key(|(_, count)| Reverse(*count));
        group
    };
    let mut groups: Vec<Group> = groups.into_values().map(sort).collect();
    groups.sort_by_key(|group| (group.outcome == Outcome::Suspect, Reverse(group.runs)));
    groups
}

/// What is counted of a group while its runs are read.
#[derive(Default)]
struct Counts<'a> {
    points: BTreeSet<&'a PointId>,
    details: BTreeMap<&'a str, usize>,
}

/// For each group, the part of its server's log that shows the decisive line; nothing where no log is there.
pub fn read_excerpts(directory: &Directory, state: &State, groups: &[Group]) -> Vec<Option<String>> {
    let excerpt = |group: &Group| {
        let starts = &state.servers.get(&group.server)?.starts;
        let guilty = starts.iter().rfind(|start| start.cause.is_some()).or(starts.last())?;
        let tail = read_tail(&directory.server_log(&group.server, guilty.launch)).ok()?;
        let decisive = group.details.first().map_or("", |(detail, _)| detail);
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
