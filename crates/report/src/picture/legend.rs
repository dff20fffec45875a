//! The legend: below the panels, in one row if it fits, else in as many columns as its longest entry allows.

use super::canvas::{Align, Canvas, Position, fit};
use super::font::{TextStyle, text_width};
use super::palette::INK;
use super::panel::draw_sample;
use crate::chart::{Chart, Series, Style};
use itertools::Itertools;

const ENTRY: TextStyle = TextStyle::light(24.0, INK);
/// Height of one entry.
const ROW: f64 = 34.0;
/// Width of the drawn sample and the space after it.
const SAMPLE: f64 = 74.0;
/// Space between two columns.
const GAP: f64 = 40.0;

/// The entries of a chart, each with its place relative to the legend's upper left corner.
pub struct Legend {
    entries: Vec<(String, Style, Position)>,
    /// Height of the whole legend.
    pub height: f64,
}

impl Legend {
    /// One entry for each name among the panels' series, arranged within a width.
    pub fn of(chart: &Chart, width: f64) -> Legend {
        let series = chart.panels.iter().flat_map(|panel| &panel.series);
        let named = series.filter(|series| !series.name.is_empty());
        let named: Vec<&Series> = named.unique_by(|series| &series.name).collect();
        let widths: Vec<f64> = named
            .iter()
            .map(|series| SAMPLE + text_width(&series.name, ENTRY) + GAP)
            .collect();
        let widest = widths.iter().copied().fold(0.0, f64::max);
        let is_row = widths.iter().sum::<f64>() <= width + GAP;
        let rows = match is_row {
            true => named.len().min(1),
            false => {
                let columns = ((width + GAP) / widest).floor().max(1.0);
                named.len().div_ceil(columns as usize)
            }
        };
        let column_width = widest.min(width);
        let place = |i: usize| match is_row {
            true => (widths[..i].iter().sum(), ROW / 2.0),
            false => ((i / rows) as f64 * column_width, ((i % rows) as f64 + 0.5) * ROW),
        };
        let entry = |(i, series): (usize, &&Series)| {
            let name = fit(&series.name, ENTRY, column_width - SAMPLE);
            (name, series.style, place(i))
        };
        Legend {
            entries: named.iter().enumerate().map(entry).collect(),
            height: rows as f64 * ROW,
        }
    }

    /// Draws the legend with its upper left corner at this position.
    pub fn draw(&self, canvas: &mut Canvas, (left, top): Position) {
        for (name, style, (right, down)) in &self.entries {
            let (x, y) = (left + right, top + down);
            draw_sample(canvas, *style, (x, y), SAMPLE - 16.0);
            canvas.text((x + SAMPLE, y), name, ENTRY, Align::Left);
        }
    }
}
