//! Lines, shapes and text as the elements of an SVG file. Lengths are units of the picture.

use plotters::style::RGBColor;
use std::cell::RefCell;
use std::fmt::Write;

/// A position: right of the left edge and below the upper edge.
pub type Position = (f64, f64);

/// Families that viewers have; a text keeps its width in whichever is there.
const FAMILIES: &str = "Ubuntu, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

/// A file being drawn.
#[derive(Default)]
pub struct Vector(RefCell<String>);

impl Vector {
    /// A filled polygon.
    pub fn polygon(&self, corners: &[Position], colour: RGBColor) {
        self.add(format_args!(
            r#"<polygon points="{}" fill="{}"/>"#,
            points(corners),
            hex(colour)
        ));
    }

    /// A polygon that what lies behind shines through.
    pub fn area(&self, corners: &[Position], colour: RGBColor, opacity: f64) {
        self.add(format_args!(
            r#"<polygon points="{}" fill="{}" fill-opacity="{opacity}"/>"#,
            points(corners),
            hex(colour)
        ));
    }

    /// A filled rectangle.
    pub fn rectangle(&self, (left, top): Position, (right, bottom): Position, colour: RGBColor) {
        let (wide, high) = (right - left, bottom - top);
        self.add(format_args!(
            r#"<rect x="{left:.2}" y="{top:.2}" width="{wide:.2}" height="{high:.2}" fill="{}"/>"#,
            hex(colour)
        ));
    }

    /// A filled circle.
    pub fn disc(&self, (x, y): Position, radius: f64, colour: RGBColor) {
        self.add(format_args!(
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="{radius:.2}" fill="{}"/>"#,
            hex(colour)
        ));
    }

    /// A line, whole or in dashes: the length of a dash and of the gap behind it.
    pub fn stroke(&self, places: &[Position], width: f64, colour: RGBColor, dashes: Option<(f64, f64)>) {
        let dashes = dashes.map(|(on, off)| format!(r#" stroke-dasharray="{on:.2} {off:.2}""#));
        self.add(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="{width:.2}" stroke-linejoin="round"{}/>"#,
            points(places),
            hex(colour),
            dashes.unwrap_or_default()
        ));
    }

    /// One line of text from the left end of its baseline on, in a width of its own.
    pub fn text(&self, (x, y): Position, text: &str, (size, is_bold): (f64, bool), width: f64, colour: RGBColor) {
        if text.is_empty() {
            return;
        }
        let weight = if is_bold { 600 } else { 400 };
        self.add(format_args!(
            r#"<text x="{x:.2}" y="{y:.2}" font-size="{:.2}" font-weight="{weight}" textLength="{width:.2}" lengthAdjust="spacingAndGlyphs" fill="{}">{}</text>"#,
            size * 0.84,
            hex(colour),
            escape(text)
        ));
    }

    /// The whole file, on white.
    pub fn into_file(self, (width, height): (f64, f64)) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             font-family=\"{FAMILIES}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.0.into_inner()
        )
    }

    fn add(&self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0.borrow_mut(), "{element}");
    }
}

fn points(places: &[Position]) -> String {
    let places: Vec<String> = places.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
    places.join(" ")
}

fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
