//! Writes a canvas as an SVG file. Lengths are in units of the canvas.

use super::canvas::{Canvas, Element, Position};
use super::font::text_width;
use super::palette::Colour;

/// Font families, of which each viewer has at least one. A text has the same width in all of them, because it is stretched.
const FAMILIES: &str = "Ubuntu, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

/// Size of a font in SVG, relative to the size of a text style.
const FONT_SIZE: f64 = 0.84;

/// Returns the text of an SVG file that shows the canvas on white.
pub fn to_svg(canvas: &Canvas) -> String {
    let (width, height) = canvas.size;
    let elements = canvas.elements.iter();
    let elements: String = elements
        .map(|(element, colour)| show(element, *colour) + "\n")
        .collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"{FAMILIES}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{elements}</svg>\n"
    )
}

fn show(element: &Element, Colour(red, green, blue): Colour) -> String {
    let colour = format!("#{red:02x}{green:02x}{blue:02x}");
    match element {
        Element::Polygon { corners, opacity } => {
            let opacity = match *opacity {
                1.0 => String::new(),
                opacity => format!(r#" fill-opacity="{opacity}""#),
            };
            format!(r#"<polygon points="{}" fill="{colour}"{opacity}/>"#, points(corners))
        }
        Element::Disc { centre: (x, y), radius } => {
            format!(r#"<circle cx="{x:.2}" cy="{y:.2}" r="{radius:.2}" fill="{colour}"/>"#)
        }
        Element::Line { places, width, dashes } => {
            let dashes = dashes.map(|(on, off)| format!(r#" stroke-dasharray="{on:.2} {off:.2}""#));
            format!(
                r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{width:.2}" stroke-linejoin="round"{}/>"#,
                points(places),
                dashes.unwrap_or_default()
            )
        }
        Element::Text {
            begin: (x, y),
            text,
            style,
        } => {
            let weight = if style.is_bold { 600 } else { 400 };
            let width = text_width(text, *style);
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            format!(
                r#"<text x="{x:.2}" y="{y:.2}" font-size="{:.2}" font-weight="{weight}" textLength="{width:.2}" lengthAdjust="spacingAndGlyphs" fill="{colour}">{text}</text>"#,
                style.size * FONT_SIZE
            )
        }
    }
}

fn points(places: &[Position]) -> String {
    let places: Vec<String> = places.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
    places.join(" ")
}
