//! `vsweep run --dry-run`: what a plan still lacks in a directory, and what that will likely take.

use crate::agenda::Start;
use crate::cli::experiment::{print_damage, recorded};
use crate::cli::forecast::{estimate, options_at};
use crate::cli::output;
use crate::cli::sweep::plan::{table, write_estimate};
use crate::error::{Exit, Result};
use crate::journal::{Directory, State, number};
use crate::plan::Plan;
use crate::run::Sweep;
use crate::units::show_many;
use itertools::Itertools;
use std::io::{self, Write};

/// Shows what a real run would do now.
pub fn show(sweep: &Sweep<'_>, directory: &Directory) -> Result<Exit> {
    let mut state = recorded(directory)?;
    sweep.imagine_anew(&mut state);
    output::finish(write(sweep, directory, &state, &mut output::text()))?;
    Ok(print_damage(&state.damage))
}

fn write(sweep: &Sweep<'_>, directory: &Directory, state: &State, out: &mut impl Write) -> io::Result<()> {
    let schedule = sweep.schedule();
    let (mut servers, mut runs, mut searches) = (0, 0, 0);
    let left = |start: Start| schedule.sure_group(&start, state);
    let starts: Box<dyn Iterator<Item = Start>> = match sweep.plan.optimize {
        // Those after them depend on their results.
        Some(_) => Box::new(schedule.wanted_starts(state, &[]).into_iter()),
        None => Box::new(schedule.foreseen(state)),
    };
    for group in starts.filter_map(left) {
        table::write_server(sweep.plan, &group.server, out)?;
        if let Some(which) = which_start(sweep.plan, group.slot) {
            writeln!(out, "  {which}")?;
        }
        if let Some(grid) = &group.grid {
            let row = |(place, _, runs): (usize, _, Vec<u32>)| {
                let numbers = runs.iter().map(|run| format!("#{}", number(group.slot, *run)));
                (grid.point(schedule, place), Some(numbers.format(" ").to_string()))
            };
            let mut left = grid.left(schedule, state);
            let listed = left.by_ref().take(table::MOST_LISTED).map(row).collect_vec();
            table::write_points(sweep.plan, &listed, left.count() as u64, out)?;
            runs += grid.count(schedule, state);
        }
        table::write_finders(sweep.plan, "search", &group.searches, out)?;
        table::write_finders(sweep.plan, "exploration", &group.explorations, out)?;
        writeln!(out)?;
        servers += 1;
        searches += (group.searches.len() + group.explorations.len()) as u64;
    }
    let mut work = vec![show_many(servers, "server start"), show_many(runs, "run")];
    if searches > 0 {
        work.push(show_many(searches, "unfinished search"));
    }
    let recorded = show_many(state.measured().count() as u64, "run");
    let root = directory.root().display();
    if sweep.plan.optimize.is_some() {
        let all = show_many(sweep.wanted.counts().servers, "server");
        return writeln!(
            out,
            "the next of {all}; their results decide which follow; recorded in {root}: {recorded}"
        );
    }
    writeln!(out, "left to do: {}; recorded in {root}: {recorded}", work.join(", "))?;
    let options = options_at(sweep.plan, sweep.wanted, directory);
    match servers {
        0 => Ok(()),
        _ => write_estimate(&estimate(schedule, state, state, &options), out),
    }
}

/// Number of the start, if the plan has several for each server.
fn which_start(plan: &Plan, slot: u32) -> Option<String> {
    if plan.compare.is_some() {
        return Some(format!("start {}", slot + 1));
    }
    (plan.starts > 1).then(|| match slot.checked_sub(plan.starts) {
        None => format!("start {} of {}", slot + 1, plan.starts),
        Some(fresh) => format!("fresh start {} of {}, as a finalist", fresh + 1, plan.starts),
    })
}
