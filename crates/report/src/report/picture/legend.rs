//! The legend: below the panels, in one row if it fits, else in as many columns as its longest entry allows.

use super::canvas::{Align, Canvas, Position, fit};
use super::font::{Type, text_width};
use super::palette::INK;
use super::panel::draw_sample;
use crate::report::chart::{Chart, Style};

const ENTRY: Type = Type::light(24.0, INK);
/// Height of one entry.
const ROW: f64 = 34.0;
/// Width of the drawn sample and the space after it.
const SAMPLE: f64 = 74.0;
/// Space between two columns.
const GAP: f64 = 40.0;

/// The entries of a chart, each with its place relative to the legend's upper left corner.
pub struct Legend {
    entries: Vec<(String, Style, Position)>,
    height: f64,
}

impl Legend {
    /// One entry for each name among the panels' series, arranged within a width.
    pub fn of(chart: &Chart, width: f64) -> Legend {
        let mut named: Vec<(String, Style)> = Vec::new();
        for series in chart.panels.iter().flat_map(|panel| &panel.series) {
            if !series.name.is_empty() && !named.iter().any(|(name, _)| *name == series.name) {
                named.push((series.name.clone(), series.style));
            }
        }
        let widths: Vec<f64> = named
            .iter()
            .map(|(name, _)| SAMPLE + text_width(name, ENTRY) + GAP)
            .collect();
        if widths.iter().sum::<f64>() <= width + GAP {
            Legend::in_a_row(named, &widths)
        } else {
            Legend::in_columns(named, widths.into_iter().fold(0.0, f64::max), width)
        }
    }

    fn in_a_row(named: Vec<(String, Style)>, widths: &[f64]) -> Legend {
        let lefts = widths.iter().scan(0.0, |next, width| {
            let left = *next;
            *next += width;
            Some(left)
        });
        let height = if named.is_empty() { 0.0 } else { ROW };
        let entries = named.into_iter().zip(lefts);
        let entries = entries
            .map(|((name, style), left)| (name, style, (left, ROW / 2.0)))
            .collect();
        Legend { entries, height }
    }

    fn in_columns(named: Vec<(String, Style)>, widest: f64, width: f64) -> Legend {
        let columns = ((width + GAP) / widest).floor().max(1.0) as usize;
        let rows = named.len().div_ceil(columns);
        let column_width = widest.min(width);
        let entry = |(i, (name, style)): (usize, (String, Style))| {
            let (column, row) = (i / rows, i % rows);
            let place = (column as f64 * column_width, (row as f64 + 0.5) * ROW);
            (fit(&name, ENTRY, column_width - SAMPLE), style, place)
        };
        Legend {
            height: rows as f64 * ROW,
            entries: named.into_iter().enumerate().map(entry).collect(),
        }
    }

    /// Height of the whole legend.
    pub fn height(&self) -> f64 {
        self.height
    }

    /// Draws it with its upper left corner at the place.
    pub fn draw(&self, canvas: &mut Canvas, (left, top): Position) {
        for (name, style, (right, down)) in &self.entries {
            let (x, y) = (left + right, top + down);
            draw_sample(canvas, *style, (x, y), SAMPLE - 16.0);
            canvas.text((x + SAMPLE, y), name, ENTRY, Align::Left);
        }
    }
}
