//! What to run, in a sentence for each goal: how much better that is than the next server and the default settings, what it costs, and
//! how sure it is.

use super::answer::{Answer, Best, FRONTIER, mark};
use super::goals::Goals;
use super::nodes::apart;
use super::template::plain;
use super::variation::settings;
use super::words::{say, show_number, show_ratio};
use minijinja::context;
use serde::Serialize;
use vsweep_record::table::{Column, Points, Section};

/// What output costs, where GPUs have a price.
const COST: &str = "cost_per_million_output_tokens";

/// A server to run, and why.
#[derive(Debug, Serialize)]
pub struct Recommended {
    /// `Run`, or what to run it for: `For the most throughput per GPU, run`.
    pub lead: String,
    /// Its settings.
    pub server: String,
    /// What it gives, and what the next one does not.
    pub why: String,
}

/// What to run for a workload whose points these columns tell apart, for throughput and for latency. Nothing where the plan leaves
/// no choice of a server, or nothing is best.
pub fn recommend(points: &Points<'_>, goals: &Goals, answer: &Answer, varying: &[&Column]) -> Vec<Recommended> {
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
    let recommended = bests.into_iter().map(|best| Recommended {
        lead: match is_one {
            true => "Run".to_owned(),
            false => format!("For the {}, run", best.question.to_lowercase().replace("gpu", "GPU")),
        },
        ..of(points, goals, best, varying)
    });
    recommended.collect()
}

fn of(points: &Points<'_>, goals: &Goals, best: &Best, varying: &[&Column]) -> Recommended {
    let (server, load): (Vec<&Column>, Vec<&Column>) = varying
        .iter()
        .copied()
        .partition(|column| column.section == Section::Serve);
    let name = |at: usize| settings(&server, points.points[at].row);
    let load_of = |at: usize| (!load.is_empty()).then(|| settings(&load, points.points[at].row));
    let own_load = load_of(best.point);
    let beside = |(other, ratio): (usize, f64)| {
        let load = load_of(other).filter(|load| Some(load) != own_load.as_ref());
        context! { ratio => show_ratio(ratio), name => name(other), load }
    };
    let is_default = points
        .defaults()
        .map(|plain| points.are_of_one_config(&[plain, best.point]));
    let place = |beside: Option<(usize, f64)>| beside.map(|(at, _)| at);
    let is_next_default = place(best.runner_up) == place(best.default);
    let is_other = |at: &usize| !points.are_of_one_config(&[best.point, *at]);
    let cost = points.spread(&points.points[best.point], COST);
    let cost = cost.filter(|_| best.metric != COST);
    let parts = context! {
        figure => say(best.metric, &show_number(best.spread.median)),
        load => own_load.as_deref(),
        cost => cost.map(|cost| show_number(cost.median)),
        next => best.runner_up.map(beside),
        is_next_default,
        default => best.default.filter(|_| !is_next_default).map(beside),
        met => goals.met_by(best.point),
        missed => goals.missed_by(best.point),
        is_default => is_default == Some(true),
        nodes => best.runner_up.and_then(|(next, _)| apart(points, best.point, next)),
        why_tied => best.tied.iter().any(is_other).then(|| best.why_tied()),
        mark => mark(&points.points[best.point]),
    };
    Recommended {
        lead: String::new(),
        server: name(best.point),
        why: plain(include_str!("recommend.txt.jinja"), parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::answer::find;
    use serde_json::json;
    use vsweep_plan::validity::Validity;
    use vsweep_record::table::{Cell, RunRow, TableBuilder};

    fn recommended(servers: &[(serde_json::Value, f64)]) -> String {
        let mut builder = TableBuilder::new();
        for (i, (serve, throughput)) in servers.iter().enumerate() {
            builder.push(RunRow {
                point: &i.to_string(),
                run: 0,
                validity: Some(Validity::Valid),
                serve: serve.as_object(),
                gpus: Some(1.0),
                metrics: &[("output_throughput".into(), Cell::Float(*throughput))],
                ..RunRow::default()
            });
        }
        let table = builder.finish();
        let points = Points::of(&table);
        let varying = crate::report::variation::varying(&points);
        let goals = Goals::default();
        let answer = &find(&points, &goals)[0];
        let found = recommend(&points, &goals, answer, &varying);
        found[0].why.clone()
    }

    #[test]
    fn the_server_with_the_default_settings_is_told_beside_the_next_one() {
        let (plain, small, large) = (json!({}), json!({"max_num_seqs": 8}), json!({"max_num_seqs": 64}));
        let text = recommended(&[(plain.clone(), 50.0), (small.clone(), 80.0), (large.clone(), 100.0)]);
        assert!(
            text.contains("1.25 times the next server, seqs 8, 2 times the default settings (seqs unset)."),
            "{text}"
        );
        let text = recommended(&[(plain.clone(), 50.0), (large.clone(), 100.0)]);
        assert!(
            text.contains("2 times the next server, which has the default settings (seqs unset)."),
            "{text}"
        );
        let text = recommended(&[(plain, 500.0), (large.clone(), 100.0)]);
        assert!(text.ends_with(" It has the default settings."), "{text}");
        let text = recommended(&[(small, 80.0), (large, 100.0)]);
        assert!(!text.contains("default"), "{text}");
    }
}
