//! Text as pixels, from fonts that are part of the program: a chart looks the same on every machine, and needs no font
//! to be installed.

use super::palette::Colour;
use ab_glyph::{Font, FontRef, GlyphId, ScaleFont, point};
use std::sync::LazyLock;

/// Size, weight and colour of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextStyle {
    /// Height of a line, roughly: in units of a canvas, or in pixels for `rasterize`.
    pub size: f64,
    /// True for bold letters.
    pub is_bold: bool,
    /// Colour.
    pub colour: Colour,
}

impl TextStyle {
    /// A style with strokes hardly thicker than the font's own.
    pub const fn light(size: f64, colour: Colour) -> TextStyle {
        let is_bold = false;
        TextStyle { size, is_bold, colour }
    }

    /// A style with bold letters.
    pub const fn bold(size: f64, colour: Colour) -> TextStyle {
        let is_bold = true;
        TextStyle { size, is_bold, colour }
    }

    /// Distance between the two copies of a text: it is drawn twice to make its strokes thicker.
    fn shift(self) -> f64 {
        self.size * if self.is_bold { 0.045 } else { 0.012 }
    }
}

/// The fonts in the order of preference: the second has letters that the first lacks.
static FONTS: LazyLock<[FontRef<'static>; 2]> = LazyLock::new(|| {
    let files = [epaint_default_fonts::UBUNTU_LIGHT, epaint_default_fonts::HACK_REGULAR];
    files.map(|file| FontRef::try_from_slice(file).expect("the built-in fonts are sound"))
});

/// Width of a text in the unit of its size.
pub fn text_width(text: &str, style: TextStyle) -> f64 {
    let mut end = 0.0;
    layout(text, style.size, |_, _, _, advance| end = advance);
    end + style.shift()
}

/// Height of the middle of capital letters above the baseline.
pub fn above_baseline(size: f64) -> f64 {
    size * CAPITAL_HEIGHT / 2.0
}

/// Calls `dot` with every pixel that the text touches and how much of it is covered, from 0 to 1. The text begins at the left end of
/// its baseline.
pub fn rasterize(text: &str, style: TextStyle, (x, y): (f64, f64), mut dot: impl FnMut((i32, i32), f64)) {
    let size = style.size;
    for shift in [0.0, style.shift()] {
        layout(text, size, |font, glyph, left, _| {
            let place = point((x + shift + left) as f32, y as f32);
            let glyph = glyph.with_scale_and_position(font.as_scaled(size as f32).scale(), place);
            if let Some(outline) = font.outline_glyph(glyph) {
                let corner = outline.px_bounds().min;
                outline.draw(|x, y, coverage| {
                    let pixel = (x as i32 + corner.x as i32, y as i32 + corner.y as i32);
                    dot(pixel, f64::from(coverage));
                });
            }
        });
    }
}

/// Height of a capital letter as a part of the font's size.
const CAPITAL_HEIGHT: f64 = 0.6;

/// Calls `put` with each glyph, its font, its left end and the left end of the next.
fn layout(text: &str, size: f64, mut put: impl FnMut(&FontRef<'static>, GlyphId, f64, f64)) {
    let mut left = 0.0;
    let mut before: Option<GlyphId> = None;
    for letter in text.chars() {
        let known = FONTS.iter().find(|font| font.glyph_id(letter).0 != 0);
        let font = known.unwrap_or(&FONTS[0]);
        let scaled = font.as_scaled(size as f32);
        let glyph = font.glyph_id(letter);
        if let Some(before) = before {
            left += f64::from(scaled.kern(before, glyph));
        }
        let next = left + f64::from(scaled.h_advance(glyph));
        put(font, glyph, left, next);
        left = next;
        before = Some(glyph);
    }
}
