//! Draws a [`Chart`] as a PNG or an SVG file: title, panels, legend, footer, each in a place of its own, so that nothing ever lies over
//! the data. Knows nothing of runs or metrics.

mod band;
mod bars;
mod bitmap;
mod canvas;
mod font;
mod labels;
mod legend;
mod palette;
mod panel;
mod ticks;
mod vector;

use super::chart::{Chart, Panel};
use canvas::{Align, Canvas, fit};
use font::{TextStyle, text_width};
use palette::{INK, MUTED, SIMULATED, WHITE};

/// Natural width of a picture in units.
const WIDTH: f64 = 1600.0;
/// Least height in units of a picture without bars, unless the size of its panels is given.
const LEAST_HEIGHT: f64 = 1000.0;
/// Space between two rows of panels.
const ROW_GAP: f64 = 30.0;
/// White space around the picture.
const MARGIN: f64 = 52.0;
/// Space between two panels.
const GUTTER: f64 = 56.0;
/// Height of a panel in a picture with more than two rows of them.
const SMALL_PANEL: f64 = 430.0;
/// Least height of a panel without bars in one or two rows.
const LEAST_PANEL: f64 = 620.0;
/// Height of a panel of bars without its bars.
const AROUND_BARS: f64 = 200.0;
/// Height of each bar with its margin.
const BAR_ROOM: f64 = 90.0;

const TITLE: TextStyle = TextStyle::bold(40.0, INK);
const NOTE: TextStyle = TextStyle::light(24.0, MUTED);
const FOOTER: TextStyle = TextStyle::light(21.0, MUTED);
const BADGE: TextStyle = TextStyle::bold(26.0, WHITE);

/// The format of a picture's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Pixels, for anything that shows pictures.
    Png,
    /// Shapes, sharp at any size.
    Svg,
}

impl Form {
    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Form::Png => "png",
            Form::Svg => "svg",
        }
    }
}

/// The chart as the bytes of a file. Equal charts give equal bytes.
pub fn render(chart: &Chart, form: Form) -> Result<Vec<u8>, String> {
    render_at(chart, &Size::default(), form)
}

/// The chart as the bytes of a file of the asked size.
pub fn render_at(chart: &Chart, wanted: &Size, form: Form) -> Result<Vec<u8>, String> {
    match form {
        Form::Png => bitmap::to_png(&draw(chart, wanted.panel), wanted.density),
        Form::Svg => Ok(to_svg(chart, wanted.panel).into_bytes()),
    }
}

/// The chart as SVG, with panels of this width and height in units; without them, panels share the natural width.
pub fn to_svg(chart: &Chart, panel: Option<(f64, f64)>) -> String {
    vector::to_svg(&draw(chart, panel))
}

/// Size of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// Width and height of each panel with its axes, in units; without it, panels share the natural width.
    pub panel: Option<(f64, f64)>,
    /// Pixels for each unit.
    pub density: f64,
}

impl Default for Size {
    fn default() -> Self {
        Size {
            panel: None,
            density: 1.0,
        }
    }
}

fn draw(chart: &Chart, panel: Option<(f64, f64)>) -> Canvas {
    let columns = chart.columns.max(1) as f64;
    let rows = (chart.panels.len() as f64 / columns).ceil().max(1.0);
    let width = panel.map_or(WIDTH, |(width, _)| columns * (width + GUTTER) - GUTTER + 2.0 * MARGIN);
    let right = width - MARGIN;
    let legend = legend::Legend::of(chart, right - MARGIN);
    let notes = wrap(&chart.note, NOTE, right - MARGIN);
    let badge = if chart.simulated { badge_width() + 20.0 } else { 0.0 };
    let titles = title_lines(&chart.title, right - MARGIN - badge);
    // A chart within a text has no title, because the text has it.
    let head = match titles.len() {
        0 => 16.0,
        lines => 118.0 + (lines - 1) as f64 * 40.0,
    };
    let foot = if chart.footer.is_empty() {
        0.0
    } else {
        FOOTER.size + 30.0
    };
    let panels_top = head + notes.len() as f64 * 31.0;
    let below = legend.height + 28.0 + foot;
    let high = |panel: f64| (panels_top + rows * (panel + ROW_GAP) - ROW_GAP + below).ceil();
    let height = match panel {
        Some((_, panel)) => high(panel),
        None if rows > 2.0 => high(SMALL_PANEL),
        None => {
            let usual = high(LEAST_PANEL).max(LEAST_HEIGHT);
            // A picture of few bars is lower, because they would float in an empty frame.
            let bars = chart.panels.iter().map(Panel::bars).max();
            bars.filter(|bars| *bars > 0)
                .map_or(usual, |bars| high(AROUND_BARS + BAR_ROOM * bars as f64).min(usual))
        }
    };
    let panels_bottom = height - below;
    let mut canvas = Canvas {
        size: (width, height),
        ..Canvas::default()
    };
    if chart.simulated {
        draw_badge(&mut canvas, right);
    }
    let room = right - MARGIN - badge;
    for (i, line) in titles.iter().enumerate() {
        canvas.text_within((MARGIN, 62.0 + i as f64 * 40.0), line, TITLE, Align::Left, room);
    }
    for (i, line) in notes.iter().enumerate() {
        canvas.text((MARGIN, head - 10.0 + i as f64 * 31.0), line, NOTE, Align::Left);
    }
    let wide = (right - MARGIN - GUTTER * (columns - 1.0)) / columns;
    let high = (panels_bottom - panels_top - ROW_GAP * (rows - 1.0)) / rows;
    for (i, data) in chart.panels.iter().enumerate() {
        let (row, column) = (i / chart.columns.max(1), i % chart.columns.max(1));
        let left = MARGIN + column as f64 * (wide + GUTTER);
        let top = panels_top + row as f64 * (high + ROW_GAP);
        panel::draw(&mut canvas, data, (left, top), (left + wide, top + high));
    }
    legend.draw(&mut canvas, (MARGIN, panels_bottom + 14.0));
    let below = (MARGIN, height - 34.0);
    canvas.text_within(below, &chart.footer, FOOTER, Align::Left, right - MARGIN);
    canvas
}

/// The lines of a title: one in smaller letters where it nearly fits, else as many as it takes.
fn title_lines(title: &str, room: f64) -> Vec<String> {
    match text_width(title, TITLE) * canvas::SMALLEST <= room {
        true if title.is_empty() => Vec::new(),
        true => vec![title.to_owned()],
        false => wrap(title, TITLE, room),
    }
}

fn badge_width() -> f64 {
    text_width("SIMULATED", BADGE) + 36.0
}

/// Draws the mark of simulated figures in the upper right corner.
fn draw_badge(canvas: &mut Canvas, right: f64) {
    let width = badge_width();
    canvas.rectangle((right - width, 40.0), (right, 84.0), SIMULATED);
    canvas.text((right - width / 2.0, 62.0), "SIMULATED", BADGE, Align::Centre);
}

/// Breaks a text into lines of at most this width.
fn wrap(text: &str, style: TextStyle, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), style) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(fit(word, style, width)),
        }
    }
    lines
}
