//! Bars that lie along x, each with its interval and its figure at the end. Where they lie is the panel's business.

use super::canvas::{Align, Canvas, Colour, Position, Type, text_width};
use super::font::Weight;
use super::palette::{ACCENT, BACKGROUND, INK, WHITE};

/// Words beside a point or a bar.
pub const LABEL: Type = Type {
    size: 21.0,
    weight: Weight::Light,
    colour: INK,
};
/// Height of a bar.
const HEIGHT: f64 = 34.0;

/// The colour of bars of this strength: 0 stands out.
pub fn colour(number: usize) -> Colour {
    if number == 0 { ACCENT } else { BACKGROUND }
}

/// Draws a bar from zero to its end, with its interval. What does not stand out is hollow from the second strength on.
pub fn draw(
    canvas: &mut Canvas,
    [zero, end]: [Position; 2],
    interval: Option<[Position; 2]>,
    label: &str,
    number: usize,
) {
    let half = HEIGHT / 2.0;
    let box_of = |inset: f64| {
        let (left, right) = (zero.0.min(end.0), zero.0.max(end.0).max(zero.0.min(end.0) + 2.0));
        (
            (left + inset, zero.1 - half + inset),
            (right - inset, zero.1 + half - inset),
        )
    };
    let (from, to) = box_of(0.0);
    canvas.rectangle(from, to, colour(number));
    let (from, to) = box_of(3.0);
    if number > 1 && to.0 > from.0 {
        canvas.rectangle(from, to, WHITE);
    }
    let mut right = zero.0.max(end.0);
    if let Some([low, high]) = interval {
        canvas.line(&[low, high], 3.0, INK);
        for (x, y) in [low, high] {
            canvas.line(&[(x, y - 7.0), (x, y + 7.0)], 3.0, INK);
        }
        right = right.max(high.0);
    }
    // At the end of its own bar, never beside that of another.
    let ground = (right + 18.0 + text_width(label, LABEL), end.1 + half);
    canvas.rectangle((right + 6.0, end.1 - half), ground, WHITE);
    canvas.text((right + 10.0, end.1), label, LABEL, Align::Left);
}
