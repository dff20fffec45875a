//! What a page begins with: what to run, what mattered, and beside them the chart that shows why.

use super::Page;
use super::text::escape;
use crate::report::answer::Answer;
use crate::report::chart::{Chart, Panel, Style};
use crate::report::charts::{Subject, effects, families};
use crate::report::effects::Mattered;
use crate::report::picture::{Form, Size, render_at};
use crate::report::recommend::recommend;
use std::fmt::Write;
use vsweep_record::table::Column;

/// Workloads whose answer stands at the top, and whose chart is shown.
pub const MOST_PICTURES: usize = 3;
/// Points of a chart that is shown so; a larger one stands in `charts/` only, so that the page stays small.
const MOST_MARKS: usize = 600;
/// Size of a panel of such a chart: small, so that its letters can be read beside text and on a phone.
const PANEL: (f64, f64) = (800.0, 560.0);
/// Height of a panel of bars beside its bars, and of each of them.
const ROOM_OF_AXES: f64 = 170.0;
const ROOM_OF_BAR: f64 = 64.0;

/// A workload that was measured: what the page says of it.
pub struct Part<'a> {
    /// Its place among the workloads.
    pub place: usize,
    /// Its answer.
    pub answer: &'a Answer,
    /// The parameters that tell its points apart: what all share stands above them.
    pub told: Vec<&'a Column>,
    /// Whether it is a single point.
    pub is_single: bool,
    /// Its charts, empty where there is none: what each server can be, and which setting mattered.
    pub families: &'a str,
    /// The second of them.
    pub effects: &'a str,
}

impl Part<'_> {
    /// What follows of it, `Workload` or `Best points`, with its name as a heading; nothing if it is the only one.
    pub fn heading(&self, what: &str) -> String {
        match self.answer.workload.as_str() {
            "" => String::new(),
            name => format!("<h3 class=\"workload\">{what}: {}</h3>", escape(name)),
        }
    }
}

/// The answers of the first workloads, beside the chart of the first that has one; and whose chart that is.
pub fn front(page: &Page<'_>, parts: &[Part<'_>]) -> (String, Option<usize>) {
    let shown = &parts[..parts.len().min(MOST_PICTURES)];
    let says: String = shown.iter().map(|part| say(page, part)).collect();
    let first = shown.iter().find(|part| !part.families.is_empty());
    let html = match first {
        Some(first) => format!(
            "<div class=\"front\"><div class=\"says\">{says}</div>{}</div>",
            first.families
        ),
        None => says,
    };
    (html, first.map(|first| first.place))
}

/// What to run for a workload, and what mattered.
fn say(page: &Page<'_>, part: &Part<'_>) -> String {
    let mut html = part.heading("Workload");
    if let Some(none) = part.answer.none() {
        let _ = write!(html, "<p class=\"caution\">{}.</p>", escape(&none));
    }
    if part.answer.doubtful {
        html += "<p class=\"caution\">No point is free of doubt; see what is said of each.</p>";
    }
    html += &recommended(page, part.answer, &part.told);
    let found = page.inputs.mattered.of_workload(part.place);
    if let Some(brief) = found.first().and_then(Mattered::brief) {
        let _ = write!(html, "<p>What mattered: {}.</p>", escape(&brief));
    }
    html
}

/// What to run for a workload, a paragraph for each goal.
pub fn recommended(page: &Page<'_>, answer: &Answer, told: &[&Column]) -> String {
    let mut html = String::new();
    for each in recommend(page.inputs.points, answer, told) {
        let (lead, server, why) = (escape(&each.lead()), escape(&each.server), escape(&each.why));
        let _ = write!(html, "<p class=\"lead\">{lead} <strong>{server}</strong>: {why}</p>");
    }
    html
}

/// The charts of each workload, in order, empty where there is none: what each server can be, and which setting mattered.
pub fn pictures(page: &Page<'_>) -> Vec<[String; 2]> {
    let subject = Subject {
        experiment: page.inputs.experiment,
        points: page.inputs.points,
    };
    let draw = |(i, chart): (usize, Option<Chart>)| {
        let shown = chart.filter(|_| i < MOST_PICTURES);
        shown.as_ref().map_or(String::new(), picture)
    };
    let families = families::of_each(&subject, page.inputs.mattered)
        .into_iter()
        .enumerate()
        .map(draw);
    let effects = effects::of_each(&subject, page.inputs.mattered)
        .into_iter()
        .enumerate()
        .map(draw);
    families
        .zip(effects)
        .map(|(families, effects)| [families, effects])
        .collect()
}

/// Which setting of the server mattered for a workload: the chart, and what it says in sentences.
pub fn mattered(found: &[Mattered<'_>], picture: &str) -> String {
    let mut html = String::new();
    for found in found {
        let told = found.sentences().into_iter();
        let told: String = told
            .map(|sentence| format!("<li>{}.</li>", escape(&sentence)))
            .collect();
        let _ = write!(html, "<p>{}:</p><ul>{told}</ul>", escape(&found.subject()));
    }
    match html.is_empty() {
        true => html,
        false => format!(
            "<details class=\"mattered\" open><summary>Which setting mattered</summary>{picture}{html}</details>"
        ),
    }
}

/// A chart as a part of the page; nothing if it cannot be drawn, which the charts' files tell of.
fn picture(chart: &Chart) -> String {
    let series = chart.panels.iter().flat_map(|panel| &panel.series);
    if series.map(|series| series.points.len()).sum::<usize>() > MOST_MARKS {
        return String::new();
    }
    // What a picture says of itself is text here, which is as large as any other.
    let bare = Chart {
        title: String::new(),
        note: String::new(),
        footer: String::new(),
        simulated: false,
        ..chart.clone()
    };
    // Bars need no more room than they take.
    let bars = chart.panels.iter().map(|panel| panel.y.ticks.len());
    let is_bars = chart
        .panels
        .iter()
        .flat_map(|panel| &panel.series)
        .all(|series| matches!(series.style, Style::Bar(_)));
    let high = match bars.max() {
        Some(bars) if is_bars => (ROOM_OF_AXES + ROOM_OF_BAR * bars as f64).min(PANEL.1),
        _ => PANEL.1,
    };
    let size = Size {
        panel: Some((PANEL.0, high)),
        ..Size::default()
    };
    let (title, note) = (escape(&chart.title), escape(&chart.note));
    let draw = |chart: &Chart, title: &str| {
        let svg = String::from_utf8(render_at(chart, &size, Form::Svg).ok()?).ok()?;
        Some(svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1))
    };
    // Bars stand side by side where there is room, and below each other on a phone.
    let drawn: Option<String> = match is_bars {
        false => draw(&bare, &title),
        true => {
            let alone = |panel: &Panel| Chart {
                panels: vec![panel.clone()],
                columns: 1,
                ..bare.clone()
            };
            let panels = chart.panels.iter();
            let drawn = panels.map(|panel| draw(&alone(panel), &format!("{title}: {}", escape(&panel.title))));
            let drawn: Option<String> = drawn.collect();
            drawn.map(|drawn| format!("<div class=\"panels\">{drawn}</div>"))
        }
    };
    let Some(svg) = drawn else {
        return String::new();
    };
    let tag = if chart.simulated {
        " <span class=\"tag\">simulated</span>"
    } else {
        ""
    };
    format!("<figure class=\"picture\"><figcaption>{title}{tag}</figcaption>{svg}<p class=\"note\">{note}</p></figure>")
}

/// Why there is no best point.
pub fn nothing_measured(page: &Page<'_>) -> &'static str {
    let points = &page.inputs.points.points;
    if points.iter().any(|point| !point.cut.is_empty()) {
        return "<p class=\"note\">Every run of the searches was cut short as soon as its verdict was certain, so no point has \
                figures to compare.</p>";
    }
    "<p class=\"empty\">No run was measured yet, so there is no answer. What went wrong stands below.</p>"
}
