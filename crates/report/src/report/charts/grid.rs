//! Line charts in a grid of panels, as `vllm bench sweep plot` makes them: a picture, a row, a column and a curve for each
//! combination of the columns that are named for it, all in the order of their values.

use super::ladder::{Ladder, scale_of_figures};
use crate::report::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::report::words::{axis_title, short_name, short_setting, show_setting};
use std::cmp::Ordering;
use vsweep_plan::validity::Validity;
use vsweep_record::table::{Cell, Column, Table};

/// What to draw against what.
#[derive(Debug)]
pub struct Grid<'a> {
    /// The runs.
    pub runs: &'a Table,
    /// Column along the x axis.
    pub x: &'a Column,
    /// Whether runs belong together that have the same `x`; if not, the runs of a point do, at the median of their `x`.
    pub x_is_setting: bool,
    /// Column along the y axis.
    pub y: &'a Column,
    /// A picture for each combination of these.
    pub fig_by: Vec<&'a Column>,
    /// A row of panels for each combination of these.
    pub row_by: Vec<&'a Column>,
    /// A column of panels for each combination of these.
    pub col_by: Vec<&'a Column>,
    /// A curve for each combination of these.
    pub curve_by: Vec<&'a Column>,
    /// What else varies: each point is a median over it as well.
    pub over: Vec<&'a Column>,
    /// Spacing of the axes; what suits the values if not given.
    pub scales: (Option<Scale>, Option<Scale>),
    /// Whether bars reach from the lowest to the highest run.
    pub error_bars: bool,
    /// First part of the pictures' names.
    pub name: String,
    /// The line below each picture.
    pub footer: String,
}

/// One picture of a grid.
#[derive(Debug)]
pub struct Figure {
    /// What to draw.
    pub chart: Chart,
    /// What its runs share: names and values of `fig_by`.
    pub group: String,
    /// Runs that have no place: no number for `y`, or none that its axis can show.
    pub left_out: usize,
}

impl Grid<'_> {
    /// One picture for each group of these rows.
    pub fn draw(&self, rows: &[usize]) -> Vec<Figure> {
        groups(rows, &self.fig_by)
            .iter()
            .map(|rows| self.figure(rows))
            .collect()
    }

    fn figure(&self, rows: &[usize]) -> Figure {
        let ladder = Ladder::of(rows.iter().map(|row| &self.x.cells[*row]), self.scales.0);
        let curves = groups(rows, &self.curve_by);
        let columns = groups(rows, &self.col_by);
        let facets = groups(rows, &self.row_by);
        let mut panels = Vec::new();
        for facet in &facets {
            for column in &columns {
                let here = |row: &usize| same(&self.row_by, *row, facet[0]) && same(&self.col_by, *row, column[0]);
                let rows: Vec<usize> = rows.iter().copied().filter(here).collect();
                let varied = self
                    .row_by
                    .iter()
                    .map(|by| (by, facet[0]))
                    .chain(self.col_by.iter().map(|by| (by, column[0])));
                let title: Vec<String> = varied.map(|(by, row)| show_setting(&by.name, &by.cells[row])).collect();
                let series = self.series(&rows, &curves, &ladder);
                panels.push((title.join(", "), series));
            }
        }
        let drawn: usize = panels.iter().flat_map(|(_, series)| series).map(|(_, runs)| runs).sum();
        let panels = self.panels(panels, &ladder);
        let shared = self.fig_by.iter().map(|by| (by, &by.cells[rows[0]]));
        let group: Vec<String> = shared.clone().map(|(by, cell)| show_setting(&by.name, cell)).collect();
        let mut title = format!("{} against {}", axis_title(&self.y.name), axis_title(&self.x.name));
        if !group.is_empty() {
            title += &format!(", {}", group.join(", "));
        }
        Figure {
            chart: Chart {
                name: file_name(&self.name, shared.map(|(by, cell)| (by.name.as_str(), cell))),
                title,
                note: self.note(&panels, rows.len() - drawn),
                footer: self.footer.clone(),
                simulated: rows
                    .iter()
                    .any(|row| self.runs.cell("simulated", *row) == &Cell::Bool(true)),
                columns: columns.len(),
                panels,
            },
            group: group.join(", "),
            left_out: rows.len() - drawn,
        }
    }

    /// The curves of one panel, each with the number of runs in it.
    fn series(&self, rows: &[usize], curves: &[Vec<usize>], ladder: &Ladder) -> Vec<(Series, usize)> {
        let curve = |(number, group): (usize, &Vec<usize>)| {
            let own: Vec<usize> = rows
                .iter()
                .copied()
                .filter(|row| same(&self.curve_by, *row, group[0]))
                .collect();
            let (points, runs) = self.marks(&own, ladder);
            let names: Vec<String> = self
                .curve_by
                .iter()
                .map(|by| short_setting(&by.name, &by.cells[group[0]]))
                .collect();
            let series = Series {
                name: names.join(", "),
                style: Style::Curve(number),
                points,
            };
            (runs > 0).then_some((series, runs))
        };
        curves.iter().enumerate().filter_map(curve).collect()
    }

    fn marks(&self, rows: &[usize], ladder: &Ladder) -> (Vec<Mark>, usize) {
        let point = self.runs.column("point");
        let together: Vec<&Column> = if self.x_is_setting {
            vec![self.x]
        } else {
            point.into_iter().collect()
        };
        let can_show =
            |scale: Option<Scale>, value: f64| value.is_finite() && (scale != Some(Scale::Log) || value > 0.0);
        let mut runs = 0;
        let mut mark = |group: Vec<usize>| {
            let x = match self.x_is_setting {
                true => ladder.place(&self.x.cells[group[0]])?,
                false => self.x.spread(&group)?.median,
            };
            let y = self.y.spread(&group)?;
            if !can_show(self.scales.0, x) || !can_show(self.scales.1, y.median) {
                return None;
            }
            runs += y.count;
            let has_bar = self.error_bars && y.max > y.min && can_show(self.scales.1, y.min) && y.max.is_finite();
            Some(Mark {
                x,
                y: y.median,
                bar: has_bar.then_some((y.min, y.max)),
                label: Vec::new(),
                suspect: group
                    .iter()
                    .any(|row| self.runs.cell("validity", *row).to_string() == Validity::Suspect.name()),
            })
        };
        let mut marks: Vec<Mark> = groups(rows, &together).into_iter().filter_map(&mut mark).collect();
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
        (marks, runs)
    }

    /// Panels whose axes have one extent, so that they can be compared.
    fn panels(&self, panels: Vec<(String, Vec<(Series, usize)>)>, ladder: &Ladder) -> Vec<Panel> {
        let all = panels
            .iter()
            .flat_map(|(_, series)| series)
            .flat_map(|(series, _)| &series.points);
        let xs = || all.clone().map(|mark| mark.x);
        let ys = || {
            all.clone()
                .flat_map(|mark| mark.bar.map_or([mark.y; 2], |(low, high)| [low, high]))
        };
        let (x, y) = (
            Axis {
                title: axis_title(&self.x.name),
                scale: match self.x_is_setting {
                    true => ladder.scale,
                    false => self.scales.0.unwrap_or_else(|| scale_of_figures(xs())),
                },
                ticks: if self.x_is_setting {
                    ladder.ticks.clone()
                } else {
                    Vec::new()
                },
                covers: extent(xs()),
            },
            Axis {
                title: axis_title(&self.y.name),
                scale: self.scales.1.unwrap_or_else(|| scale_of_figures(ys())),
                ticks: Vec::new(),
                covers: extent(ys()),
            },
        );
        let panel = |(title, series): (String, Vec<(Series, usize)>)| Panel {
            title,
            x: x.clone(),
            y: y.clone(),
            series: series.into_iter().map(|(series, _)| series).collect(),
        };
        panels.into_iter().map(panel).collect()
    }

    fn note(&self, panels: &[Panel], left_out: usize) -> String {
        let marks = panels
            .iter()
            .flat_map(|panel| &panel.series)
            .flat_map(|series| &series.points);
        let mut over = self
            .over
            .iter()
            .map(|column| short_name(&column.name))
            .collect::<Vec<_>>()
            .join(" and ");
        if !over.is_empty() {
            over = format!(" and over {over}");
        }
        let mut note = match marks.clone().any(|mark| mark.bar.is_some()) {
            true => format!("Points are medians over runs{over}, bars reach from the lowest to the highest run."),
            false => format!("Points are medians over runs{over}."),
        };
        if left_out > 0 {
            let name = &self.y.name;
            note += &format!(
                " Left out: {left_out} runs without a number for {name}, or with one that an axis cannot show."
            );
        }
        note
    }
}

/// The rows that have equal cells in these columns, ordered by those cells; one group if there are no columns.
fn groups(rows: &[usize], by: &[&Column]) -> Vec<Vec<usize>> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| order(by, *a, *b));
    rows.chunk_by(|a, b| same(by, *a, *b)).map(<[usize]>::to_vec).collect()
}

fn order(by: &[&Column], a: usize, b: usize) -> Ordering {
    let orders = by.iter().map(|column| column.cells[a].order(&column.cells[b]));
    orders
        .into_iter()
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn same(by: &[&Column], a: usize, b: usize) -> bool {
    order(by, a, b) == Ordering::Equal
}

fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |extent, value| {
        let (least, most) = extent.unwrap_or((value, value));
        Some((value.min(least), value.max(most)))
    })
}

/// Longest name in bytes, so that an extension and a number still fit a file name's 255.
const LONGEST_NAME: usize = 200;

/// The name of a picture without its extension, as in `vllm bench sweep plot`: `FIGURE-model=org_m-tp=1`. Characters that
/// would lead out of the folder are replaced, and what is too long is cut.
pub fn file_name<'a>(first: &str, group: impl Iterator<Item = (&'a str, &'a Cell)>) -> String {
    let mut name = first.to_owned();
    for (column, cell) in group {
        let value = if cell.is_missing() {
            "unset".to_owned()
        } else {
            cell.to_string()
        };
        name += &format!("-{column}={value}");
    }
    let name: String = name.replace(['/', '\0'], "_").replace("..", "__");
    let name = name.trim_start_matches('\'').trim_start_matches('"');
    let mut end = name.len().min(LONGEST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
