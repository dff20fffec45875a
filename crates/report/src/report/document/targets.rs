//! The answer of a plan with targets as templates take it: for each target the server that holds the highest load, or why none is
//! known; and a table of every server's limits.

use super::card;
use super::points::PointWords;
use crate::report::configs::Config;
use crate::report::inputs::Inputs;
use crate::report::sla;
use crate::report::words::show_number;
use itertools::Itertools;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_plan::units::show_many;
use vsweep_record::journal::RunRecord;
use vsweep_record::table::{Race, races};

/// Searches without an answer that are listed.
const MOST_LISTED: usize = 3;

/// Every server's limits; none where no search has begun.
pub fn limits(inputs: &Inputs<'_>) -> Option<Value> {
    let vary = sla::varied(inputs.state)?;
    Some(context! {
        vary,
        rows => Serde(sla::shown(inputs.state)),
        interval => sla::explain_interval(),
        coarse => sla::COARSE,
    })
}

/// The answer of each target.
pub fn parts(inputs: &Inputs<'_>, configs: &[Config]) -> Vec<Value> {
    let runs: Vec<&RunRecord> = inputs.state.runs().collect();
    let targets = races(inputs.state).into_iter();
    targets.map(|race| of_target(inputs, configs, &runs, &race)).collect()
}

fn of_target(inputs: &Inputs<'_>, configs: &[Config], runs: &[&RunRecord], race: &Race<'_>) -> Value {
    let (servers, best) = (&race.servers, race.winner());
    let title = sla::question(best);
    let open = servers.iter().filter(|row| row.is_open()).count();
    let part = context! {
        title => title.as_str(),
        criteria => best.target.criteria.iter().join(", "),
        open => (open > 0).then(|| show_many(open as u64, "search")),
    };
    let at = sla::point(best, inputs.points, runs);
    let (Some(answer), Some((low, high)), Some(at)) = (best.answer(), sla::interval(best), at) else {
        let unanswered = servers.iter().filter(|row| row.answer().is_none()).take(MOST_LISTED);
        let unanswered =
            unanswered.map(|row| format!("{}: {}; {}", sla::config_name(row), sla::words(row), sla::notes(row)));
        return context! { why_none => unanswered.collect_vec(), ..part };
    };
    let low = show_number(low);
    let limit = match high.is_finite() {
        true => format!("The limit lies between {low} and {}", show_number(high)),
        false => format!("The limit lies above {low}, the highest that was allowed"),
    };
    let words = match answer.is_coarse {
        true => format!(" ({})", answer.words()),
        false => String::new(),
    };
    let tied = race.tied().iter().map(|other| {
        let value = other.load().map_or_else(String::new, show_number);
        format!("{} (holds {value})", sla::config_name(other))
    });
    let named = PointWords {
        points: inputs.points,
        goals: &inputs.goals,
        params: inputs.varied.clone(),
    };
    let metric = best.record().started.vary.name();
    context! {
        best => context! {
            value => sla::value_in_words(best),
            ..card::parts(inputs, configs, &named, at, metric, &title)
        },
        limit => limit + &words,
        binding => answer.binding.as_deref(),
        is_cut => inputs.points.points[at].used.is_empty(),
        why_tied => sla::why_tied(race),
        tied => tied.collect_vec(),
        ..part
    }
}
