//! The answer of a plan with targets as HTML: a card for each target with the server that holds the highest load.

use super::Page;
use super::answer::{Card, list_tied};
use super::text::escape;
use crate::journal::RunRecord;
use crate::report::sla::{Row, by_target};
use crate::report::words::show_number;
use itertools::Itertools;

/// Nothing where no search has ended.
pub fn cards(page: &Page<'_>) -> String {
    let targets = by_target(page.inputs.state);
    if targets.is_empty() {
        return String::new();
    }
    let runs: Vec<&RunRecord> = page.inputs.state.runs().collect();
    let cards: String = targets.iter().map(|rows| target_card(page, &runs, rows)).collect();
    format!("<div class=\"cards\">{cards}</div>")
}

fn target_card(page: &Page<'_>, runs: &[&RunRecord], rows: &[Row<'_>]) -> String {
    let (best, others) = (&rows[0], &rows[1..]);
    let criteria = escape(&best.target.criteria.iter().join(", "));
    let title = best.question();
    let at = best.point(page.inputs.points, runs);
    let (Some(answer), Some(at)) = (best.answer(), at) else {
        return format!(
            "<article class=\"card\"><h3>{}</h3><p class=\"caution\">No server is known to meet {criteria}.</p></article>",
            escape(&title)
        );
    };
    let beyond = match answer.high.is_finite() {
        true => format!(
            "The limit lies between {} and {}",
            show_number(answer.low),
            show_number(answer.high)
        ),
        false => format!(
            "The limit lies above {}, the highest that was allowed",
            show_number(answer.low)
        ),
    };
    let binding = answer.binding.as_ref();
    let binding = binding.map_or_else(String::new, |binding| {
        format!("; nearest to its limit is <code>{}</code>", escape(binding))
    });
    let as_high = others.iter().filter(|other| other.may_hold(best));
    let as_high = as_high.map(|other| {
        let value = other.value().map_or_else(String::new, show_number);
        format!("{} (holds {value})", other.settings())
    });
    let cut = match page.inputs.points.points[at].used.is_empty() {
        true => " Its run was cut short as soon as its verdict was certain, so it has no figures.",
        false => "",
    };
    let why = format!(
        "<p class=\"why\">The highest load that meets <code>{criteria}</code>. {beyond}{binding}.{cut}</p>{}",
        list_tied(
            "with others whose limit may lie as high:",
            &as_high.collect::<Vec<String>>()
        )
    );
    let card = Card {
        title: &title,
        question: &title,
        told: &page.varied,
        at,
        metric: best.record.started.vary.name(),
        more: &why,
    };
    card.render(page)
}
