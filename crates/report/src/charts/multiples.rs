//! Arranges the curves of a picture so that they can be read: few curves in one panel, many in a panel for each value of an important
//! setting. If there are still too many, the least important settings no longer distinguish curves, and callers draw medians over them.

use crate::chart::MOST_CURVES;
use crate::ordered::Ordered;
use crate::texts::words::short_setting;
use itertools::Itertools;
use std::cmp::Ordering;
use vsweep_record::table::{Column, Point};

/// Maximum number of panels in a picture.
const MOST_PANELS: usize = 6;
/// Most curves that a reader can follow. If there are more, those that agree are merged.
pub const MOST_READ: usize = 6;

/// One curve before it is drawn.
#[derive(Debug)]
pub struct Curve<'a> {
    /// Its settings in words, without the one that its panel is named after.
    pub name: String,
    /// Its index among the distinct curves of the picture, which decides its colour and marker.
    pub number: usize,
    /// Its points. Several may be at one place.
    pub points: Vec<&'a Point>,
}

/// The curves of a picture.
#[derive(Debug)]
pub struct PanelLayout<'a> {
    /// Panels with their titles.
    pub panels: Vec<(String, Vec<Curve<'a>>)>,
    /// The parameters that distinguish panels and curves.
    pub distinct_by: Vec<&'a Column>,
    /// Number of panels that are not drawn.
    pub left_out: usize,
}

/// Arranges points by `columns`, of which the first matters most.
pub fn arrange<'a>(points: &[&'a Point], columns: Vec<&'a Column>) -> PanelLayout<'a> {
    let mut distinct_by = columns;
    let panel_by = loop {
        let curves = count(points, &distinct_by);
        // Curves that fit in one panel are divided only if each panel then gets few.
        let most = if curves > MOST_CURVES { MOST_CURVES } else { MOST_READ };
        let mut columns = distinct_by.iter().copied().filter(|_| curves > MOST_READ);
        let few = columns.find(|column| (2..=MOST_PANELS).contains(&count(points, &[column])));
        let panel_by = few.filter(|column| count(points, &without(&distinct_by, Some(column))) <= most);
        if panel_by.is_some() || curves <= MOST_CURVES || distinct_by.len() == 1 {
            break panel_by;
        }
        distinct_by.pop();
    };
    let within = without(&distinct_by, panel_by);
    let names: Vec<String> = grouped(points, &within)
        .iter()
        .map(|group| name(&within, group[0].row))
        .collect();
    let of_panel = |points: &[&'a Point]| -> Vec<Curve<'a>> {
        let curve = |points: Vec<&'a Point>| {
            let name = name(&within, points[0].row);
            Curve {
                number: names.iter().position(|known| *known == name).unwrap_or_default(),
                name,
                points,
            }
        };
        grouped(points, &within).into_iter().map(curve).collect()
    };
    let mut panels: Vec<(String, Vec<Curve<'_>>)> = match panel_by {
        Some(column) => grouped(points, &[column])
            .into_iter()
            .map(|points| (name(&[column], points[0].row), of_panel(&points)))
            .collect(),
        None => split_over_panels(of_panel(points)),
    };
    let left_out = panels.len().saturating_sub(MOST_PANELS);
    panels.truncate(MOST_PANELS);
    PanelLayout {
        panels,
        distinct_by,
        left_out,
    }
}

/// Returns the columns without `except`, if it is given.
pub fn without<'a>(columns: &[&'a Column], except: Option<&Column>) -> Vec<&'a Column> {
    let columns = columns.iter().copied();
    columns
        .filter(|column| except.is_none_or(|except| except.name != column.name))
        .collect()
}

/// Splits many curves of one setting over panels, in order.
fn split_over_panels(curves: Vec<Curve<'_>>) -> Vec<(String, Vec<Curve<'_>>)> {
    if curves.len() <= MOST_CURVES {
        return vec![(String::new(), curves)];
    }
    let parts = curves.into_iter().chunks(MOST_CURVES);
    let titled = parts.into_iter().map(|part| {
        let part: Vec<Curve<'_>> = part.collect();
        let (first, last) = (&part[0], &part[part.len() - 1]);
        (format!("{} to {}", first.name, last.name), part)
    });
    titled.collect()
}

fn grouped<'a>(points: &[&'a Point], by: &[&Column]) -> Vec<Vec<&'a Point>> {
    groups(points, by, |point| point.row)
}

/// Number of groups of points that agree in these parameters.
pub fn count(points: &[&Point], columns: &[&Column]) -> usize {
    grouped(points, columns).len()
}

/// Compares two rows by their values of some parameters.
pub fn order(by: &[&Column], a: usize, b: usize) -> Ordering {
    let mut orders = by.iter().map(|column| column.cells.at(a).order(&column.cells.at(b)));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Groups items that agree in some parameters, in the order of the parameters' values. Without parameters, all items are one group.
pub fn groups<T: Copy>(all: &[T], by: &[&Column], row: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let order = |a: &T, b: &T| order(by, row(a), row(b));
    let sorted: Vec<T> = all.iter().copied().ordered_by(order).collect();
    sorted.chunk_by(|a, b| order(a, b).is_eq()).map(<[T]>::to_vec).collect()
}

/// The values of some parameters in a row, in words.
pub fn name(columns: &[&Column], row: usize) -> String {
    let mut settings = columns
        .iter()
        .map(|column| short_setting(&column.name, &column.cells.at(row)));
    settings.join(", ")
}
