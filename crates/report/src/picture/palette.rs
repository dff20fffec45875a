//! Colours and shapes. Curves differ in colour and in the shape of their markers; the seventh to twelfth also have dashed lines. So they
//! can be distinguished in grey and by colour-blind people. The hues maximise the distance between the nearest two as seen by a trichromat,
//! a protanope and a deuteranope. The page uses the same hues.

use crate::chart::Style;

/// Red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// The shape of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Circle,
    Square,
    Diamond,
    Triangle,
    TriangleDown,
    Cross,
    Ring,
}

impl Shape {
    /// The corners of the shape with a radius of 1; empty for a shape without corners.
    pub fn corners(self) -> &'static [(f64, f64)] {
        match self {
            Shape::Square => &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
            Shape::Diamond => &[(-1.25, 0.0), (0.0, -1.25), (1.25, 0.0), (0.0, 1.25)],
            Shape::Triangle => &[(-1.2, 0.96), (0.0, -1.2), (1.2, 0.96)],
            Shape::TriangleDown => &[(-1.2, -0.96), (0.0, 1.2), (1.2, -0.96)],
            Shape::Circle | Shape::Cross | Shape::Ring => &[],
        }
    }
}

/// Colour of titles and labels.
pub const INK: Colour = Colour(28, 32, 38);
/// Colour of notes, ticks and the horizontal axis.
pub const MUTED: Colour = Colour(92, 99, 110);
/// Colour of grid lines.
pub const GRID: Colour = Colour(228, 231, 235);
/// Colour of points and lines in the background.
pub const BACKGROUND: Colour = Colour(168, 177, 189);
/// Colour of the frontier, and of changes for the better.
pub const ACCENT: Colour = Colour(0, 98, 165);
/// Colour of rings around points. No curve has it.
pub const RING: Colour = INK;
/// Colour of the mark on simulated figures, and of changes for the worse.
pub const SIMULATED: Colour = Colour(190, 75, 0);
/// White, the colour behind everything.
pub const WHITE: Colour = Colour(255, 255, 255);

const HUES: [Colour; 6] = [
    Colour(0x0a, 0x55, 0xbb),
    Colour(0xee, 0x3f, 0x14),
    Colour(0x00, 0x80, 0x5d),
    Colour(0xb0, 0x4c, 0x89),
    Colour(0x80, 0x92, 0x28),
    Colour(0x2f, 0x8f, 0xc4),
];

const SHAPES: [Shape; 6] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::TriangleDown,
    Shape::Cross,
];

/// Patterns of lines. Curves with markers use the first two only.
const PATTERNS: [Pattern; 3] = [Pattern::Solid, Pattern::Dashed, Pattern::Dotted];

/// Radius of a marker, in units of the canvas.
pub const MARKER: f64 = 7.5;
/// Radius of a ring around a marker, in the same units.
pub const RING_RADIUS: f64 = MARKER + 8.0;

/// The pattern of a line. It distinguishes lines for readers who do not see their colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Solid,
    Dashed,
    Dotted,
}

/// Appearance of a series.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub colour: Colour,
    /// Width and pattern of the line between its points.
    pub line: Option<(f64, Pattern)>,
    /// The shape of its points, and their radius.
    pub marker: Option<(Shape, f64)>,
}

/// The look of a style. The first twelve curves have different looks.
pub fn look(style: Style) -> Look {
    let (colour, line, marker) = match style {
        Style::Curve(number) | Style::Points(number) | Style::Line(number) | Style::Band(number) => {
            let round = number / HUES.len();
            let shape = SHAPES[(number + 3 * round) % SHAPES.len()];
            let pattern = match style {
                Style::Line(_) => PATTERNS[number % PATTERNS.len()],
                _ => PATTERNS[round % 2],
            };
            let line = matches!(style, Style::Curve(_) | Style::Line(_)).then_some((4.0, pattern));
            let marker = matches!(style, Style::Curve(_) | Style::Points(_)).then_some((shape, MARKER));
            (HUES[number % HUES.len()], line, marker)
        }
        Style::Background => (BACKGROUND, None, Some((Shape::Circle, MARKER - 1.5))),
        Style::Faint => (BACKGROUND, Some((2.0, Pattern::Solid)), None),
        Style::Frontier => (ACCENT, Some((4.0, Pattern::Solid)), Some((Shape::Circle, MARKER + 1.5))),
        Style::Limit => (RING, Some((3.0, Pattern::Dashed)), None),
        Style::Ring => (RING, None, Some((Shape::Ring, RING_RADIUS))),
        // The first two bars mean a change for the better and for the worse.
        Style::Bar(0) => (ACCENT, None, None),
        Style::Bar(1) => (SIMULATED, None, None),
        Style::Bar(_) => (BACKGROUND, None, None),
    };
    Look { colour, line, marker }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::text::STYLE;
    use itertools::Itertools;

    /// Red, green and blue in proportion to light, from 0 to 1.
    type Light = [f64; 3];

    fn light(colour: &str) -> Light {
        let part = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("a colour")) / 255.0;
        [1, 3, 5].map(|at| match part(at) {
            low if low <= 0.04045 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        })
    }

    fn times(matrix: [[f64; 3]; 3], colour: Light) -> Light {
        matrix.map(|row| row.iter().zip(colour).map(|(a, b)| a * b).sum())
    }

    /// Returns a colour as seen by a trichromat, a protanope and a deuteranope (Machado, Oliveira and Fernandes 2009, severity 1).
    fn seen(colour: Light) -> [Light; 3] {
        let protanope = [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ];
        let deuteranope = [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ];
        [colour, times(protanope, colour), times(deuteranope, colour)]
            .map(|light| light.map(|part| part.clamp(0.0, 1.0)))
    }

    /// CIE L*a*b* under D65.
    fn lab(colour: Light) -> [f64; 3] {
        let to_xyz = [
            [0.412_456, 0.357_576, 0.180_438],
            [0.212_673, 0.715_152, 0.072_175],
            [0.019_334, 0.119_192, 0.950_304],
        ];
        let [x, y, z] = times(to_xyz, colour);
        let bend = |t: f64| {
            if t > 0.008_856 {
                t.cbrt()
            } else {
                7.787 * t + 16.0 / 116.0
            }
        };
        let (x, y, z) = (bend(x / 0.950_47), bend(y), bend(z / 1.088_83));
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn distance(a: Light, b: Light) -> f64 {
        lab(a)
            .iter()
            .zip(lab(b))
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
            .sqrt()
    }

    /// The contrast of WCAG 2.
    fn contrast(a: Light, b: Light) -> f64 {
        let luminance = |[red, green, blue]: Light| 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }

    /// A colour of the page by name, in light and in dark mode.
    fn of_page(name: &str) -> [&str; 2] {
        let (_, rest) = STYLE
            .split_once(&format!("--{name}: light-dark("))
            .expect("a colour of the page");
        let (light, rest) = rest.split_once(", ").expect("two colours");
        [light, &rest[..7]]
    }

    #[test]
    fn twelve_curves_look_different() {
        let looks: Vec<String> = (0..12).map(|i| format!("{:?}", look(Style::Curve(i)))).collect();
        for (i, a) in looks.iter().enumerate() {
            assert!(!looks[..i].contains(a));
        }
    }

    #[test]
    fn curves_differ_for_colour_blind_readers_and_from_their_ground() {
        for side in [0, 1] {
            let names: Vec<String> = (0..6).map(|number| format!("look{number}")).collect();
            let curves: Vec<&str> = names.iter().map(|name| of_page(name)[side]).collect();
            for [a, b] in curves.iter().array_combinations() {
                for (a, b) in seen(light(a)).into_iter().zip(seen(light(b))) {
                    assert!(distance(a, b) > 15.0, "{curves:?}: {}", distance(a, b));
                }
            }
            let ground = light(of_page("card")[side]);
            for curve in &curves {
                assert!(contrast(light(curve), ground) >= 3.0, "{curve}");
            }
            for text in ["ink", "muted", "accent", "ok", "suspect", "failed", "knee"] {
                for ground in ["card", "paper", "code"] {
                    let found = contrast(light(of_page(text)[side]), light(of_page(ground)[side]));
                    assert!(found >= 4.5, "{text} on {ground}: {found}");
                }
            }
            if side == 0 {
                let drawn = HUES.map(|Colour(red, green, blue)| format!("#{red:02x}{green:02x}{blue:02x}"));
                assert_eq!(drawn.as_slice(), curves, "pictures and page have the same");
            }
        }
    }

    #[test]
    fn a_page_has_a_colour_of_its_own_for_each_of_a_picture() {
        let others = [INK, MUTED, GRID, BACKGROUND, ACCENT, SIMULATED, WHITE];
        for Colour(red, green, blue) in HUES.into_iter().chain(others) {
            for part in ["fill", "stroke"] {
                let rule = format!("svg [{part}=\"#{red:02x}{green:02x}{blue:02x}\"] {{ {part}: var(--");
                assert!(STYLE.contains(&rule), "{rule}");
            }
        }
    }

    #[test]
    fn rings_and_limits_have_the_colour_of_no_curve() {
        assert!(!HUES.contains(&RING));
        assert!(!HUES.contains(&MUTED));
    }
}
