//! A canvas as a PNG file.

use super::canvas::{Canvas, Colour, Element};
use super::font;
use tiny_skia::{Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

/// The file: so many pixels on white, at so many for each unit.
pub fn to_png(canvas: &Canvas, (width, height): (u32, u32), density: f64) -> Result<Vec<u8>, String> {
    let mut pixels = Pixmap::new(width, height).ok_or("a picture has at least one pixel")?;
    pixels.fill(Color::WHITE);
    let zoom = Transform::from_scale(density as f32, density as f32);
    for (element, Colour(red, green, blue)) in &canvas.elements {
        let Some(path) = trace(element) else { continue };
        let mut paint = Paint::default();
        paint.set_color_rgba8(*red, *green, *blue, u8::MAX);
        match element {
            Element::Line { width, dashes, .. } => {
                let stroke = Stroke {
                    width: *width as f32,
                    line_join: LineJoin::Round,
                    dash: dashes.and_then(|(on, off)| StrokeDash::new(vec![on as f32, off as f32], 0.0)),
                    ..Stroke::default()
                };
                pixels.stroke_path(&path, &paint, &stroke, zoom, None);
            }
            Element::Polygon { opacity, .. } => {
                paint.shader.apply_opacity(*opacity as f32);
                pixels.fill_path(&path, &paint, FillRule::Winding, zoom, None);
            }
            Element::Disc { .. } | Element::Text { .. } => {
                pixels.fill_path(&path, &paint, FillRule::Winding, zoom, None);
            }
        }
    }
    encode(&pixels).map_err(|error| error.to_string())
}

/// The line or the outline of an element; none of what has no extent.
fn trace(element: &Element) -> Option<Path> {
    let mut path = PathBuilder::new();
    match element {
        Element::Disc { centre, radius } => path.push_circle(centre.0 as f32, centre.1 as f32, *radius as f32),
        Element::Text {
            begin,
            text,
            size,
            weight,
        } => font::outline(text, *size, *weight, *begin, &mut path),
        Element::Polygon { corners: places, .. } | Element::Line { places, .. } => {
            for (i, (x, y)) in places.iter().enumerate() {
                match i {
                    0 => path.move_to(*x as f32, *y as f32),
                    _ => path.line_to(*x as f32, *y as f32),
                }
            }
        }
    }
    path.finish()
}

/// Nothing shines through a picture, so its file has three bytes a pixel.
fn encode(pixels: &Pixmap) -> Result<Vec<u8>, png::EncodingError> {
    let colours: Vec<u8> = pixels
        .pixels()
        .iter()
        .flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()])
        .collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, pixels.width(), pixels.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&colours)?;
    Ok(file)
}
