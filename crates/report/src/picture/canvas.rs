//! The elements of a picture: lines, shapes and text, measured in units that are pixels of a picture at its natural size. A canvas collects
//! the elements; [`super::bitmap`] and [`super::vector`] make files from a canvas.

use super::font::{TextStyle, above_baseline, text_width};
use super::palette::{Colour, Pattern, Shape, WHITE};

/// A position: the distances from the left edge and from the upper edge.
pub type Position = (f64, f64);

/// A shape or text in one colour.
pub enum Element {
    /// A filled polygon; an opacity below 1 lets what lies behind shine through.
    Polygon { corners: Vec<Position>, opacity: f64 },
    /// A filled circle.
    Disc { centre: Position, radius: f64 },
    /// A line through some places, with round joints. `dashes` has the lengths of a dash and of a gap; `None` draws a solid line.
    Line {
        places: Vec<Position>,
        width: f64,
        dashes: Option<(f64, f64)>,
    },
    /// One line of text. `begin` is the left end of its baseline.
    Text {
        begin: Position,
        text: String,
        style: TextStyle,
    },
}

/// A picture being drawn.
#[derive(Default)]
pub struct Canvas {
    /// Its width and height.
    pub size: Position,
    /// In drawing order: later elements cover earlier ones.
    pub elements: Vec<(Element, Colour)>,
}

/// Alignment of a text at a position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Align {
    /// The position is the left end.
    Left,
    /// The position is the middle.
    Centre,
    /// The position is the right end.
    Right,
}

impl Canvas {
    /// Adds a line through some places.
    pub fn line(&mut self, places: &[Position], width: f64, colour: Colour) {
        self.stroke(places, (width, Pattern::Solid), colour);
    }

    /// Adds a line of this width and pattern through some places.
    pub fn stroke(&mut self, places: &[Position], (width, pattern): (f64, Pattern), colour: Colour) {
        let dashes = match pattern {
            Pattern::Solid => None,
            Pattern::Dashed => Some((width * 3.5, width * 2.2)),
            Pattern::Dotted => Some((width * 1.2, width * 1.6)),
        };
        let places = places.to_vec();
        self.elements.push((Element::Line { places, width, dashes }, colour));
    }

    /// Adds a filled polygon.
    pub fn polygon(&mut self, corners: Vec<Position>, opacity: f64, colour: Colour) {
        self.elements.push((Element::Polygon { corners, opacity }, colour));
    }

    /// Adds a filled rectangle between two corners.
    pub fn rectangle(&mut self, (left, top): Position, (right, bottom): Position, colour: Colour) {
        let corners = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
        self.polygon(corners, 1.0, colour);
    }

    /// Adds a filled circle.
    pub fn disc(&mut self, centre: Position, radius: f64, colour: Colour) {
        self.elements.push((Element::Disc { centre, radius }, colour));
    }

    /// Adds the line of an interval between two places, with a stroke across each end that reaches `half` to both sides.
    pub fn interval(&mut self, ends: [Position; 2], half: f64, width: f64, colour: Colour) {
        self.line(&ends, width, colour);
        let is_level = ends[0].1 == ends[1].1;
        let (dx, dy) = if is_level { (0.0, half) } else { (half, 0.0) };
        for (x, y) in ends {
            self.line(&[(x - dx, y - dy), (x + dx, y + dy)], width, colour);
        }
    }

    /// Adds a marker with a white edge, which separates it from lines and other markers. A ring surrounds another marker and has no edge.
    pub fn marker(&mut self, shape: Shape, at: Position, radius: f64, colour: Colour) {
        if shape != Shape::Ring {
            self.shape(shape, at, radius + 2.0, WHITE);
        }
        self.shape(shape, at, radius, colour);
    }

    fn shape(&mut self, shape: Shape, (x, y): Position, r: f64, colour: Colour) {
        match shape {
            Shape::Circle => self.disc((x, y), r, colour),
            Shape::Cross => {
                let thick = (r * 0.75).max(2.0);
                self.line(&[(x - r, y - r), (x + r, y + r)], thick, colour);
                self.line(&[(x - r, y + r), (x + r, y - r)], thick, colour);
            }
            Shape::Ring => {
                let turn = |i: u32| {
                    let angle = f64::from(i) / 48.0 * std::f64::consts::TAU;
                    (x + r * angle.cos(), y + r * angle.sin())
                };
                let places: Vec<Position> = (0..=48).map(turn).collect();
                self.line(&places, 3.5, colour);
            }
            _ => {
                let corners = shape.corners().iter().map(|(dx, dy)| (x + r * dx, y + r * dy));
                self.polygon(corners.collect(), 1.0, colour);
            }
        }
    }

    /// Adds one line of text whose capital letters are centred vertically on the position.
    pub fn text(&mut self, (x, y): Position, text: &str, style: TextStyle, align: Align) {
        if text.is_empty() {
            return;
        }
        let left = match align {
            Align::Left => x,
            Align::Centre => x - text_width(text, style) / 2.0,
            Align::Right => x - text_width(text, style),
        };
        let text = Element::Text {
            begin: (left, y + above_baseline(style.size)),
            text: text.to_owned(),
            style,
        };
        self.elements.push((text, style.colour));
    }

    /// Adds one line of text that fits a width: in smaller letters if it is longer, and shortened if that is not enough.
    pub fn text_within(&mut self, at: Position, text: &str, style: TextStyle, align: Align, width: f64) {
        let shrunk = (width / text_width(text, style)).clamp(SMALLEST, 1.0);
        let style = TextStyle {
            size: style.size * shrunk,
            ..style
        };
        self.text(at, &fit(text, style, width), style, align);
    }
}

/// Smallest factor by which letters may shrink so that a text fits.
pub const SMALLEST: f64 = 0.7;

/// The text, or as much of its beginning and end as fits the width, with an ellipsis between.
pub fn fit(text: &str, style: TextStyle, width: f64) -> String {
    if text_width(text, style) <= width {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let shortened = |kept: usize| {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let head: String = letters[..head].iter().collect();
        let tail: String = letters[letters.len() - tail..].iter().collect();
        format!("{head}…{tail}")
    };
    let mut kept = 0;
    while kept + 1 < letters.len() && text_width(&shortened(kept + 1), style) <= width {
        kept += 1;
    }
    shortened(kept)
}
