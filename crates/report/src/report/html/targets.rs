//! The answer of a plan with targets as a page's template takes it: a card for each target with the server that holds the highest
//! load, or why none is known; and a table of every server's limits.

use super::card::Card;
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

/// Searches without an answer that are told of.
const MOST_TOLD: usize = 3;

/// Nothing where no search has begun.
pub fn parts(inputs: &Inputs<'_>, configs: &[Config]) -> Value {
    let state = inputs.state;
    let runs: Vec<&RunRecord> = state.runs().collect();
    let limits = sla::varied(state).map(|vary| {
        context! {
            vary,
            rows => Serde(sla::shown(state)),
            interval => sla::explain_interval(),
            coarse => sla::COARSE,
        }
    });
    let targets = races(state);
    context! {
        limits,
        targets => targets.iter().map(|race| target(inputs, configs, &runs, race)).collect_vec(),
    }
}

fn target(inputs: &Inputs<'_>, configs: &[Config], runs: &[&RunRecord], race: &Race<'_>) -> Value {
    let (servers, best) = (&race.servers, race.winner());
    let criteria = best.target.criteria.iter().join(", ");
    let title = sla::question(best);
    let open = match servers.iter().filter(|row| row.is_open()).count() {
        0 => None,
        open => Some(show_many(open as u64, "search")),
    };
    let at = sla::point(best, inputs.points, runs);
    let (Some(answer), Some((low, high)), Some(at)) = (best.answer(), sla::interval(best), at) else {
        let told = servers.iter().filter(|row| row.answer().is_none()).take(MOST_TOLD);
        let told = told.map(|row| format!("{}: {}; {}", sla::config_name(row), sla::words(row), sla::notes(row)));
        return context! { title, criteria, open, why_none => told.collect_vec() };
    };
    let limit = match high.is_finite() {
        true => format!("The limit lies between {} and {}", show_number(low), show_number(high)),
        false => format!(
            "The limit lies above {}, the highest that was allowed",
            show_number(low)
        ),
    };
    let words = match answer.is_coarse {
        true => format!(" ({})", answer.words()),
        false => String::new(),
    };
    let tied = race.tied().iter().map(|other| {
        let value = other.load().map_or_else(String::new, show_number);
        format!("{} (holds {value})", sla::config_name(other))
    });
    let card = Card {
        title: &title,
        question: &title,
        told: &inputs.varied,
        at,
        metric: best.record().started.vary.name(),
        shown: sla::value_in_words(best),
    };
    context! {
        best => card.parts(inputs, configs),
        title => title.as_str(),
        criteria,
        limit => limit + &words,
        binding => answer.binding.as_deref(),
        is_cut => inputs.points.points[at].used.is_empty(),
        open,
        why_tied => sla::why_tied(race),
        tied => tied.collect_vec(),
    }
}
