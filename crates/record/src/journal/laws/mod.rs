//! Laws of the record: nothing that was measured is lost, mixed or counted twice, and nothing changes in silence. The tests run sessions
//! that share one directory without knowing of each other. The sessions are killed at any line, edit the plan and try again, and the files
//! are damaged in every way.

mod actor;
mod damage;
mod moves;
mod world;

use super::files::Check;
use super::line::Entry;
use super::rank::LineId;
use super::state::{RunRecord, SearchEnd, State};
use super::{Directory, load};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::PointId;
use vsweep_base::validity::Validity;
use vsweep_plan::Params;

use actor::*;
use damage::*;
use moves::*;
use world::*;

/// A run as the tables show it: point, number, outcome, validity, true if lost, beginning, figures, parameters, server's parameters.
type Row = (
    PointId,
    u32,
    Outcome,
    Validity,
    bool,
    LineId,
    Option<String>,
    Params,
    Option<Params>,
);

/// Returns everything of a run that tables show, with the figures in its file.
fn row(directory: &Directory, state: &State, run: &RunRecord) -> Row {
    let figures = run.file.as_ref().and_then(|file| {
        let content: Params = serde_json::from_slice(&fs::read(directory.root().join(&*file.path)).ok()?).ok()?;
        Some(content.get("value")?.as_str()?.to_owned())
    });
    let server = state.servers.get(&run.server).map(|server| server.params.clone());
    (
        run.point.clone(),
        run.run,
        run.outcome,
        run.validity,
        run.is_lost(),
        run.rank.line,
        figures,
        Params::clone(&run.params),
        server,
    )
}

fn rows(directory: &Directory, state: &State) -> Vec<Row> {
    state.runs().map(|run| row(directory, state, run)).collect()
}

/// Returns the state of the search: its end, the values of its probes, and its tip.
fn search_of(state: &State) -> Option<(Option<SearchEnd>, Vec<f64>, LineId)> {
    let record = state.search(&search(), 0)?;
    let probes = state.probes(&search(), 0).map(|probe| probe.question.value).collect();
    Some((record.ended.clone(), probes, record.tip))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(200), ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_mixed_or_counted_twice(script in script(60)) {
        let world = world(&script);
        let directory = world.directory();
        let state = load(&directory, Check::Hashes).expect("nothing is damaged");
        prop_assert_eq!(&state.damage, &Vec::<String>::new());
        let counted: Vec<(PointId, u32)> = state.runs().map(|run| (run.point.clone(), run.run)).collect();
        let once: BTreeSet<_> = counted.iter().cloned().collect();
        prop_assert_eq!(once.len(), counted.len());
        // Outside searches, the runs in the tables are the expected ones and those that were given up untried.
        let found: BTreeMap<(PointId, u32), LineId> = state
            .runs()
            .filter(|run| run.search.is_none() && !run.is_given_up())
            .map(|run| ((run.point.clone(), run.run), run.rank.line))
            .collect();
        prop_assert_eq!(found, world.expected(&state));
        // Every figure is in the row of its own run.
        for row in rows(&directory, &state) {
            if let Some(value) = &row.6 {
                prop_assert_eq!(value, &row.5.to_string());
            }
        }
        // A session retires every result on the server that it had read, and nothing else.
        for (rank, ..) in &world.results {
            prop_assert_eq!(state.is_retired(rank.line), world.retired.contains(&rank.line), "{:?}", rank);
        }
        // Every result exists somewhere: in the tables, as a duplicate, or for a point that is not in the plan.
        let spare: BTreeSet<LineId> = state.duplicates().iter().map(|spare| spare.run.rank.line).collect();
        for (rank, started, _) in &world.results {
            let counts = state.runs().filter(|run| run.rank.line == rank.line).count();
            let is_planned = state.planned_points().contains(&started.point);
            prop_assert_eq!(counts + usize::from(spare.contains(&rank.line)), usize::from(is_planned), "{:?}", rank);
        }
    }

    #[test]
    fn a_chain_is_a_path_and_the_best_one_counts(script in script(60)) {
        let world = world(&script);
        let state = load(&world.directory(), Check::Hashes).expect("nothing is damaged");
        let Some((_, probes, _)) = search_of(&state) else { return Ok(()) };
        // Each probe says how many were before it.
        let steps: Vec<f64> = (0..probes.len()).map(|step| step as f64).collect();
        prop_assert_eq!(&probes, &steps);
        let longest = world.results.iter().filter(|(rank, ..)| !state.is_retired(rank.line));
        let longest = longest.filter_map(|(_, started, _)| Some(started.search.as_ref()?.step + 1)).max();
        let record = state.search(&search(), 0).expect("begun");
        let is_answered = matches!(record.ended, Some(SearchEnd::Answered(_)));
        prop_assert!(is_answered || record.steps() == longest.unwrap_or(0) || state.has_retired());
        for run in state.runs().filter(|run| run.search.is_some()) {
            prop_assert!(state.is_of_chain(run.rank.line) && !world.retired.contains(&run.rank.line));
        }
    }

    #[test]
    fn lines_in_any_order_give_the_same_state(script in script(60), order in any::<u64>()) {
        let world = world(&script);
        let directory = world.directory();
        let state = load(&directory, Check::Hashes).expect("nothing is damaged");
        // The state does not depend on the order in which lines are read.
        let mut entries = all_entries(&directory);
        shuffle(&mut entries, order);
        let other = State::of(entries);
        // `State::of` reads no files, so it may lack content of lost lines that only a file has.
        if state.runs().all(|run| other.runs().any(|same| same.rank.line == run.rank.line)) {
            prop_assert_eq!(rows(&directory, &other), rows(&directory, &state));
            prop_assert_eq!(search_of(&other), search_of(&state));
        }
    }

    #[test]
    fn damage_is_named_and_costs_its_own_run(script in script(60), damages in prop::collection::vec(damage(), 1..3)) {
        let world = world(&script);
        let directory = world.directory();
        let before = load(&directory, Check::Hashes).expect("nothing is damaged");
        let (rows_before, search_before) = (rows(&directory, &before), search_of(&before));
        let mut done = Vec::new();
        for damage in &damages {
            done.extend(damage.inflict(&directory));
        }
        let after = match load(&directory, Check::Hashes) {
            Ok(after) => after,
            Err(error) => {
                // Only damage that makes everything uncertain is an error, and the error names a remedy.
                let text = error.to_string();
                prop_assert!(text.contains("restore"), "{}", text);
                prop_assert!(done.iter().any(|done| done.may_stop), "{:?}: {}", done, text);
                return Ok(());
            }
        };
        // A run that was cut gives way to a failed try of it, whose line may be lost.
        let is_measured = |row: &&Row| row.6.is_some() && !row.4 && row.2 != Outcome::Cut;
        let measured = |rows: &[Row]| -> BTreeSet<_> {
            rows.iter().filter(is_measured).map(|row| (row.0.clone(), row.1, row.5)).collect()
        };
        let rows_after = rows(&directory, &after);
        if after.damage.is_empty() {
            // Three losses cannot be detected: a line that looks unfinished, the plan of a session that no other session has read, and a
            // file lost together with its line. Every other measured run must still be in the tables.
            let is_cut = done.iter().any(|done| done.cuts);
            let is_hidden = |done: &DamageReport| done.cuts && done.may_stop || is_cut && done.what.starts_with("lose");
            if !done.iter().any(is_hidden) {
                prop_assert_eq!(measured(&rows_after), measured(&rows_before), "{:?}", done);
            }
            if done.iter().all(|done| !done.cuts) {
                prop_assert_eq!(&rows_after, &rows_before, "{:?}", done);
                prop_assert_eq!(search_of(&after), search_before, "{:?}", done);
            }
        }
        // No figure moves to another run, and no parameter changes.
        for row in &rows_after {
            if let Some(value) = row.6.as_ref().filter(|_| !row.4) {
                prop_assert_eq!(value, &row.5.to_string());
            }
            let number = usize::from_str_radix(&row.0.0, 16).expect("a number");
            prop_assert_eq!(&row.7, &params(&[("max_concurrency", number), ("len", 8)]));
        }
        if let [one] = done.as_slice() && let Some(own) = &one.costs {
            let lost = rows_before.iter().filter(|row| !rows_after.contains(row));
            let lost: Vec<_> = lost.map(|row| (row.0.clone(), row.1)).collect();
            prop_assert!(lost.iter().all(|key| key == own), "{:?}: {:?}", done, lost);
        }
    }

    #[test]
    fn a_directory_that_lost_anything_can_be_worked_on(
        script in script(40), damages in prop::collection::vec(damage(), 0..3), more in script(30)
    ) {
        let mut world = world(&script);
        let directory = world.directory();
        for damage in &damages {
            damage.inflict(&directory);
        }
        let Ok(follower) = super::recorder::follow(&directory, Check::Hashes) else { return Ok(()) };
        if follower.gaps().iter().any(|gap| !gap.is_repaired_by_run) {
            return Ok(());
        }
        let measured_before: BTreeSet<LineId> = measured(&directory);
        world.actors = (0..4).map(|_| None).collect();
        for (who, action) in more {
            if !matches!(action, Move::Retire) {
                world.play(who, action);
            }
        }
        // Further work never loses a measurement.
        let after = all_results(&directory);
        prop_assert!(measured_before.is_subset(&after), "{:?} {:?}", measured_before, after);
    }
}

/// Returns the number of cases to try: `PROPTEST_CASES`, which campaigns set, else the usual number.
fn cases(usual: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(usual)
}

fn all_entries(directory: &Directory) -> Vec<Entry> {
    let mut entries = Vec::new();
    for path in directory.journals().expect("readable") {
        let mut reader = super::reader::Reader::of(&path).expect("a journal");
        reader.read(&mut |entry| entries.push(entry)).expect("readable");
    }
    entries
}

/// Returns the beginnings of the runs in the tables that have sound figures.
fn measured(directory: &Directory) -> BTreeSet<LineId> {
    let state = super::recorder::follow(directory, Check::Hashes)
        .expect("readable")
        .into_state();
    let sound = state.runs().filter(|run| run.file.is_some() && !run.is_lost());
    sound.map(|run| run.rank.line).collect()
}

/// Returns the beginnings of all sound results, counted or not.
fn all_results(directory: &Directory) -> BTreeSet<LineId> {
    let state = super::recorder::follow(directory, Check::Hashes)
        .expect("readable")
        .into_state();
    state.sound_results()
}

fn shuffle(entries: &mut [Entry], mut seed: u64) {
    for at in (1..entries.len()).rev() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        entries.swap(at, (seed >> 33) as usize % (at + 1));
    }
}
