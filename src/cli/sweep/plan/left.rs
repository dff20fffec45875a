//! The work of a plan that a directory still lacks, for people, and its likely duration.

use super::rehearse::{failing, sentence};
use super::table;
use crate::agenda::{Group, Schedule, Start};
use crate::cli::forecast::failures;
use crate::journal::{ALONE_SLOT, Directory, Shard, State, number};
use crate::plan::Plan;
use crate::rehearse::Rehearsal;
use crate::run::{Sweep, chosen_group};
use crate::units::show_many;
use itertools::Itertools;
use std::io::{self, Write};

/// Writes the totals, then each group. If there are many servers, only the first group is shown in full. Each of the others, and each later
/// start of a server, has a line. The first state is the one that lacks the work, the second one what the directory holds.
pub fn write(
    sweep: &Sweep<'_>,
    directory: &Directory,
    (state, record): (&State, &State),
    estimate: &Result<Rehearsal, String>,
    out: &mut impl Write,
) -> io::Result<()> {
    let (schedule, counts) = (sweep.schedule(), sweep.wanted.counts());
    table::write_counts(sweep.plan, &counts, out)?;
    let groups = || {
        let starts: Box<dyn Iterator<Item = Start>> = match sweep.plan.optimize {
            // Only the next starts are known, because later ones depend on their results.
            Some(_) => Box::new(schedule.wanted_starts(state, &[]).into_iter()),
            None => Box::new(schedule.foreseen(state)),
        };
        starts.filter_map(|start| schedule.sure_group(&start, state))
    };
    let [counted, held] = [state, record].map(|state| state.measured().count() as u64);
    let recorded = format!("recorded in {}: {}", directory.root().display(), show_many(held, "run"));
    let share = match sweep.shard {
        Shard::WHOLE => String::new(),
        shard => format!(" in shard {}/{}", shard.index, shard.count),
    };
    if !schedule.has_work(state) {
        return writeln!(
            out,
            "nothing left to do{share}; {recorded}; --fresh shows the whole plan"
        );
    }
    let group_count = groups().count() as u64;
    let starts = show_many(group_count, table::noun_of_start(sweep.plan));
    if sweep.plan.optimize.is_some() {
        let all = show_many(counts.servers, "server");
        writeln!(
            out,
            "next: {starts}; the results decide which of {all} follow; {recorded}"
        )?;
    } else {
        let left = groups().map(|group| left_of(&group, schedule, state));
        let left = left.fold((0, 0), |(runs, searches), group| (runs + group.0, searches + group.1));
        let what = if held > counted {
            "all of the plan"
        } else {
            "left to do"
        };
        writeln!(out, "{what}{share}: {starts}, {}; {recorded}", in_words(left))?;
    }
    match estimate {
        Ok(rehearsal) => {
            writeln!(out, "{}", sentence(sweep.plan, state, rehearsal))?;
            let mut assumed = rehearsal.assumptions.iter();
            assumed.try_for_each(|assumed| writeln!(out, "  assumed: {assumed}"))?;
            let mut failing = failures(sweep.plan, failing(rehearsal)).into_iter();
            failing.try_for_each(|failure| writeln!(out, "  {failure}"))?;
        }
        Err(why) => writeln!(out, "not predicted: {why}")?,
    }
    let whole = table::count_whole(counts.servers).min(group_count);
    for group in groups().take(whole as usize) {
        writeln!(out)?;
        write_group(sweep.plan, &group, schedule, state, out)?;
    }
    if whole == group_count {
        return Ok(());
    }
    let work = |group: Group| {
        let left = in_words(left_of(&group, schedule, state));
        let work = match which_start(sweep.plan, group.slot) {
            Some(which) => format!("{which}, {left}"),
            None => left,
        };
        (group.server, work)
    };
    let others = groups().skip(whole as usize).map(work);
    table::write_others(sweep.plan, group_count - whole, others, out)?;
    match counts.servers {
        servers if servers > whole => {
            let hint = chosen_group(sweep.plan).map_or("; --only shows others", |_| "");
            writeln!(out, "\nthe first server is shown in full{hint}")
        }
        _ => Ok(()),
    }
}

/// Writes a server with its command line, and its remaining points and searches.
fn write_group(
    plan: &Plan,
    group: &Group,
    schedule: Schedule<'_>,
    state: &State,
    out: &mut impl Write,
) -> io::Result<()> {
    table::write_server(plan, &group.server, out)?;
    if let Some(which) = which_start(plan, group.slot) {
        writeln!(out, "  {which}")?;
    }
    // All runs are left of a plan without a record.
    let has_runs = state.runs().next().is_some();
    if let Some(grid) = &group.grid {
        let row = |(index, _, runs): (usize, _, Vec<u32>)| {
            let numbers = || {
                runs.iter()
                    .map(|run| format!("#{}", number(group.slot, *run)))
                    .join(" ")
            };
            (grid.point(schedule, index), has_runs.then(numbers))
        };
        let mut left = grid.left(schedule, state);
        let listed = left.by_ref().take(table::MOST_LISTED).map(row).collect_vec();
        table::write_points(plan, &listed, left.count() as u64, out)?;
    }
    table::write_finders(plan, "search", &group.searches, out)?;
    table::write_finders(plan, "exploration", &group.explorations, out)
}

/// Returns the number of runs that are left of a group, and the number of searches and explorations.
fn left_of(group: &Group, schedule: Schedule<'_>, state: &State) -> (u64, u64) {
    let runs = group.grid.as_ref().map_or(0, |grid| grid.count(schedule, state));
    (runs, (group.searches.len() + group.explorations.len()) as u64)
}

fn in_words((runs, searches): (u64, u64)) -> String {
    match searches {
        0 => show_many(runs, "run"),
        searches => show_many(searches, "unfinished search"),
    }
}

/// Describes the start by its number, if the plan has several for each server.
fn which_start(plan: &Plan, slot: u32) -> Option<String> {
    if slot == ALONE_SLOT {
        return Some("a start without neighbours, as the winner".to_owned());
    }
    if plan.compare.is_some() {
        return Some(format!("start {}", slot + 1));
    }
    (plan.starts > 1).then(|| match slot.checked_sub(plan.starts) {
        None => format!("start {} of {}", slot + 1, plan.starts),
        Some(fresh) => format!("fresh start {} of {}, as a finalist", fresh + 1, plan.starts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Format, World, parse};
    use std::path::Path;

    #[test]
    fn each_start_has_a_name() {
        let text = "version = 1\nstarts = 2\n[serve]\ncommand = \"vllm serve m\"\n[bench.params]\nnum_prompts = 1\n";
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let names = [0, 3, ALONE_SLOT].map(|slot| which_start(&plan, slot).unwrap_or_default());
        let expected = [
            "start 1 of 2",
            "fresh start 2 of 2, as a finalist",
            "a start without neighbours, as the winner",
        ];
        assert_eq!(names, expected);
    }
}
