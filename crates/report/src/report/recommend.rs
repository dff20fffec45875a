//! What to run, in a sentence for each goal: how much better that is than the next server, and how sure.

use super::answer::{Answer, Best, FRONTIER, mark};
use super::nodes::apart;
use super::variation::settings;
use super::words::{axis_title, show_number};
use vsweep_record::table::{Column, Points, Section};

/// A ratio that is nearer to one is not worth its digits.
const ALIKE: f64 = 0.01;

/// A server to run, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Recommended {
    /// What for: `most throughput per GPU`; empty if it is the same for every goal.
    pub goal: String,
    /// Its settings.
    pub server: String,
    /// What it gives, and what the next one does not.
    pub why: String,
}

impl Recommended {
    /// `Run`, or what to run it for.
    pub fn lead(&self) -> String {
        match self.goal.as_str() {
            "" => "Run".to_owned(),
            goal => format!("For the {goal}, run"),
        }
    }
}

/// What to run for a workload whose points these columns tell apart, for throughput and for latency. Nothing where the plan leaves
/// no choice of a server, or nothing is best.
pub fn recommend(points: &Points<'_>, answer: &Answer, varying: &[&Column]) -> Vec<Recommended> {
    let asked = |metric: &str| answer.bests.iter().find(|best| best.metric == metric);
    let throughput = asked(FRONTIER[1]).or_else(|| answer.bests.first());
    let latency = answer.bests.iter().find(|best| best.metric.ends_with("_ms"));
    let mut bests: Vec<&Best> = throughput.into_iter().chain(latency).collect();
    bests.retain(|best| best.runner_up.is_some());
    if let [first, second] = bests[..]
        && points.are_of_one_config(&[first.point, second.point])
    {
        bests.truncate(1);
    }
    let is_one = bests.len() == 1;
    let recommended = bests.into_iter().map(|best| {
        let goal = best.question.to_lowercase().replace("gpu", "GPU");
        Recommended {
            goal: if is_one { String::new() } else { goal },
            ..of(points, best, varying)
        }
    });
    recommended.collect()
}

fn of(points: &Points<'_>, best: &Best, varying: &[&Column]) -> Recommended {
    let (server, load): (Vec<&Column>, Vec<&Column>) = varying
        .iter()
        .copied()
        .partition(|column| column.section == Section::Serve);
    let row = |at: usize| points.points[at].row;
    let load_of = |at: usize| match load.is_empty() {
        true => String::new(),
        false => format!(" at {}", settings(&load, row(at))),
    };
    let under = load_of(best.point);
    let next = best.runner_up.map_or(String::new(), |(next, ratio)| {
        let (next, its_load) = (settings(&server, row(next)), load_of(next));
        let its_load = if its_load == under { String::new() } else { its_load };
        match (ratio - 1.0).abs() < ALIKE {
            true => format!(", within 1 % of the next server, {next}{its_load}"),
            false => format!(", {} times the next server, {next}{its_load}", show_number(ratio)),
        }
    });
    let is_tied = best
        .tied
        .iter()
        .any(|other| !points.are_of_one_config(&[best.point, *other]));
    let tied = match is_tied {
        true => format!(" Other servers cannot be told from it {}.", best.why_tied()),
        false => String::new(),
    };
    let nodes = best.runner_up.and_then(|(next, _)| apart(points, best.point, next));
    let nodes = nodes.map_or(String::new(), |(own, its)| {
        format!(" It was measured on {own}, the next server on {its}.")
    });
    let doubt = mark(&points.points[best.point]).map_or(String::new(), |mark| format!(" Its figures are {mark}."));
    let (metric, figure) = (axis_title(best.metric), show_number(best.spread.median));
    let figure = match metric.split_once(" (") {
        Some((name, unit)) => format!("{name} {figure} {}", unit.trim_end_matches(')')),
        None => format!("{metric} {figure}"),
    };
    Recommended {
        goal: String::new(),
        server: settings(&server, row(best.point)),
        why: format!("{figure}{under}{next}.{nodes}{tied}{doubt}"),
    }
}
