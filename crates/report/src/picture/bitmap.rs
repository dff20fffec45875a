//! A canvas as a PNG file. Everything is drawn at twice the size and averaged down, because the `plotters` crate draws hard edges.

use super::band::Band;
use super::canvas::{Canvas, Element, Position};
use super::font::{self, TextStyle};
use super::palette::Colour;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon};
use plotters::prelude::{BitMapBackend, DrawingBackend};
use plotters::style::{Color, RGBColor};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Pixels that are drawn for each pixel of the file, in each direction.
const OVERSAMPLING: usize = 2;

type Area<'a> = DrawingArea<Band<'a>, Shift>;
type DrawResult = Result<(), DrawingAreaErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>>;

/// Rows, at twice the size, that are drawn and averaged at a time. A whole picture at this size would take four times the memory of the
/// file's pixels.
const ROWS: usize = 256 * OVERSAMPLING;

/// The most pixels of a picture; each takes 3 bytes while it is drawn, apart from the rows at twice the size.
const MOST_PIXELS: f64 = 40e6;

/// Bytes above which a picture is large; most pictures are smaller. Large ones are drawn one at a time, whatever the number of threads.
const LARGE: usize = 8_000_000;
/// Held while a large picture is drawn.
static ALONE: Mutex<()> = Mutex::new(());

/// Draws a canvas on white as a PNG file, with `density` pixels for each unit.
pub fn to_png(canvas: &Canvas, density: f64) -> Result<Vec<u8>, String> {
    let pixels = |length: f64| (length * density).ceil();
    let (width, height) = (pixels(canvas.size.0), pixels(canvas.size.1));
    if width * height > MOST_PIXELS {
        return Err(format!(
            "a picture of {width} x {height} pixels is too large; draw smaller panels, fewer of them, or fewer pixels per inch"
        ));
    }
    let (width, height) = (width as usize, height as usize);
    let (wide, high) = (width * OVERSAMPLING, height * OVERSAMPLING);
    let bytes = width * height * 3;
    let _alone = (bytes > LARGE).then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    let mut pixels = Vec::new();
    let reserved = pixels.try_reserve_exact(bytes);
    reserved.map_err(|_| format!("the system refuses {} MB of memory", bytes / 1_000_000))?;
    let mut drawn = vec![u8::MAX; wide * high.min(ROWS) * 3];
    for top in (0..high).step_by(ROWS) {
        let rows = ROWS.min(high - top);
        let drawn = &mut drawn[..wide * rows * 3];
        drawn.fill(u8::MAX);
        let band = Band {
            pixels: BitMapBackend::with_buffer(drawn, (wide as u32, rows as u32)),
            top: top as i32,
            size: (wide as u32, high as u32),
        };
        let area = band.into_drawing_area();
        let rows = top as i32..(top + rows) as i32;
        for (element, colour) in &canvas.elements {
            draw(&area, &rows, element, *colour, density * OVERSAMPLING as f64).map_err(|error| error.to_string())?;
        }
        drop(area);
        average(drawn, width, &mut pixels);
    }
    drop(drawn);
    encode((width as u32, height as u32), &pixels).map_err(|error| error.to_string())
}

/// Draws the part of an element that lies in these rows.
fn draw(
    area: &Area<'_>,
    rows: &Range<i32>,
    element: &Element,
    Colour(red, green, blue): Colour,
    zoom: f64,
) -> DrawResult {
    let colour = RGBColor(red, green, blue);
    let length = |length: f64| (length * zoom).round() as u32;
    let pixel = |(x, y): &Position| ((x * zoom).round() as i32, (y * zoom).round() as i32);
    let is_seen = |places: &[(i32, i32)], beyond: u32| {
        let heights = || places.iter().map(|(_, y)| *y);
        let beyond = beyond as i32 + 2;
        heights().max().is_some_and(|low| low + beyond >= rows.start)
            && heights().min().is_some_and(|high| high - beyond < rows.end)
    };
    match element {
        Element::Polygon { corners, opacity } => {
            let corners: Vec<_> = corners.iter().map(pixel).collect();
            if !is_seen(&corners, 0) {
                return Ok(());
            }
            area.draw(&Polygon::new(corners, colour.mix(*opacity).filled()))
        }
        Element::Disc { centre, radius } if !is_seen(&[pixel(centre)], length(*radius)) => Ok(()),
        Element::Disc { centre, radius } => area.draw(&Circle::new(pixel(centre), length(*radius), colour.filled())),
        Element::Line { places, width, dashes } => {
            let style = colour.stroke_width(length(*width).max(1));
            let places: Vec<_> = places.iter().map(pixel).collect();
            if let Some((on, off)) = dashes {
                return area.draw(&DashedPathElement::new(places, length(*on), length(*off), style));
            }
            let thick = length(*width);
            for ends in places.windows(2).filter(|ends| is_seen(ends, thick)) {
                area.draw(&PathElement::new(ends, style))?;
            }
            let joints = places.iter().skip(1).rev().skip(1);
            joints
                .filter(|joint| *width >= 2.0 && is_seen(&[**joint], thick))
                .try_for_each(|joint| area.draw(&Circle::new(*joint, length(width / 2.0), colour.filled())))
        }
        Element::Text { begin, style, .. } if !is_seen(&[pixel(begin)], length(2.0 * style.size)) => Ok(()),
        Element::Text { begin, text, style } => {
            let mut drawn = Ok(());
            let (begin, size) = ((begin.0 * zoom, begin.1 * zoom), style.size * zoom);
            font::rasterize(text, TextStyle { size, ..*style }, begin, |pixel, coverage| {
                if drawn.is_ok() && coverage > 0.0 {
                    drawn = area.draw_pixel(pixel, &colour.mix(coverage));
                }
            });
            drawn
        }
    }
}

/// Averages some rows down to the size of the picture, and appends them.
fn average(pixels: &[u8], width: usize, small: &mut Vec<u8>) {
    let (n, row) = (OVERSAMPLING, width * OVERSAMPLING * 3);
    for rows in pixels.chunks_exact(row * n) {
        let before = small.len();
        small.resize(before + width * 3, u8::MAX);
        let (upper, lower) = rows.split_at(row);
        let pieces = upper.chunks(PIECE * 3 * n).zip(lower.chunks(PIECE * 3 * n));
        for ((upper, lower), small) in pieces.zip(small[before..].chunks_mut(PIECE * 3)) {
            // White pieces, which are most of a picture, are skipped: the new row is white already.
            if is_white(upper) && is_white(lower) {
                continue;
            }
            let (upper, _) = upper.as_chunks::<{ 3 * OVERSAMPLING }>();
            let (lower, _) = lower.as_chunks::<{ 3 * OVERSAMPLING }>();
            let (pixels, _) = small.as_chunks_mut::<3>();
            for (pixel, (upper, lower)) in pixels.iter_mut().zip(upper.iter().zip(lower)) {
                let mean = |colour: usize| {
                    let [one, other] = [upper, lower].map(|row| u16::from(row[colour]) + u16::from(row[colour + 3]));
                    ((one + other) / (OVERSAMPLING * OVERSAMPLING) as u16) as u8
                };
                *pixel = [mean(0), mean(1), mean(2)];
            }
        }
    }
}

/// Number of pixels of the picture that are tested for white at once.
const PIECE: usize = 16;

/// Returns true if all bytes are those of white pixels; eight are compared at once.
fn is_white(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| u64::from_ne_bytes(*word) == u64::MAX) && rest.iter().all(|byte| *byte == u8::MAX)
}

fn encode((width, height): (u32, u32), pixels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(file)
}
