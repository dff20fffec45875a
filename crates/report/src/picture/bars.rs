//! Horizontal bars, each with its interval and its figure at the end. The panel chooses their positions.

use super::canvas::{Align, Canvas, Position};
use super::font::{TextStyle, text_width};
use super::palette::{INK, WHITE, look};
use crate::chart::Style;

/// Text next to a point or a bar.
pub const LABEL: TextStyle = TextStyle::light(21.0, INK);
/// Height of a bar.
const HEIGHT: f64 = 34.0;
/// Thickness of the edge of a hollow bar.
const EDGE: f64 = 3.0;

/// Draws a bar from zero to its end, with its interval. The figure is placed right of each vertical line in `limits`, given by x in
/// ascending order, that it would hide.
pub fn draw(
    canvas: &mut Canvas,
    ([zero, end], interval): ([Position; 2], Option<[Position; 2]>),
    label: &str,
    limits: &[f64],
    number: usize,
) {
    let half = HEIGHT / 2.0;
    let (left, mut right) = (zero.0.min(end.0), zero.0.max(end.0));
    fill(
        canvas,
        (left, zero.1 - half),
        (right.max(left + 2.0), zero.1 + half),
        number,
    );
    if let Some(ends) = interval {
        canvas.interval(ends, 7.0, 3.0, INK);
        right = right.max(ends[1].0);
    }
    let width = 18.0 + text_width(label, LABEL);
    for limit in limits {
        if (right..right + width).contains(limit) {
            right = *limit;
        }
    }
    // The figure is on the right, because the names of the bars are on the left.
    let ground = (right + width, end.1 + half);
    canvas.rectangle((right + 6.0, end.1 - half), ground, WHITE);
    canvas.text((right + 10.0, end.1), label, LABEL, Align::Left);
}

/// Draws the box of a bar. Bars of undecided differences, which have numbers above 2, are hollow.
pub fn fill(canvas: &mut Canvas, (left, top): Position, (right, bottom): Position, number: usize) {
    canvas.rectangle((left, top), (right, bottom), look(Style::Bar(number)).colour);
    if number > 2 && right - left > 2.0 * EDGE {
        canvas.rectangle((left + EDGE, top + EDGE), (right - EDGE, bottom - EDGE), WHITE);
    }
}
