//! `vsweep check`: validates a plan.

use super::output::say;
use super::plan_file::PlanFile;
use crate::error::{Exit, Result};
use crate::plan::{Axis, Plan, Side, spelling};
use crate::units::show_many;
use itertools::Itertools;
use serde_json::Value;

/// Validate a plan and print every problem with a source excerpt
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PlanFile,
}

pub fn run(args: Args) -> Result<Exit> {
    let (plan, matrix, is_doubtful) = match args.file.examine() {
        Ok(opened) => opened,
        Err(exit) => return Ok(exit),
    };
    let counts = matrix.counts();
    let servers = show_many(counts.servers, "server");
    let work = match counts.searches {
        0 => [show_many(counts.points, "point"), show_many(counts.runs, "run")].join(", "),
        searches => show_many(searches, "search"),
    };
    say(format_args!("ok: {}: {servers}, {work}", plan.name));
    for note in notes(&plan).into_iter().map(String::from).chain(matrix.remarks()) {
        say(format_args!("note: {note}"));
    }
    Ok(match is_doubtful {
        true => Exit::SomeFailed,
        false => Exit::Done,
    })
}

/// What is valid and yet hardly meant.
fn notes(plan: &Plan) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if plan.sla.is_some() && plan.origin.has(&["runs"]) {
        notes.push(
            "`runs` repeats nothing in a search, which decides itself what to repeat; set `sla.confirmations` instead",
        );
    }
    let is_goodput = |(name, _): &&(String, Axis)| spelling::same(name, "goodput");
    if let Some((_, Axis::Values(values))) = plan.params(Side::Bench).iter().find(is_goodput) {
        let bounded = |value: &Value| Some(value.as_str()?.split_once(':')?.0.to_owned());
        let latencies: Vec<Option<String>> = values.iter().map(bounded).collect();
        if latencies.iter().all(Option::is_some) && latencies.iter().all_unique() {
            notes.push("`goodput` is a list, so each bound is a load of its own; write both into one text, \"ttft:100 e2el:300\"");
        }
    }
    notes
}
