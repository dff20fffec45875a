//! Line charts in a grid of panels, as `vllm bench sweep plot` makes them: a picture, a row, a column and a curve for each combination of
//! values of the columns that the user names for it, all in the order of the values.

use super::multiples::{groups, name, order};
use super::x_axis::{XAxis, scale_of_figures};
use super::{bar_of, of_workload, share_extent};
use crate::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::ordered::Order;
use crate::texts::words::{axis_title, short_name, show_setting};
use itertools::Itertools;
use vsweep_base::units::show_many;
use vsweep_base::validity::Validity;
use vsweep_metrics::median;
use vsweep_record::table::{Cell, Column, Point, Points, Spread};

/// Columns to draw against each other.
#[derive(Debug)]
pub struct Grid<'a> {
    /// The points.
    pub points: &'a Points<'a>,
    /// Column along the x axis.
    pub x: &'a Column,
    /// True if a mark combines the runs with equal `x`. Otherwise it combines the runs of a point, at their median `x`.
    pub x_is_setting: bool,
    /// Column along the y axis.
    pub y: &'a Column,
    /// A picture for each combination of the values of these columns.
    pub fig_by: Vec<&'a Column>,
    /// A row of panels for each combination of the values of these columns.
    pub row_by: Vec<&'a Column>,
    /// A column of panels for each combination of the values of these columns.
    pub col_by: Vec<&'a Column>,
    /// A curve for each combination of the values of these columns.
    pub curve_by: Vec<&'a Column>,
    /// Other varied columns: each mark is a median over the points that differ in them.
    pub over: Vec<&'a Column>,
    /// Scales of the x axis and the y axis; chosen by the values if `None`.
    pub scales: (Option<Scale>, Option<Scale>),
    /// True to draw the estimates of `y` for the points that have them.
    pub has_estimates: bool,
    /// True if marks have bars.
    pub error_bars: bool,
    /// First part of the pictures' names.
    pub name: String,
    /// The line below each picture.
    pub footer: String,
}

/// One picture of a grid.
#[derive(Debug)]
pub struct GridPicture {
    /// The chart.
    pub chart: Chart,
    /// Names and values of `fig_by` that its runs have in common.
    pub group: String,
    /// Number of runs that are not drawn: they have no number for `y`, or one that an axis cannot show.
    pub left_out: usize,
}

impl Grid<'_> {
    /// Draws one picture for each group of rows with equal values of `fig_by`.
    pub fn draw(&self, rows: &[usize]) -> Vec<GridPicture> {
        let mut owners = vec![None; self.points.runs.rows()];
        for point in &self.points.points {
            point.used.iter().for_each(|row| owners[*row] = Some(point));
        }
        let groups = groups(rows, &self.fig_by, |row| *row);
        groups.iter().map(|rows| self.figure(rows, &owners)).collect()
    }

    /// The picture of some rows. `owners` has the point of each row of the table, if any uses it.
    fn figure(&self, rows: &[usize], owners: &[Option<&Point>]) -> GridPicture {
        let along = XAxis::of(self.x, self.x_is_setting, rows.iter().copied(), self.scales.0);
        let by = |columns: &[&Column]| groups(rows, columns, |row| *row);
        let (panel_rows, panel_columns, curves) = (by(&self.row_by), by(&self.col_by), by(&self.curve_by));
        let (mut panels, mut drawn) = (Vec::new(), 0);
        for (panel_row, column) in panel_rows.iter().cartesian_product(&panel_columns) {
            let is_here = |row: &usize| order(&self.col_by, *row, column[0]).is_eq();
            let here: Vec<usize> = panel_row.iter().copied().filter(is_here).collect();
            let of_row = self.row_by.iter().map(|by| (by, panel_row[0]));
            let varied = of_row.chain(self.col_by.iter().map(|by| (by, column[0])));
            let (series, runs) = self.series(&here, &curves, &along, owners);
            drawn += runs;
            panels.push(Panel {
                title: varied
                    .map(|(by, row)| show_setting(&by.name, &by.cells.at(row)))
                    .join(", "),
                x: along.axis(),
                y: Axis::of(axis_title(&self.y.name), Scale::Linear),
                series,
            });
        }
        self.share_axes(&mut panels);
        let shared = self.fig_by.iter().map(|by| (by, by.cells.at(rows[0])));
        let group = shared
            .clone()
            .map(|(by, cell)| show_setting(&by.name, &cell))
            .join(", ");
        let title = format!("{} against {}", axis_title(&self.y.name), axis_title(&self.x.name));
        GridPicture {
            chart: Chart {
                name: file_name(&self.name, shared.map(|(by, cell)| (by.name.as_str(), cell))),
                title: of_workload(&title, &group),
                note: self.note(&panels, rows.len() - drawn),
                footer: self.footer.clone(),
                simulated: rows
                    .iter()
                    .any(|row| self.points.runs.cell("simulated", *row) == Cell::Bool(true)),
                columns: panel_columns.len(),
                panels,
            },
            group,
            left_out: rows.len() - drawn,
        }
    }

    /// Gives all panels the same axes, so that they can be compared.
    fn share_axes(&self, panels: &mut [Panel]) {
        share_extent(panels, 0, 1);
        let marks = || panels.iter().flat_map(Panel::marks);
        let x = || scale_of_figures(marks().map(|mark| mark.x));
        let x = (!self.x_is_setting).then(|| self.scales.0.unwrap_or_else(x));
        let y = || scale_of_figures(marks().flat_map(Mark::ends));
        let y = self.scales.1.unwrap_or_else(y);
        for panel in panels {
            panel.x.scale = x.unwrap_or(panel.x.scale);
            panel.y.scale = y;
        }
    }

    /// The curves of one panel, and the number of runs in them.
    fn series(
        &self,
        rows: &[usize],
        curves: &[Vec<usize>],
        along: &XAxis<'_>,
        owners: &[Option<&Point>],
    ) -> (Vec<Series>, usize) {
        let together: Vec<&Column> = match self.x_is_setting {
            true => vec![self.x],
            false => self.points.runs.column("point").into_iter().collect(),
        };
        let (mut series, mut drawn) = (Vec::new(), 0);
        for (number, curve) in curves.iter().enumerate() {
            let is_own = |row: &usize| order(&self.curve_by, *row, curve[0]).is_eq();
            let of_curve: Vec<usize> = rows.iter().copied().filter(is_own).collect();
            let places = groups(&of_curve, &together, |row| *row);
            let marks = places.iter().filter_map(|place| self.mark(place, along, owners));
            let (mut marks, runs): (Vec<Mark>, Vec<usize>) = marks.unzip();
            if marks.is_empty() {
                continue;
            }
            marks.order_by(|a, b| a.x.total_cmp(&b.x));
            series.push(Series::new(name(&self.curve_by, curve[0]), Style::Curve(number), marks));
            drawn += runs.iter().sum::<usize>();
        }
        (series, drawn)
    }

    /// The mark of runs that belong together, and the number of them that have a figure. `None` if none has, or the axes cannot show it.
    fn mark(&self, rows: &[usize], along: &XAxis<'_>, owners: &[Option<&Point>]) -> Option<(Mark, usize)> {
        let can_show =
            |scale: Option<Scale>, value: f64| value.is_finite() && (scale != Some(Scale::Log) || value > 0.0);
        let owned = rows.iter().filter_map(|row| Some((owners[*row]?, *row)));
        let owned = owned.sorted_by_key(|(point, _)| &point.id).collect_vec();
        let parts = owned.chunk_by(|(one, _), (other, _)| one.id == other.id).map(|part| {
            let rows = part.iter().map(|(_, row)| *row).collect_vec();
            (part[0].0, rows)
        });
        let parts = parts.collect_vec();
        let figures = |column: &Column| {
            let figures = parts
                .iter()
                .filter_map(|(point, rows)| self.figure_of(point, rows, column));
            figures.collect_vec()
        };
        let ys = figures(self.y);
        let x = match along.is_setting {
            true => along.place(rows)?,
            false => median(figures(self.x).iter().map(|x| x.value))?,
        };
        let y = median(ys.iter().map(|y| y.value))?;
        if !can_show(self.scales.0, x) || !can_show(self.scales.1, y) {
            return None;
        }
        let bar = match ys.as_slice() {
            [only] => bar_of(only),
            several => several.iter().map(|y| y.value).minmax().into_option(),
        };
        let is_shown = |(low, high): &(f64, f64)| high > low && can_show(self.scales.1, *low) && high.is_finite();
        let validity = |row: &usize| self.points.runs.cell("validity", *row).to_string();
        let mark = Mark {
            bar: bar.filter(|bar| self.error_bars && is_shown(bar)),
            suspect: rows.iter().any(|row| validity(row) == Validity::Suspect.name()),
            ..Mark::at(x, y)
        };
        Some((mark, ys.iter().map(|y| y.count).sum()))
    }

    /// Returns a figure of a point, computed from `rows`. If `rows` are all runs of the point, the answer's estimate comes first.
    fn figure_of(&self, point: &Point, rows: &[usize], column: &Column) -> Option<Spread> {
        match rows.len() == point.used.len() && self.has_estimates {
            true => self.points.spread(point, &column.name),
            false => column.spread(rows),
        }
    }

    fn note(&self, panels: &[Panel], left_out: usize) -> String {
        let over = self.over.iter().map(|column| short_name(&column.name)).join(" and ");
        let (what, bars) = match self.has_estimates && self.points.judges(&self.y.name) {
            true => ("estimates", "are their 95 % intervals"),
            false => ("medians over runs", "reach from the lowest to the highest run"),
        };
        let mut note = match panels.iter().flat_map(Panel::marks).any(|mark| mark.bar.is_some()) {
            true => format!("Points are {what}, bars {bars}."),
            false => format!("Points are {what}."),
        };
        if !over.is_empty() {
            note += &format!(
                " Points that differ only in {over} are drawn as their median, with a bar from the lowest to the highest."
            );
        }
        if left_out > 0 {
            let (runs, name) = (show_many(left_out as u64, "run"), axis_title(&self.y.name));
            note += &format!(" Left out: {runs} without a number for {name}, or with one that an axis cannot show.");
        }
        note
    }
}

/// Longest name in bytes, so that an extension and a number still fit a file name's 255.
const LONGEST_NAME: usize = 200;

/// The name of a picture without its extension, as in `vllm bench sweep plot`: `FIGURE-model=org_m-tp=1`. Characters that
/// would lead out of the folder are replaced, and what is too long is cut.
pub fn file_name<'a>(first: &str, group: impl Iterator<Item = (&'a str, Cell)>) -> String {
    let mut name = first.to_owned();
    for (column, cell) in group {
        name += &match cell.is_missing() {
            true => format!("-{column}=unset"),
            false => format!("-{column}={cell}"),
        };
    }
    let name: String = name.replace(['/', '\0'], "_").replace("..", "__");
    let name = name.trim_start_matches('\'').trim_start_matches('"');
    name[..name.floor_char_boundary(LONGEST_NAME)].to_owned()
}
