//! Lines, shapes and text on a bitmap or in an SVG file, measured in units that are pixels of a picture at its natural size. On a bitmap
//! everything is drawn at twice the size and averaged down, which smooths what the bitmap backend draws with hard edges.

use super::font::{self, Weight};
pub use super::vector::Position;
use super::vector::Vector;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, Polygon, Rectangle};
use plotters::prelude::{BitMapBackend, DrawingBackend};
use plotters::style::{Color, RGBColor, ShapeStyle};

/// What the bitmap backend says when it fails.
pub type DrawError = DrawingAreaErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>;

/// The result of drawing something.
pub type Drawn = Result<(), DrawError>;

/// How much of an area's colour is seen.
const OPACITY: f64 = 0.16;
/// Pixels of the bitmap for one of the finished picture, in each direction.
const OVERSAMPLING: u32 = 2;

/// A picture being drawn.
pub enum Canvas<'a> {
    /// A bitmap.
    Bitmap {
        /// Its pixels for one unit of length.
        zoom: f64,
        area: DrawingArea<BitMapBackend<'a>, Shift>,
    },
    /// An SVG file.
    Vector(&'a Vector),
}

/// How a text lies relative to its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Align {
    /// The place is the left end.
    Left,
    /// The place is the middle.
    Centre,
    /// The place is the right end.
    Right,
}

/// Size, weight and colour of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Type {
    /// Pixels from one line to the next, roughly.
    pub size: f64,
    /// Thickness of the strokes.
    pub weight: Weight,
    /// Colour.
    pub colour: RGBColor,
}

/// The shape of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Circle,
    Square,
    Diamond,
    Triangle,
    Flipped,
    Cross,
}

/// Draws a picture of the given size in pixels on white, at so many pixels for each unit, and returns its RGB bytes.
pub fn paint(
    (width, height): (u32, u32),
    density: f64,
    draw: impl FnOnce(&Canvas<'_>) -> Drawn,
) -> Result<Vec<u8>, String> {
    let (wide, high) = (width * OVERSAMPLING, height * OVERSAMPLING);
    let bytes = wide as usize * high as usize * 3;
    let mut pixels = Vec::new();
    let reserved = pixels.try_reserve_exact(bytes);
    reserved.map_err(|_| format!("the system refuses {} MB of memory", bytes / 1_000_000))?;
    pixels.resize(bytes, u8::MAX);
    let canvas = Canvas::Bitmap {
        zoom: density * f64::from(OVERSAMPLING),
        area: BitMapBackend::with_buffer(&mut pixels, (wide, high)).into_drawing_area(),
    };
    draw(&canvas).map_err(|error| error.to_string())?;
    drop(canvas);
    Ok(average(&pixels, width as usize))
}

/// Draws a picture of the given size in units as an SVG file.
pub fn write(size: (f64, f64), draw: impl FnOnce(&Canvas<'_>) -> Drawn) -> Result<String, String> {
    let vector = Vector::default();
    draw(&Canvas::Vector(&vector)).map_err(|error| error.to_string())?;
    Ok(vector.into_file(size))
}

fn average(pixels: &[u8], width: usize) -> Vec<u8> {
    let n = OVERSAMPLING as usize;
    let row = width * n * 3;
    let mut small = Vec::with_capacity(pixels.len() / (n * n));
    let mut sums = vec![0_u16; width * 3];
    for rows in pixels.chunks_exact(row * n) {
        // Most of a picture is paper.
        if rows.iter().all(|value| *value == u8::MAX) {
            small.resize(small.len() + width * 3, u8::MAX);
            continue;
        }
        sums.fill(0);
        for line in rows.chunks_exact(row) {
            for (sum, block) in sums.chunks_exact_mut(3).zip(line.chunks_exact(3 * n)) {
                for pixel in block.chunks_exact(3) {
                    for (sum, value) in sum.iter_mut().zip(pixel) {
                        *sum += u16::from(*value);
                    }
                }
            }
        }
        small.extend(sums.iter().map(|sum| (sum / (n * n) as u16) as u8));
    }
    small
}

impl Canvas<'_> {
    /// A line through some places, with round joints.
    pub fn line(&self, places: &[Position], width: f64, colour: RGBColor) -> Drawn {
        if let Canvas::Vector(vector) = self {
            vector.stroke(places, width, colour, None);
            return Ok(());
        }
        for ends in places.windows(2) {
            self.segment(ends[0], ends[1], width, colour)?;
        }
        if width >= 2.0 && places.len() > 2 {
            for joint in &places[1..places.len() - 1] {
                self.disc(*joint, width / 2.0, colour)?;
            }
        }
        Ok(())
    }

    /// A line of dashes through some places.
    pub fn dashes(&self, places: &[Position], width: f64, colour: RGBColor) -> Drawn {
        let (on, off) = (width * 3.5, width * 2.2);
        if let Canvas::Vector(vector) = self {
            vector.stroke(places, width, colour, Some((on, off)));
            return Ok(());
        }
        let mut at = 0.0;
        for ends in places.windows(2) {
            let (from, to) = (ends[0], ends[1]);
            let length = (to.0 - from.0).hypot(to.1 - from.1);
            let along = |distance: f64| {
                let part = distance / length;
                (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part)
            };
            let mut done = 0.0;
            while done < length {
                let phase = at % (on + off);
                let rest = if phase < on { on - phase } else { on + off - phase };
                // At least a tenth of a pixel, so that rounding cannot hold the loop.
                let step = rest.max(0.1).min(length - done).max(1e-9);
                if phase < on {
                    self.segment(along(done), along(done + step), width, colour)?;
                }
                done += step;
                at += step;
            }
        }
        Ok(())
    }

    fn segment(&self, from: Position, to: Position, width: f64, colour: RGBColor) -> Drawn {
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        if length <= 0.0 {
            return Ok(());
        }
        let across = (
            (to.1 - from.1) / length * width / 2.0,
            (from.0 - to.0) / length * width / 2.0,
        );
        let corners = [
            (from.0 + across.0, from.1 + across.1),
            (to.0 + across.0, to.1 + across.1),
            (to.0 - across.0, to.1 - across.1),
            (from.0 - across.0, from.1 - across.1),
        ];
        self.polygon(&corners, colour)
    }

    /// A filled polygon.
    pub fn polygon(&self, corners: &[Position], colour: RGBColor) -> Drawn {
        match self {
            Canvas::Vector(vector) => vector.polygon(corners, colour),
            Canvas::Bitmap { zoom, area } => {
                let corners: Vec<(i32, i32)> = corners.iter().map(|place| pixel(*place, *zoom)).collect();
                area.draw(&Polygon::new(corners, colour.filled()))?;
            }
        }
        Ok(())
    }

    /// A polygon that what lies behind shines through.
    pub fn area(&self, corners: &[Position], colour: RGBColor) -> Drawn {
        match self {
            Canvas::Vector(vector) => vector.area(corners, colour, OPACITY),
            Canvas::Bitmap { zoom, area } => {
                let corners: Vec<(i32, i32)> = corners.iter().map(|place| pixel(*place, *zoom)).collect();
                area.draw(&Polygon::new(corners, colour.mix(OPACITY).filled()))?;
            }
        }
        Ok(())
    }

    /// A filled rectangle.
    pub fn rectangle(&self, upper_left: Position, lower_right: Position, colour: RGBColor) -> Drawn {
        match self {
            Canvas::Vector(vector) => vector.rectangle(upper_left, lower_right, colour),
            Canvas::Bitmap { zoom, area } => {
                let (from, to) = (pixel(upper_left, *zoom), pixel(lower_right, *zoom));
                // The backend includes the last row and column.
                area.draw(&Rectangle::new([from, (to.0 - 1, to.1 - 1)], colour.filled()))?;
            }
        }
        Ok(())
    }

    /// A filled circle.
    pub fn disc(&self, centre: Position, radius: f64, colour: RGBColor) -> Drawn {
        match self {
            Canvas::Vector(vector) => vector.disc(centre, radius, colour),
            Canvas::Bitmap { zoom, area } => {
                let radius = (radius * zoom).round() as i32;
                area.draw(&Circle::new(pixel(centre, *zoom), radius, colour.filled()))?;
            }
        }
        Ok(())
    }

    /// A circle's outline.
    pub fn ring(&self, centre: Position, radius: f64, width: f64, colour: RGBColor) -> Drawn {
        let turn = |i: u32| {
            let angle = f64::from(i) / 48.0 * std::f64::consts::TAU;
            (centre.0 + radius * angle.cos(), centre.1 + radius * angle.sin())
        };
        let places: Vec<Position> = (0..=48).map(turn).collect();
        self.line(&places, width, colour)
    }

    /// A marker with a white edge, so that it stands out from lines and other markers.
    pub fn marker(&self, shape: Shape, at: Position, radius: f64, colour: RGBColor) -> Drawn {
        self.solid(shape, at, radius + 2.0, RGBColor(255, 255, 255))?;
        self.solid(shape, at, radius, colour)
    }

    fn solid(&self, shape: Shape, (x, y): Position, radius: f64, colour: RGBColor) -> Drawn {
        let r = radius;
        match shape {
            Shape::Circle => self.disc((x, y), r, colour),
            Shape::Square => self.rectangle((x - r * 0.88, y - r * 0.88), (x + r * 0.88, y + r * 0.88), colour),
            Shape::Diamond => {
                let r = r * 1.25;
                self.polygon(&[(x - r, y), (x, y - r), (x + r, y), (x, y + r)], colour)
            }
            Shape::Triangle => {
                let r = r * 1.2;
                self.polygon(&[(x - r, y + r * 0.8), (x, y - r), (x + r, y + r * 0.8)], colour)
            }
            Shape::Flipped => {
                let r = r * 1.2;
                self.polygon(&[(x - r, y - r * 0.8), (x, y + r), (x + r, y - r * 0.8)], colour)
            }
            Shape::Cross => {
                let thick = (r * 0.75).max(2.0);
                self.segment((x - r, y - r), (x + r, y + r), thick, colour)?;
                self.segment((x - r, y + r), (x + r, y - r), thick, colour)
            }
        }
    }

    /// One line of text whose capital letters are centred on the place's height.
    pub fn text(&self, (x, y): Position, text: &str, kind: Type, align: Align) -> Drawn {
        let width = text_width(text, kind);
        let left = match align {
            Align::Left => x,
            Align::Centre => x - width / 2.0,
            Align::Right => x - width,
        };
        let (zoom, area) = match self {
            Canvas::Vector(vector) => {
                let baseline = (left, y + font::above_baseline(kind.size));
                let look = (kind.size, kind.weight == Weight::Bold);
                vector.text(baseline, text, look, width, kind.colour);
                return Ok(());
            }
            Canvas::Bitmap { zoom, area } => (*zoom, area),
        };
        let style = ShapeStyle::from(&kind.colour);
        let mut drawn = Ok(());
        font::rasterize(
            text,
            kind.size * zoom,
            kind.weight,
            (left * zoom, y * zoom),
            |x, y, coverage| {
                if drawn.is_ok() {
                    drawn = area.draw_pixel((x, y), &style.color.mix(coverage));
                }
            },
        );
        drawn
    }

    /// One line of text in a width: in smaller letters where it is longer, and shortened where that is not enough.
    pub fn text_within(&self, at: Position, text: &str, kind: Type, align: Align, width: f64) -> Drawn {
        let shrunk = (width / text_width(text, kind)).clamp(SMALLEST, 1.0);
        let kind = Type {
            size: kind.size * shrunk,
            ..kind
        };
        self.text(at, &fit(text, kind, width), kind, align)
    }
}

fn pixel((x, y): Position, zoom: f64) -> (i32, i32) {
    ((x * zoom).round() as i32, (y * zoom).round() as i32)
}

/// How much smaller letters may become so that a text fits.
const SMALLEST: f64 = 0.7;

/// Width of a text in pixels.
pub fn text_width(text: &str, kind: Type) -> f64 {
    font::width(text, kind.size, kind.weight)
}

/// The text, or as much of its beginning and end as fits the width, with an ellipsis between.
pub fn fit(text: &str, kind: Type, width: f64) -> String {
    if text_width(text, kind) <= width {
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
    while kept + 1 < letters.len() && text_width(&shortened(kept + 1), kind) <= width {
        kept += 1;
    }
    shortened(kept)
}
