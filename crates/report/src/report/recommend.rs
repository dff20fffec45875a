//! What to run, in a sentence for each goal: how much better that is than the next server and the default settings, what it costs, and
//! how sure it is.

use super::answer::{Answer, Best, FRONTIER, mark};
use super::goals::Goals;
use super::nodes::apart;
use super::variation::settings;
use super::words::{say, show_number, show_ratio};
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
    let row = |at: usize| points.points[at].row;
    let load_of = |at: usize| match load.is_empty() {
        true => String::new(),
        false => format!(" at {}", settings(&load, row(at))),
    };
    let under = load_of(best.point);
    let beside = |(other, ratio): (usize, f64), named: &dyn Fn(&str) -> String| {
        let its_load = load_of(other);
        let its_load = if its_load == under { String::new() } else { its_load };
        let named = named(&settings(&server, row(other)));
        format!(", {} {named}{its_load}", show_ratio(ratio))
    };
    let is_next_plain = best.runner_up.map(|(next, _)| next) == best.default.map(|(plain, _)| plain);
    let next = best.runner_up.map_or(String::new(), |next| {
        beside(next, &|name| match is_next_plain {
            true => format!("the next server, which has the default settings ({name})"),
            false => format!("the next server, {name}"),
        })
    });
    let plain = best.default.filter(|_| !is_next_plain);
    let plain = plain.map_or(String::new(), |plain| {
        beside(plain, &|name| format!("the default settings ({name})"))
    });
    let is_plain = points
        .defaults()
        .is_some_and(|plain| points.are_of_one_config(&[plain, best.point]));
    let is_plain = if is_plain { " It has the default settings." } else { "" };
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
    let missed = goals.missed_by(best.point);
    let missed = missed.map_or(String::new(), |missed| {
        format!(" It meets {}, but not {missed}.", goals.met_by(best.point))
    });
    let figure = say(best.metric, &show_number(best.spread.median));
    let cost = points
        .spread(&points.points[best.point], COST)
        .filter(|_| best.metric != COST);
    let cost = cost.map_or(String::new(), |cost| {
        format!(", ${} per million output tokens", show_number(cost.median))
    });
    Recommended {
        lead: String::new(),
        server: settings(&server, row(best.point)),
        why: format!("{figure}{under}{cost}{next}{plain}.{missed}{is_plain}{nodes}{tied}{doubt}"),
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
                serve: serve.as_object().expect("an object"),
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
        let told = recommend(&points, &goals, answer, &varying);
        told[0].why.clone()
    }

    #[test]
    fn the_server_with_the_default_settings_is_told_beside_the_next_one() {
        let (plain, small, large) = (json!({}), json!({"max_num_seqs": 8}), json!({"max_num_seqs": 64}));
        let told = recommended(&[(plain.clone(), 50.0), (small.clone(), 80.0), (large.clone(), 100.0)]);
        assert!(
            told.contains("1.25 times the next server, seqs 8, 2 times the default settings (seqs unset)."),
            "{told}"
        );
        let told = recommended(&[(plain.clone(), 50.0), (large.clone(), 100.0)]);
        assert!(
            told.contains("2 times the next server, which has the default settings (seqs unset)."),
            "{told}"
        );
        let told = recommended(&[(plain, 500.0), (large.clone(), 100.0)]);
        assert!(told.ends_with(" It has the default settings."), "{told}");
        let told = recommended(&[(small, 80.0), (large, 100.0)]);
        assert!(!told.contains("default"), "{told}");
    }
}
