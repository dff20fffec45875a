//! The charts next to the answer of a page, drawn small.

use super::text::{escape, safe};
use crate::chart::{Chart, Panel};
use crate::picture::to_svg;
use minijinja::{Value, context};

/// Most workloads or targets whose charts are next to the answer.
const MOST_FRONT: usize = 3;
/// Most marks in a chart on the page. A larger chart is only in `charts/`, so that the page stays small.
const MOST_MARKS: usize = 600;
/// Width and height of a panel: small, so that its letters are readable next to text and on a phone.
const PANEL: (f64, f64) = (800.0, 560.0);
/// Height of a panel of bars without its bars.
const ROOM_OF_AXES: f64 = 170.0;
/// Height of each bar with its margin.
const ROOM_OF_BAR: f64 = 64.0;

/// The charts of workloads or targets as parts of the page, in the same order. `None` for those beyond the first `MOST_FRONT` and for
/// charts that are too large.
pub fn pictures(charts: Vec<Option<Chart>>) -> Vec<Option<Value>> {
    let shown =
        |(index, chart): (usize, Option<Chart>)| chart.filter(|_| index < MOST_FRONT).and_then(|chart| picture(&chart));
    charts.into_iter().enumerate().map(shown).collect()
}

/// A chart as a part of the page, or `None` if it is too large.
fn picture(chart: &Chart) -> Option<Value> {
    if chart.panels.iter().flat_map(Panel::marks).count() > MOST_MARKS {
        return None;
    }
    let bars = chart.panels.iter().map(Panel::bars).max().unwrap_or(0);
    let is_bars = bars > 0;
    let height = match bars {
        0 => PANEL.1,
        bars => (ROOM_OF_AXES + ROOM_OF_BAR * bars as f64).min(PANEL.1),
    };
    let draw = |title: String, panels: &[Panel], columns: usize| {
        // The page writes the chart's title, note and footer as text, in the size of other text.
        let bare = Chart {
            title: String::new(),
            note: String::new(),
            footer: String::new(),
            simulated: false,
            columns,
            panels: panels.to_vec(),
            ..chart.clone()
        };
        let named = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(&title));
        safe(to_svg(&bare, Some((PANEL.0, height))).replacen("<svg ", &named, 1))
    };
    // Each panel of bars is a picture of its own, so that the page can stack them on a phone.
    let draw_alone = |panel: &Panel| {
        let title = format!("{}: {}", chart.title, panel.title);
        draw(title, std::slice::from_ref(panel), 1)
    };
    let panels = match is_bars {
        true => chart.panels.iter().map(draw_alone).collect(),
        false => vec![draw(chart.title.clone(), &chart.panels, 1)],
    };
    Some(context! {
        title => chart.title.as_str(),
        simulated => chart.simulated,
        note => chart.note.as_str(),
        is_bars,
        panels,
    })
}
