//! Colours and shapes. Curves differ in colour, in the shape of their markers and, from the seventh on, in their line, so
//! that they can be told apart in grey and by people who see few colours (hues after Okabe and Ito, darkened for white).

use super::canvas::Shape;
use plotters::style::RGBColor;

/// Text, axes.
pub const INK: RGBColor = RGBColor(28, 32, 38);
/// Notes, ticks.
pub const MUTED: RGBColor = RGBColor(92, 99, 110);
/// Lines behind the data.
pub const GRID: RGBColor = RGBColor(228, 231, 235);
/// Points behind the data.
pub const BACKGROUND: RGBColor = RGBColor(168, 177, 189);
/// What the picture is about.
pub const ACCENT: RGBColor = RGBColor(0, 98, 165);
/// The ring around a point.
pub const RING: RGBColor = RGBColor(213, 94, 0);
/// The mark of simulated figures.
pub const SIMULATED: RGBColor = RGBColor(190, 75, 0);
/// Paper.
pub const WHITE: RGBColor = RGBColor(255, 255, 255);

const HUES: [RGBColor; 6] = [
    RGBColor(0, 98, 165),
    RGBColor(213, 94, 0),
    RGBColor(0, 140, 102),
    RGBColor(176, 76, 137),
    RGBColor(204, 142, 0),
    RGBColor(64, 160, 214),
];

const SHAPES: [Shape; 6] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::Flipped,
    Shape::Cross,
];

/// The look of one curve.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub colour: RGBColor,
    pub shape: Shape,
    pub dashed: bool,
}

/// The look of the curve with this number; the first twelve differ.
pub fn look(number: usize) -> Look {
    let round = number / HUES.len();
    Look {
        colour: HUES[number % HUES.len()],
        shape: SHAPES[(number + 3 * round) % SHAPES.len()],
        dashed: round % 2 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_curves_look_different() {
        let looks: Vec<String> = (0..12).map(|i| format!("{:?}", look(i))).collect();
        for (i, a) in looks.iter().enumerate() {
            assert!(!looks[..i].contains(a));
        }
    }
}
