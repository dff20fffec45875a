//! The effect of an edited plan on earlier measurements: points that stay, points that are new and why, and points that leave the tables.

use crate::ids::{PointId, SearchId, ServerId};
use crate::journal::{LoadName, LoadNames, RecordedPlan, State};
use crate::matrix::{LoadFinder, Matrix, ServerConfig};
use crate::plan::{Plan, Secrets};
use crate::threads;
use crate::units::{show_count, show_many};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of parts for each processor into which the loads are divided.
const PARTS: usize = 4;

/// Maximum number of points that a note names. The note counts the others.
const MOST_NAMED: usize = 5;

/// The difference between a record and a plan.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The plan as it is to be recorded.
    pub plan: RecordedPlan,
    /// New names of recorded loads.
    pub renamed: LoadNames,
    /// Number of points of the plan with a record.
    kept: usize,
    /// Number of searches of recorded loads that begin anew.
    anew: usize,
    /// True if recorded points are no longer in the plan.
    has_dropped: bool,
    /// Notes for the user; empty if nothing changed.
    notes: Vec<String>,
}

impl Changes {
    /// Compares a plan with a record. An unedited plan has no changes, unless the environment or a file that it names has changed.
    pub fn between(state: &State, matrix: &Matrix, plan: &Plan) -> Changes {
        // The environment and local files also decide identities, so recorded points are compared even if the text is
        // the same.
        let recorded: BTreeSet<&PointId> = state.recorded_points();
        let servers: Vec<ServerConfig> = matrix.servers().collect();
        let sought = servers.iter().flat_map(|server| matrix.searches_of(server).map(named));
        let explored = servers
            .iter()
            .flat_map(|server| matrix.explorations_of(server).map(named));
        let finders: BTreeMap<SearchId, (ServerId, LoadName)> = sought.chain(explored).collect();
        let searches: BTreeSet<SearchId> = finders.keys().cloned().collect();
        let mut renamed = state.renamed_searches(&finders);
        let mut present: BTreeSet<PointId> = BTreeSet::new();
        let (mut new, mut points, mut names) = (Vec::new(), Vec::new(), None);
        let part_size = matrix.loads().div_ceil(PARTS * threads::cores()).max(1);
        let parts = (0..matrix.loads()).step_by(part_size);
        let planned = state.planned_points();
        let parts: Vec<_> = parts.map(|from| from..matrix.loads().min(from + part_size)).collect();
        let ids = |part: &Range<usize>| matrix.point_ids(&servers, part.clone()).collect::<Vec<_>>();
        for (server, load, id) in threads::map(threads::cores(), &parts, ids).into_iter().flatten() {
            match recorded.contains(&id) || state.is_unlisted(&id) {
                true => {
                    let names = names.get_or_insert_with(|| loads_of(matrix));
                    if !state.is_named(&id, &names[load]) {
                        renamed.points.insert(id.clone(), names[load].clone());
                    }
                    present.insert(id.clone());
                }
                // A point of the last plan that was not measured yet is not new.
                false if planned.contains(&id) => {}
                false => new.push((server, load)),
            }
            points.push(id);
        }
        let recorded_plan = RecordedPlan::new(&plan.name, plan.redacted_text(), &points, &searches);
        let last = state.planning_session();
        let is_edited = last.is_some_and(|session| session.plan.sha256 != recorded_plan.sha256);
        let mut changes = Changes {
            plan: recorded_plan,
            renamed,
            kept: 0,
            anew: searches_anew(state, &finders),
            has_dropped: false,
            notes: Vec::new(),
        };
        let (mut dropped, mut restored, mut reasons) = (Vec::new(), 0, Vec::new());
        if last.is_some() && !recorded.is_empty() {
            present.extend(state.probed_points(&searches).into_iter().cloned());
            changes.kept = present.len();
            let before = state.planned_points();
            for id in recorded {
                match (present.contains(id), before.contains(id)) {
                    (false, true) => dropped.push(id),
                    (true, false) => restored += 1,
                    _ => {}
                }
            }
            changes.has_dropped = !dropped.is_empty();
            let unknown = servers.iter().filter(|server| !state.servers.contains_key(&server.id));
            let unknown: BTreeMap<&ServerId, &ServerConfig> = unknown.map(|server| (&server.id, server)).collect();
            reasons.extend(
                unknown
                    .values()
                    .filter_map(|server| reason(server, state, &plan.secrets)),
            );
        }
        if !is_edited && dropped.is_empty() && restored == 0 {
            return changes;
        }
        new.sort_unstable();
        let named = new.iter().take(MOST_NAMED);
        let named = named.map(|(server, load)| format!("{}, {}", servers[*server].name, matrix.name_of_load(*load)));
        let count = new.len() as u64;
        changes.notes.push(format!(
            "the plan changed since the last session: {} already recorded and kept, {} new{}",
            show_many(changes.kept as u64, "point"),
            show_count(count),
            listed(&named.collect::<Vec<_>>(), count)
        ));
        if changes.anew > 0 {
            let begin = if changes.anew == 1 { "begins" } else { "begin" };
            let searches = show_many(changes.anew as u64, "search");
            changes
                .notes
                .push(format!("{searches} {begin} anew: their settings changed"));
        }
        if !dropped.is_empty() {
            let count = dropped.len() as u64;
            let named = dropped.into_iter().take(MOST_NAMED).filter_map(|id| {
                let run = state.runs().find(|run| run.point == *id)?;
                let server = state.servers.get(&run.server).map_or("", |server| &server.name);
                Some(format!("{server}, {}", run.name))
            });
            changes.notes.push(format!(
                "no longer in the plan: {}; left out of the tables, kept in the journal{}",
                show_many(count, "recorded point"),
                listed(&named.collect::<Vec<_>>(), count)
            ));
        }
        if restored > 0 {
            let restored = show_many(restored, "recorded point");
            changes
                .notes
                .push(format!("in the plan again, and counted again: {restored}"));
        }
        changes.notes.extend(reasons);
        changes
    }

    /// Returns the name of the recorded plan, if it is another plan without a single point or searched load in common.
    pub fn foreign<'s>(&self, state: &'s State) -> Option<&'s str> {
        let recorded = &state.planning_session()?.plan;
        let is_foreign = recorded.name != self.plan.name && self.kept + self.anew == 0 && self.has_dropped;
        is_foreign.then_some(&recorded.name)
    }

    /// Returns true if the change must be recorded.
    pub fn is_any(&self) -> bool {
        !self.notes.is_empty() || !self.renamed.is_empty()
    }

    /// Returns notes for the user; empty if nothing changed.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Returns the number of searches of recorded loads that have no record as the plan defines them now.
fn searches_anew(state: &State, finders: &BTreeMap<SearchId, (ServerId, LoadName)>) -> usize {
    let recorded: BTreeSet<(&ServerId, &str)> = state
        .searches()
        .map(|record| (&record.started.server, &*record.started.name))
        .collect();
    let is_anew = |(id, (server, load)): &(&SearchId, &(ServerId, LoadName))| {
        state.latest_search(id).is_none() && recorded.contains(&(server, &load.name))
    };
    finders.iter().filter(is_anew).count()
}

/// Returns the names of all loads.
fn loads_of(matrix: &Matrix) -> Vec<LoadName> {
    let named = |load| LoadName {
        name: matrix.name_of_load(load),
        combo: matrix.combo_of_load(load),
    };
    (0..matrix.loads()).map(named).collect()
}

/// Returns the id of a search or an exploration, its server, and the name of its load.
fn named<S>(finder: LoadFinder<S>) -> (SearchId, (ServerId, LoadName)) {
    let LoadFinder {
        id,
        server,
        name,
        combo,
        ..
    } = finder;
    (id, (server, LoadName { name, combo }))
}

/// Returns the reason why a server is new: its differences from the server of the same name that was started last.
fn reason(server: &ServerConfig, state: &State, secrets: &Secrets) -> Option<String> {
    let namesakes = state.servers.values().filter(|record| record.name == server.name);
    let before = namesakes.max_by_key(|record| record.launches.last().map(|start| &start.started_at))?;
    let argv = secrets.redact_argv(&server.argv);
    let env = secrets.redact_env(&server.env);
    let mut differences = Vec::new();
    match (missing(&before.argv, &argv), missing(&argv, &before.argv)) {
        (removed, added) if removed.is_empty() && added.is_empty() => {}
        (removed, added) if removed.is_empty() => differences.push(format!("`{added}` was added")),
        (removed, added) if added.is_empty() => differences.push(format!("`{removed}` was removed")),
        (removed, added) => differences.push(format!("`{removed}` became `{added}`")),
    }
    for name in before.env.keys().chain(env.keys()).collect::<BTreeSet<_>>() {
        if before.env.get(name) != env.get(name) {
            differences.push(format!("environment variable {name} changed"));
        }
    }
    (!differences.is_empty()).then(|| format!("server `{}` is measured again: {}", server.name, differences.join(", ")))
}

/// Returns the settings of one command line that the other one lacks, each flag with its values.
fn missing(from: &[String], other: &[String]) -> String {
    let other = settings(other);
    let lacking = settings(from).into_iter().filter(|setting| !other.contains(setting));
    lacking.map(|words| words.join(" ")).collect::<Vec<_>>().join(" ")
}

/// Splits a command line into the words before the first flag, then each flag with the words that follow it.
fn settings(argv: &[String]) -> Vec<Vec<&str>> {
    let is_flag = |word: &str| word.starts_with('-') && word.parse::<f64>().is_err();
    let mut settings: Vec<Vec<&str>> = Vec::new();
    for word in argv {
        match settings.last_mut().filter(|_| !is_flag(word)) {
            Some(setting) => setting.push(word),
            None => settings.push(vec![word]),
        }
    }
    settings
}

/// Returns a text such as `: a; b; and 2 more`; empty without names.
fn listed(names: &[String], count: u64) -> String {
    if names.is_empty() {
        return String::new();
    }
    let more = count.saturating_sub(names.len() as u64);
    let more = (more > 0).then(|| format!("and {} more", show_count(more)));
    let all: Vec<String> = names.iter().cloned().chain(more).collect();
    format!(": {}", all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, Link, RunFinished, RunStarted, SearchStarted, SessionStarted};
    use crate::plan::{Format, World, parse};
    use crate::search::Seed;
    use std::path::Path;

    #[test]
    fn searches_that_begin_anew_are_counted() {
        let read = |name: &str, lengths: &str, max: u32| {
            let text = format!(
                "version = 1\nname = \"{name}\"\n[serve]\ncommand = \"vllm serve m\"\n[sla]\nvary = \"max_concurrency\"\nmax = {max}\n\
                 [[sla.target]]\nname = \"fast\"\np99_ttft_ms = \"<=200\"\n[bench.params]\nrandom_input_len = {lengths}\n"
            );
            let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
            let matrix = Matrix::expand(&plan).expect("it expands");
            (plan, matrix)
        };
        let (plan, matrix) = read("a", "[8, 16]", 64);
        let mut state = State::default();
        let session = SessionStarted {
            plan: Changes::between(&state, &matrix, &plan).plan,
            ..SessionStarted::default()
        };
        state.apply_hypothetical(Event::SessionStarted(Box::new(session)));
        let servers = matrix.servers();
        for search in servers.flat_map(|server| matrix.searches_of(&server).collect::<Vec<_>>()) {
            let begun = state.apply_hypothetical(Event::SearchStarted(Box::new(SearchStarted {
                search: search.id.clone(),
                server: search.server.clone(),
                slot: 0,
                name: search.name,
                params: search.params,
                vary: search.settings.vary,
                targets: search.settings.targets,
                seed: Seed::neighbour(8.0),
                rivals: Vec::new(),
            })));
            let started = state.apply_hypothetical(Event::RunStarted(Box::new(RunStarted {
                point: PointId(search.id.0.clone()),
                server: search.server,
                search: Some(Link {
                    id: search.id,
                    after: begun.rank.line,
                    step: 0,
                    draw: 0,
                }),
                ..RunStarted::default()
            })));
            state.apply_hypothetical(Event::RunFinished(Box::new(RunFinished {
                started: started.rank.line.seq,
                ..RunFinished::default()
            })));
        }
        let (plan, matrix) = read("a", "[8, 16]", 32);
        let notes = Changes::between(&state, &matrix, &plan).notes().join("\n");
        assert!(notes.contains("2 searches begin anew"), "{notes}");
        for (lengths, foreign) in [("[8, 16]", None), ("[32, 64]", Some("a"))] {
            let (plan, matrix) = read("b", lengths, 32);
            let changes = Changes::between(&state, &matrix, &plan);
            assert_eq!(changes.foreign(&state), foreign, "a new name with {lengths}");
        }
    }

    #[test]
    fn a_changed_value_is_told_with_its_flag() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (before, after) = (
            words("serve m --sim-start 300ms --sim-speed 300 --seed 1 --lr -1"),
            words("serve m --sim-speed 400 --lr -1 --seed 1 --sim-start 300 -x"),
        );
        assert_eq!(missing(&before, &after), "--sim-start 300ms --sim-speed 300");
        assert_eq!(missing(&after, &before), "--sim-speed 400 --sim-start 300 -x");
        assert_eq!(missing(&before, &before), "");
    }

    #[test]
    fn lists_end_in_what_they_leave_out() {
        let names = ["a", "b"].map(str::to_owned);
        assert_eq!(listed(&names, 2), ": a; b");
        assert_eq!(listed(&names, 5), ": a; b; and 3 more");
        assert_eq!(listed(&[], 0), "");
    }
}
