//! Draws a panel: a pair of axes, and the series between them.

use super::bars::{self, LABEL};
use super::canvas::{Align, Canvas, Position, SMALLEST, fit};
use super::font::{TextStyle, text_width};
use super::labels::{Label, Rect, Surroundings, anchor, place_labels};
use super::palette::{BACKGROUND, Colour, GRID, INK, Look, MARKER, MUTED, Pattern, RING_RADIUS, WHITE, look};
use super::ticks::Span;
use crate::chart::{Axis, Mark, Panel, Series, Style, Tick};
use itertools::Itertools;
use std::f64::consts::TAU;

const AXIS_TITLE: TextStyle = TextStyle::bold(27.0, INK);
const PANEL_TITLE: TextStyle = TextStyle::bold(30.0, INK);
const TICK: TextStyle = TextStyle::light(24.0, MUTED);
/// Ticks that are wanted along y.
const Y_TICKS: usize = 7;
/// Width that a tick along x needs.
const X_TICK: f64 = 130.0;
/// Least number of ticks that make an axis readable.
const FEWEST_TICKS: usize = 3;
const RIM: TextStyle = TextStyle { colour: WHITE, ..LABEL };
/// Height of one line of a label.
const LABEL_LINE: f64 = 23.0;
/// Width to which a line of a label is cut.
const LABEL_WIDTH: f64 = 330.0;
/// Greatest share of a panel's width for a label of its vertical axis.
const WIDEST_TICK: f64 = 0.55;
/// Radius of the hole in a marker whose figures are in doubt.
const HOLE: f64 = 3.5;
/// Distance within which a point hides another.
const HIDES: f64 = MARKER / 2.0;
/// Growth of a point's marker for each curve that would hide the point.
const RIM_WIDTH: f64 = 4.0;
/// Most curves for which a marker grows.
const MOST_RIMS: usize = 2;
/// Most points of a curve whose overlaps with other curves are made visible.
const CROWDED: usize = 200;
/// Opacity of a band.
const OPACITY: f64 = 0.16;
/// Greatest shift of a curve's error bars from its points, which separates bars at the same x. It is less than the radius of a marker, so
/// that a bar visibly belongs to its marker.
const BAR_SHIFT: f64 = MARKER - 1.0;

/// The area of the data and the two axes that map it.
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    x: Span,
    y: Span,
}

impl Frame {
    fn place(&self, x: f64, y: f64) -> Position {
        (
            self.left + self.x.fraction(x) * (self.right - self.left),
            self.bottom - self.y.fraction(y) * (self.bottom - self.top),
        )
    }

    fn places(&self, marks: &[Mark]) -> Vec<Position> {
        marks.iter().map(|mark| self.place(mark.x, mark.y)).collect()
    }
}

/// Draws a panel between two corners.
pub fn draw(canvas: &mut Canvas, panel: &Panel, (left, top): Position, (right, bottom): Position) {
    let is_bars = panel.bars() > 0;
    let highest = |along: fn(&Mark) -> f64| panel.marks().map(along).fold(0.0, f64::max);
    let ys = panel
        .marks()
        .flat_map(|mark| if is_bars { [mark.y; 2] } else { mark.ends() });
    let (y, mut y_ticks) = measure(&panel.y, ys, highest(|mark| mark.y), Y_TICKS);
    for tick in &mut y_ticks {
        tick.label = fit(&tick.label, TICK, (right - left) * WIDEST_TICK);
    }
    let widths = y_ticks.iter().map(|tick| text_width(&tick.label, TICK));
    let (left_of_frame, right_of_frame) = (left + widths.fold(0.0, f64::max) + 16.0, right - 6.0);
    let x_ticks = (((right_of_frame - left_of_frame) / X_TICK) as usize).max(FEWEST_TICKS);
    let xs = panel.marks().flat_map(|mark| match mark.bar {
        Some((low, high)) if is_bars => [low, high],
        _ => [mark.x; 2],
    });
    // The axis of bars already has space for the figures at their ends.
    let most = if is_bars { 0.0 } else { highest(|mark| mark.x) };
    let (x, x_ticks) = measure(&panel.x, xs, most, x_ticks);
    let title_height = if panel.title.is_empty() { 0.0 } else { 44.0 };
    let above = ((left + right) / 2.0, top + 14.0);
    canvas.text_within(above, &panel.title, PANEL_TITLE, Align::Centre, right - left);
    let top = top + title_height;
    let frame = Frame {
        left: left_of_frame,
        top: top + 46.0,
        right: right_of_frame,
        bottom: bottom - 92.0,
        x,
        y,
    };
    let title_at = (left, top + 12.0);
    canvas.text_within(
        title_at,
        &title(&panel.y, &frame.y),
        AXIS_TITLE,
        Align::Left,
        right - left,
    );
    draw_y_axis(canvas, &frame, &y_ticks);
    draw_x_axis(canvas, &frame, &x_ticks, &title(&panel.x, &frame.x));
    if panel.series.is_empty() {
        let middle = ((frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0);
        canvas.text(middle, "no data", TICK, Align::Centre);
    }
    // Curves often have points at the same x, so their error bars are shifted apart.
    let is_barred = |series: &&Series| {
        matches!(series.style, Style::Curve(_)) && series.points.iter().any(|mark| mark.bar.is_some())
    };
    let gaps = panel.series.iter().filter(is_barred).count().saturating_sub(1);
    let mut barred = 0;
    for (number, series) in panel.series.iter().enumerate() {
        let mut shift = 0.0;
        if is_barred(&series) && gaps > 0 {
            shift = BAR_SHIFT * (2.0 * f64::from(barred) / gaps as f64 - 1.0);
            barred += 1;
        }
        draw_series(canvas, &frame, (&panel.series, number), shift);
    }
    draw_labels(canvas, &frame, &panel.series);
}

/// Title of an axis; a logarithmic one says so.
fn title(axis: &Axis, span: &Span) -> String {
    match span.is_log() && !axis.title.is_empty() {
        true => format!("{} · log", axis.title),
        false => axis.title.clone(),
    }
}

/// Returns the extent of an axis, and its ticks: those of `axis`, or else about `wanted` round numbers. The last of these is not below
/// `most`, except on a symmetric logarithmic axis.
fn measure(axis: &Axis, values: impl Iterator<Item = f64>, most: f64, wanted: usize) -> (Span, Vec<Tick>) {
    let span = Span::of(axis, values);
    if !axis.ticks.is_empty() {
        return (span, axis.ticks.clone());
    }
    let span = span.up_to_a_tick_above(most, wanted);
    let ticks = span.ticks(wanted);
    (span, ticks)
}

fn draw_y_axis(canvas: &mut Canvas, frame: &Frame, ticks: &[Tick]) {
    for tick in ticks {
        let y = frame.bottom - frame.y.fraction(tick.at) * (frame.bottom - frame.top);
        canvas.line(&[(frame.left, y), (frame.right, y)], 1.5, GRID);
        canvas.text((frame.left - 12.0, y), &tick.label, TICK, Align::Right);
    }
}

fn draw_x_axis(canvas: &mut Canvas, frame: &Frame, ticks: &[Tick], title: &str) {
    let width = frame.right - frame.left;
    canvas.line(&[(frame.left, frame.bottom), (frame.right, frame.bottom)], 2.0, MUTED);
    let mut free_from = f64::NEG_INFINITY;
    for tick in ticks {
        let x = frame.left + frame.x.fraction(tick.at) * width;
        canvas.line(&[(x, frame.bottom), (x, frame.bottom + 7.0)], 2.0, MUTED);
        let half = text_width(&tick.label, TICK) / 2.0;
        if x - half >= free_from {
            canvas.text((x, frame.bottom + 27.0), &tick.label, TICK, Align::Centre);
            free_from = x + half + 14.0;
        }
    }
    let below = ((frame.left + frame.right) / 2.0, frame.bottom + 66.0);
    let title = match text_width(title, AXIS_TITLE) * SMALLEST > width {
        true => without_parameter(title),
        false => title.to_owned(),
    };
    canvas.text_within(below, &title, AXIS_TITLE, Align::Centre, width);
}

/// A title without the name of its parameter: `Concurrent requests · log` for `Concurrent requests (max_concurrency) · log`.
fn without_parameter(title: &str) -> String {
    let parts = title.split_once(" (").and_then(|(before, rest)| {
        let (name, after) = rest.split_once(')')?;
        name.contains('_').then(|| before.to_owned() + after)
    });
    parts.unwrap_or_else(|| title.to_owned())
}

/// Draws one of the series, and makes its overlaps with the others visible.
fn draw_series(canvas: &mut Canvas, frame: &Frame, (all, number): (&[Series], usize), bar_shift: f64) {
    let series = &all[number];
    if let Style::Bar(number) = series.style {
        let limits = all.iter().filter(|other| other.style == Style::Limit);
        let limits = limits
            .filter_map(|limit| Some(frame.places(limit.points.get(..1)?)[0].0))
            .collect_vec();
        for mark in &series.points {
            let place = |x: f64| frame.place(x, mark.y);
            let interval = mark.bar.map(|(low, high)| [place(low), place(high)]);
            let ends = [place(0.0), place(mark.x)];
            bars::draw(canvas, (ends, interval), &mark.label.join(" "), &limits, number);
        }
        return;
    }
    if let Style::Band(_) = series.style {
        let above = series.points.iter().map(|mark| frame.place(mark.x, mark.ends()[1]));
        let below = series
            .points
            .iter()
            .rev()
            .map(|mark| frame.place(mark.x, mark.ends()[0]));
        return canvas.polygon(above.chain(below).collect(), OPACITY, look(series.style).colour);
    }
    let look = look(series.style);
    let mut places = frame.places(&series.points);
    // A limit is extended along the whole axis, unless it is upright.
    if let (Style::Limit, [first, .., last]) = (series.style, &mut places[..])
        && first.0 != last.0
    {
        (first.0, last.0) = (frame.left, frame.right);
    }
    let is_curve = |one: &Series| matches!(one.style, Style::Curve(_)) && one.points.len() <= CROWDED;
    let other_curves = |others: &[Series]| {
        let others = others.iter().filter(|other| other.style != series.style);
        let others = others.filter(|other| is_curve(other) && is_curve(series));
        others.map(|other| frame.places(&other.points)).collect_vec()
    };
    draw_line_over(canvas, look, &places, &other_curves(&all[..number]));
    let above = other_curves(&all[number + 1..]);
    for (mark, place) in series.points.iter().zip(places) {
        draw_bar(canvas, frame, mark, bar_shift, look.colour);
        let hiding = above.iter().filter(|other| other.iter().any(|at| is_near(*at, place)));
        let growth = RIM_WIDTH * hiding.take(MOST_RIMS).count() as f64;
        let marker = look.marker.map(|(shape, radius)| (shape, radius + growth));
        draw_marker(canvas, Look { marker, ..look }, place);
        if mark.suspect && !matches!(series.style, Style::Ring | Style::Faint) {
            canvas.disc(place, HOLE, WHITE);
        }
    }
}

/// Returns true if a point at one of these places hides one at the other.
fn is_near(a: Position, b: Position) -> bool {
    (a.0 - b.0).hypot(a.1 - b.1) <= HIDES
}

/// Draws the line of a curve. Where it would hide lines below, it is dashed or dotted, so that they are visible in its gaps.
fn draw_line_over(canvas: &mut Canvas, look: Look, places: &[Position], below: &[Vec<Position>]) {
    let Some((width, own)) = look.line else { return };
    let pattern = |piece: &[Position]| {
        let joins = |other: &[Position]| is_near(other[0], piece[0]) && is_near(other[1], piece[1]);
        let hidden = below.iter().filter(|other| other.windows(2).any(joins));
        match hidden.count() {
            0 => own,
            1 => Pattern::Dashed,
            _ => Pattern::Dotted,
        }
    };
    // Neighbouring pieces of one pattern are drawn as one line, so that its dashes are regular and its joints round.
    let pieces = places.windows(2).collect_vec();
    for alike in pieces.chunk_by(|a, b| pattern(a) == pattern(b)) {
        let ends = alike.iter().map(|piece| piece[1]);
        let line = [alike[0][0]].into_iter().chain(ends).collect_vec();
        canvas.stroke(&line, (width, pattern(alike[0])), look.colour);
    }
}

fn draw_line(canvas: &mut Canvas, look: Look, places: &[Position]) {
    if let Some(stroke) = look.line {
        canvas.stroke(places, stroke, look.colour);
    }
}

fn draw_marker(canvas: &mut Canvas, look: Look, place: Position) {
    if let Some((shape, radius)) = look.marker {
        canvas.marker(shape, place, radius, look.colour);
    }
}

/// Draws the error bar of a point, if it has one.
fn draw_bar(canvas: &mut Canvas, frame: &Frame, mark: &Mark, shift: f64, colour: Colour) {
    let Some((low, high)) = mark.bar else { return };
    let shifted = |y| {
        let (x, y) = frame.place(mark.x, y);
        (x + shift, y)
    };
    let half = if shift == 0.0 { 7.0 } else { 4.0 };
    canvas.interval([shifted(low), shifted(high)], half, 2.5, colour);
}

/// Draws the sample of a style in the legend, from the position to the right.
pub fn draw_sample(canvas: &mut Canvas, style: Style, (x, y): Position, width: f64) {
    if let Style::Bar(number) = style {
        return bars::fill(canvas, (x, y - 9.0), (x + width, y + 9.0), number);
    }
    draw_line(canvas, look(style), &[(x, y), (x + width, y)]);
    draw_marker(canvas, look(style), (x + width / 2.0, y));
}

/// Positions that labels must avoid: those along a ring, or those of a point and along its error bar.
fn occupied(frame: &Frame, style: Style, mark: &Mark) -> Vec<Position> {
    let (x, y) = frame.place(mark.x, mark.y);
    if style == Style::Ring {
        let around = (0..12).map(|hour| (f64::from(hour) * TAU / 12.0).sin_cos());
        return around
            .map(|(sin, cos)| (x + RING_RADIUS * cos, y + RING_RADIUS * sin))
            .collect();
    }
    let Some((low, high)) = mark.bar else {
        return vec![(x, y)];
    };
    let (bottom, top) = (frame.place(mark.x, low).1, frame.place(mark.x, high).1);
    let steps = ((bottom - top) / MARKER).ceil().max(1.0);
    let along = (0..=steps as u32).map(|step| (x, top + f64::from(step) / steps * (bottom - top)));
    along.chain([(x, y)]).collect()
}

fn draw_labels(canvas: &mut Canvas, frame: &Frame, series: &[Series]) {
    let placed = series.iter().filter(|series| !matches!(series.style, Style::Bar(_)));
    let marks = placed
        .flat_map(|series| &series.points)
        .filter(|mark| !mark.label.is_empty());
    let labelled = marks.map(|mark| {
        let lines: Vec<String> = mark.label.iter().map(|line| fit(line, LABEL, LABEL_WIDTH)).collect();
        let label = Label {
            point: frame.place(mark.x, mark.y),
            width: lines.iter().map(|line| text_width(line, LABEL)).fold(0.0, f64::max),
            height: lines.len() as f64 * LABEL_LINE,
        };
        (label, lines)
    });
    let (wanted, texts): (Vec<Label>, Vec<Vec<String>>) = labelled.unzip();
    let lines = |has_style: fn(&Style) -> bool| {
        let own = series.iter().filter(|series| has_style(&series.style));
        own.map(|series| frame.places(&series.points)).collect()
    };
    let surroundings = Surroundings {
        bounds: Rect {
            left: frame.left + 2.0,
            top: frame.top - 14.0,
            right: frame.right + 6.0,
            bottom: frame.bottom - 4.0,
        },
        markers: series
            .iter()
            .filter(|series| !matches!(series.style, Style::Band(_) | Style::Bar(_)))
            .flat_map(|series| series.points.iter().map(|mark| (series.style, mark)))
            .flat_map(|(style, mark)| occupied(frame, style, mark))
            .collect(),
        reach: MARKER + 3.0,
        lines: lines(|style| matches!(style, Style::Frontier | Style::Curve(_) | Style::Line(_) | Style::Limit)),
        faint: lines(|style| matches!(style, Style::Faint)),
    };
    let rooms = place_labels(&wanted, &surroundings);
    for ((Label { point, .. }, lines), room) in wanted.iter().zip(&texts).zip(rooms) {
        let Some(room) = room else { continue };
        let end = anchor(*point, &room);
        let length = (end.0 - point.0).hypot(end.1 - point.1);
        if length > 28.0 {
            // The line begins at the marker's edge, so that it does not cover the marker.
            let part = surroundings.reach / length;
            let start = (point.0 + (end.0 - point.0) * part, point.1 + (end.1 - point.1) * part);
            canvas.line(&[start, end], 1.5, BACKGROUND);
        }
        for (i, text) in lines.iter().enumerate() {
            let y = room.top + (i as f64 + 0.5) * LABEL_LINE;
            // A white rim separates the letters from the grid, and hides less of the grid than a box.
            for (dx, dy) in [(-2.0, 0.0), (2.0, 0.0), (0.0, -2.0), (0.0, 2.0)] {
                canvas.text((room.left + dx, y + dy), text, RIM, Align::Left);
            }
            canvas.text((room.left, y), text, LABEL, Align::Left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_title_has_no_parameter_but_its_unit() {
        let title = without_parameter("Concurrent requests (max_concurrency) · log");
        assert_eq!(title, "Concurrent requests · log");
        assert_eq!(without_parameter("p99 TTFT (ms)"), "p99 TTFT (ms)");
    }
}
