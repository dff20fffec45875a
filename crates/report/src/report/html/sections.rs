//! The parts of a page that need no script, beside the answer: counts, the banner, failures, the environment, the plan.

use super::Page;
use super::text::{code, escape, table};
use crate::report::charts::explore::in_words;
use crate::report::clients::side_by_side;
use crate::report::compared;
use crate::report::environment::{self, facts};
use crate::report::failures::{Group, Reason};
use crate::report::remarks::{Remark, UNSTEADY, remarks};
use crate::report::requirements::Verdict;
use crate::report::status::unfinished;
use crate::report::variation::settings;
use std::fmt::Write;
use vsweep_plan::units::show_count;
use vsweep_record::table::{Cell, Point, Points};

/// What was measured, where and when, below the title.
pub fn head(page: &Page<'_>) -> String {
    escape(&environment::head(page.inputs.manifest, page.inputs.state).join(" · "))
}

/// One line of counts below that.
pub fn summary(page: &Page<'_>) -> String {
    let points = page.inputs.points;
    let mut parts = vec![
        count(points.points.len(), "point"),
        count(page.inputs.state.servers.len(), "server"),
        count(points.runs.rows(), "run"),
    ];
    let sum = |count: fn(&Point) -> usize| points.points.iter().map(count).sum::<usize>();
    let (suspect, failed) = (sum(|point| point.suspect), sum(|point| point.failed));
    let cut = sum(|point| point.cut.len());
    let left = page.inputs.state.planned().map_or(0, |planned| planned.runs) as usize;
    let left = left.saturating_sub(points.runs.rows());
    for (count, word) in [
        (failed, "failed"),
        (suspect, "in doubt"),
        (cut, "cut short"),
        (left, "still to do"),
    ] {
        if count > 0 {
            parts.push(format!("{} {word}", show_count(count as u64)));
        }
    }
    escape(&parts.join(" · "))
}

/// The banners above all: that figures are simulated, and that the sweep is not finished.
pub fn banners(page: &Page<'_>) -> String {
    let unfinished = unfinished(page.inputs.state).map(|how| {
        format!(
            "<p class=\"banner\" role=\"note\"><strong>Not finished.</strong> {}.</p>",
            escape(&capitalise(&how))
        )
    });
    let notes: String = told(page, |about| about != UNSTEADY);
    match simulated(page.inputs.points) + &unfinished.unwrap_or_default() + &notes {
        none if none.is_empty() => none,
        banners => format!("<aside aria-label=\"Remarks\">{banners}</aside>"),
    }
}

/// Which points are unsteady; it stands below the answer.
pub fn unsteady(page: &Page<'_>) -> String {
    told(page, |about| about == UNSTEADY)
}

fn told(page: &Page<'_>, is_asked: fn(&str) -> bool) -> String {
    let all = remarks(page.inputs.state, page.inputs.points, None).into_iter();
    let asked = all.filter(|remark| is_asked(remark.about));
    let show = |Remark { about, text }: Remark| {
        let text = code_words(&escape(&capitalise(&text)));
        format!("<p class=\"remarked\" role=\"note\"><strong>{about}.</strong> {text}.</p>")
    };
    asked.map(show).collect()
}

/// What stands between backticks, as code.
fn code_words(escaped: &str) -> String {
    let parts = escaped.split('`').enumerate();
    let parts = parts.map(|(place, part)| match place % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    parts.collect()
}

/// What several clients say of the same loads.
pub fn clients(page: &Page<'_>) -> String {
    let Some(clients) = side_by_side(page.inputs.points) else {
        return String::new();
    };
    let mut rows = clients
        .table
        .iter()
        .map(|row| row.iter().map(|cell| escape(cell)).collect::<Vec<String>>());
    let table = rows
        .next()
        .map_or(String::new(), |heads| table("Clients side by side", &heads, rows));
    format!(
        "<h3>Clients side by side</h3>{table}<p class=\"note\">{}.</p>",
        escape(&capitalise(&clients.remark))
    )
}

/// What explorations found, a paragraph each.
pub fn explored(page: &Page<'_>) -> String {
    let told = in_words(page.inputs.state).into_iter();
    told.map(|told| format!("<p>Explored {}.</p>", escape(&told))).collect()
}

/// The banner that figures of the simulator need.
fn simulated(points: &Points<'_>) -> String {
    let simulated = |row: usize| points.runs.cell("simulated", row) == &Cell::Bool(true);
    let count = (0..points.runs.rows()).filter(|row| simulated(*row)).count();
    if count == 0 {
        return String::new();
    }
    // Runs whose server never came up have no figures, whoever would have made them.
    let has_figures = (0..points.runs.rows()).filter(|row| points.runs.cell("simulated", *row) == &Cell::Bool(false));
    let all = if has_figures.count() == 0 { "All" } else { "Some" };
    format!(
        "<p class=\"banner\" role=\"note\"><strong>Simulated.</strong> {all} figures on this page come from the \
         simulator, not from a GPU. They show how a sweep works, not how fast anything is.</p>"
    )
}

/// What the comparison of the plan has found.
pub fn compared(page: &Page<'_>) -> String {
    let told = compared::in_words(page.inputs.state).into_iter();
    told.map(|sentence| format!("<p>{}.</p>", escape(&sentence))).collect()
}

/// What the plan requires, and whether it holds.
pub fn requirements(page: &Page<'_>) -> String {
    let told = page.inputs.requirements.iter().map(|judged| {
        let class = match judged.verdict {
            Verdict::Met => "",
            Verdict::Undecided | Verdict::Unmet => " class=\"caution\"",
        };
        format!("<p{class}>{}.</p>", escape(&capitalise(&judged.to_string())))
    });
    told.collect()
}

/// What went wrong, one block a cause.
pub fn failures(page: &Page<'_>) -> String {
    if page.inputs.failures.is_empty() {
        return "<p class=\"empty\">Nothing failed.</p>".into();
    }
    let mut html = String::new();
    for (i, group) in page.inputs.failures.iter().enumerate() {
        html += &failure(page, group, page.inputs.excerpts.get(i).and_then(Option::as_deref));
    }
    html
}

fn failure(page: &Page<'_>, group: &Group, excerpt: Option<&str>) -> String {
    let verb = group.reason.verb();
    let mut html = format!(
        "<article class=\"failure {verb}\"><h3>{} <span class=\"count\">{} {verb}</span></h3><p>{}.</p>",
        escape(&show_reason(group.reason)),
        count(group.runs, "run"),
        escape(&capitalise(&group.advice())),
    );
    for (detail, count) in group.details.iter().take(3) {
        let times = if *count > 1 {
            format!(" <span class=\"count\">×{count}</span>")
        } else {
            String::new()
        };
        let _ = write!(html, "<p class=\"detail\"><code>{}</code>{times}</p>", escape(detail));
    }
    let rows = group.rows.iter().take(20);
    let names = rows.map(|row| format!("<li>{}</li>", escape(&settings(&page.varied, *row))));
    let names: String = names.collect();
    let more = group.rows.len().saturating_sub(20);
    let more = if more > 0 {
        format!("<li>and {more} more</li>")
    } else {
        String::new()
    };
    let _ = write!(
        html,
        "<details><summary>Where ({})</summary><ul>{names}{more}</ul></details>",
        count(group.rows.len(), "point")
    );
    if let Some(excerpt) = excerpt {
        let _ = write!(
            html,
            "<details open><summary>Server log</summary><pre tabindex=\"0\" aria-label=\"Server log\">{}</pre></details>",
            escape(excerpt)
        );
    }
    html + "</article>"
}

/// Where and with what it was measured.
pub fn environment(page: &Page<'_>) -> String {
    let facts = facts(page.inputs.manifest, page.inputs.state).into_iter();
    let row =
        |(name, value): (String, String)| format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(&name), escape(&value));
    format!("<dl class=\"facts\">{}</dl>", facts.map(row).collect::<String>())
}

/// The plan's text.
pub fn plan(page: &Page<'_>) -> String {
    if page.inputs.plan.is_empty() {
        return "<p class=\"empty\">The plan is not in the directory.</p>".into();
    }
    code(page.inputs.plan, "the plan")
}

/// `1 run`, `2 runs`
fn count(count: usize, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", show_count(count as u64))
}

/// `Out of memory` causes and their like as a heading.
fn show_reason(reason: Reason) -> String {
    let words = reason.name().split('_').map(|word| match word {
        "oom" => "out of memory".to_owned(),
        "kv" | "api" => word.to_uppercase(),
        word => word.to_owned(),
    });
    capitalise(&words.collect::<Vec<String>>().join(" "))
}

fn capitalise(sentence: &str) -> String {
    let mut rest = sentence.chars();
    rest.next()
        .map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}
