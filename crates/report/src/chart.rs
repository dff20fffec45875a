//! A chart as plain data: what to draw, but not how. Charts are made in [`super::charts`] and drawn by [`super::picture`]; tests and other
//! outputs read the same data.

use serde::Serialize;

/// One picture: panels in a grid that share a legend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// File name without extension; unique among the charts of one report.
    pub name: String,
    /// Title of the picture.
    pub title: String,
    /// Explanation: which figures are averaged, the meaning of the bars, what was left out.
    pub note: String,
    /// Origin of the figures: experiment, runs per point.
    pub footer: String,
    /// True if any of the figures come from the simulator.
    pub simulated: bool,
    /// Panels in one row of the grid; at least one.
    pub columns: usize,
    /// Panels, row by row; at least one.
    pub panels: Vec<Panel>,
}

/// One pair of axes with what is drawn between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// Text that distinguishes this panel from the others; empty if it needs none.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The series, in drawing order. Series of one name have one entry in the legend.
    pub series: Vec<Series>,
}

impl Panel {
    /// A panel without a title. Series without points are left out.
    pub fn of(x: Axis, y: Axis, mut series: Vec<Series>) -> Panel {
        let title = String::new();
        series.retain(|series| !series.points.is_empty());
        Panel { title, x, y, series }
    }

    /// All marks of the panel, series by series.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> + Clone {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// The number of its bars.
    pub fn bars(&self) -> usize {
        let bars = self
            .series
            .iter()
            .filter(|series| matches!(series.style, Style::Bar(_)));
        bars.map(|series| series.points.len()).sum()
    }
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// Quantity with its unit: `p99 TTFT (ms)`.
    pub title: String,
    /// Spacing of values.
    pub scale: Scale,
    /// Fixed ticks with their texts; empty leaves the choice to the renderer.
    pub ticks: Vec<Tick>,
    /// Range that the axis must cover, even if no mark of the panel lies there. Panels that are compared share it.
    pub covers: Option<(f64, f64)>,
    /// True if a linear axis may leave out zero when all values are far from it.
    #[serde(skip)]
    pub may_leave_out_zero: bool,
}

impl Axis {
    /// An axis that leaves ticks and extent to the renderer.
    pub fn of(title: impl Into<String>, scale: Scale) -> Axis {
        Axis {
            title: title.into(),
            scale,
            ticks: Vec::new(),
            covers: None,
            may_leave_out_zero: false,
        }
    }

    /// Replaces the ticks.
    pub fn with_ticks(self, ticks: impl IntoIterator<Item = Tick>) -> Axis {
        let ticks = ticks.into_iter().collect();
        Axis { ticks, ..self }
    }

    /// Lets the axis leave out zero.
    pub fn floating(self) -> Axis {
        Axis {
            may_leave_out_zero: true,
            ..self
        }
    }

    /// Makes the axis cover these values.
    pub fn covering(self, low: f64, high: f64) -> Axis {
        let covers = Some((low, high));
        Axis { covers, ..self }
    }
}

/// A tick at a value of the data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tick {
    /// Position on the axis.
    pub at: f64,
    /// Text next to it.
    pub label: String,
}

/// Spacing of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly. The axis includes zero, unless it may leave out zero.
    Linear,
    /// By their logarithm; every value is positive.
    Log,
    /// By their inverse hyperbolic sine: evenly near zero, and by the logarithm of their distance far from zero, in both directions.
    Symlog,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Its appearance.
    pub style: Style,
    /// The points, ordered along x if they are connected.
    pub points: Vec<Mark>,
}

impl Series {
    /// A series of these points.
    pub fn new(name: impl Into<String>, style: Style, points: Vec<Mark>) -> Series {
        let name = name.into();
        Series { name, style, points }
    }
}

/// Appearance of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Connected points in the colour and shape of this number.
    Curve(usize),
    /// A line without marks in the colour and dash of the curve of this number.
    Line(usize),
    /// Unconnected points in the colour and shape of the curve of this number.
    Points(usize),
    /// Unconnected points that stay in the background.
    Background,
    /// Connected points that stay in the background.
    Faint,
    /// Connected points that stand out.
    Frontier,
    /// A dashed line without marks, with which other series are compared.
    Limit,
    /// A ring around points that are drawn by another series.
    Ring,
    /// The area between the ends of the error bars, in the colour of the curve of this number.
    Band(usize),
    /// A horizontal bar from zero to each point, in the look of this number: filled with a colour for 0 and 1, grey for others, and
    /// hollow above 2. Error bars are horizontal as well.
    Bar(usize),
}

/// One point of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// Position along the horizontal axis.
    pub x: f64,
    /// Position along the vertical axis.
    pub y: f64,
    /// Lower and upper end of the error bar on the vertical axis; for [`Style::Bar`] on the horizontal axis.
    pub bar: Option<(f64, f64)>,
    /// Lines of text next to it.
    pub label: Vec<String>,
    /// True if its figures are suspect; it is then drawn hollow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspect: bool,
}

impl Mark {
    /// A mark without a label.
    pub fn at(x: f64, y: f64) -> Mark {
        Mark {
            x,
            y,
            bar: None,
            label: Vec::new(),
            suspect: false,
        }
    }

    /// The ends of its error bar, or `y` twice if it has none.
    pub fn ends(&self) -> [f64; 2] {
        self.bar.map_or([self.y; 2], |(low, high)| [low, high])
    }
}

/// Maximum number of curves that one panel can hold and still be read.
pub const MOST_CURVES: usize = 12;
