//! The answer of a plan with targets as HTML: a card for each target with the server that holds the highest load, or why
//! none is known.

use super::Page;
use super::answer::{Card, list_tied};
use super::text::escape;
use crate::report::sla::{Ranked, Row, by_target};
use crate::report::words::show_number;
use itertools::Itertools;
use vsweep_plan::units::show_many;
use vsweep_record::journal::RunRecord;

/// Searches without an answer that are told of.
const MOST_TOLD: usize = 3;

/// Nothing where no search has begun.
pub fn cards(page: &Page<'_>) -> String {
    let targets = by_target(page.inputs.state);
    if targets.is_empty() {
        return String::new();
    }
    let runs: Vec<&RunRecord> = page.inputs.state.runs().collect();
    let cards: String = targets.iter().map(|ranked| target_card(page, &runs, ranked)).collect();
    format!("<div class=\"cards\">{cards}</div>")
}

fn target_card(page: &Page<'_>, runs: &[&RunRecord], ranked: &Ranked<'_>) -> String {
    let (rows, (best, _)) = (&ranked.rows, ranked.split());
    let criteria = escape(&best.target.criteria.iter().join(", "));
    let title = best.question();
    let at = best.point(page.inputs.points, runs);
    let (Some(answer), Some((low, high)), Some(at)) = (best.answer(), best.interval(), at) else {
        return format!(
            "<article class=\"card\"><h3>{}</h3><p class=\"caution\">{}</p></article>",
            escape(&title),
            why_none(rows, &criteria)
        );
    };
    let beyond = match high.is_finite() {
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
    let binding = answer.binding.as_ref();
    let binding = binding.map_or_else(String::new, |binding| {
        format!("; nearest to its limit is <code>{}</code>", escape(binding))
    });
    let as_high = ranked.tied().iter().map(|other| {
        let value = other.load().map_or_else(String::new, show_number);
        format!("{} (holds {value})", other.settings())
    });
    let cut = match page.inputs.points.points[at].used.is_empty() {
        true => {
            " Its run was cut short as soon as its verdict was certain, so its figures are those of a part of a run."
        }
        false => "",
    };
    let why = format!(
        "<p class=\"why\">The highest load that meets <code>{criteria}</code>. {beyond}{words}{binding}.{cut}{}</p>{}",
        open_ones(rows),
        list_tied(&format!("{}:", ranked.why_tied()), &as_high.collect::<Vec<String>>())
    );
    let shown = best.value_in_words();
    let card = Card {
        title: &title,
        question: &title,
        told: &page.varied,
        at,
        metric: best.record().started.vary.name(),
        shown: shown.as_deref(),
        more: &why,
    };
    card.render(page)
}

/// Why no server is known to hold any load.
fn why_none(rows: &[Row<'_>], criteria: &str) -> String {
    let none = format!("No server is known to meet <code>{criteria}</code>.");
    let told = rows.iter().filter(|row| row.answer().is_none());
    let told: String = told
        .take(MOST_TOLD)
        .map(|row| {
            let (settings, words) = (escape(&row.settings()), row.words());
            format!("<br>{settings}: {words}; {}.", escape(&row.notes()))
        })
        .collect();
    match rows.iter().any(|row| row.is_open()) {
        true => format!("No answer yet, for the search is not finished.{told}"),
        false => none + &told,
    }
}

/// What may still beat the answer.
fn open_ones(rows: &[Row<'_>]) -> String {
    match rows.iter().filter(|row| row.is_open()).count() {
        0 => String::new(),
        open => format!(
            " Not finished, and may find more: {}.",
            show_many(open as u64, "search")
        ),
    }
}
