//! The x axis of a chart, along a setting or a figure, and the scale that suits the values of an axis. Numbers are placed at their value;
//! other values of a setting follow, each with its own tick.

use crate::chart::{Axis, Scale, Tick};
use crate::ordered::Ordered;
use crate::texts::words::{axis_title, show_number};
use itertools::Itertools;
use vsweep_record::table::{Cell, Column};

/// Ratio of the largest to the smallest load from which an axis is logarithmic. It is small because loads are often doubled.
pub const WIDE_LOAD: f64 = 8.0;
/// Ratio of the largest to the smallest figure from which an axis is logarithmic, because small figures would vanish.
const WIDE_FIGURES: f64 = 60.0;

/// The column along an x axis.
pub struct XAxis<'a> {
    /// The column.
    pub column: &'a Column,
    /// True if the axis is along a setting, false if it is along a figure.
    pub is_setting: bool,
    scale: Scale,
    /// One tick for each value.
    ticks: Vec<Tick>,
    /// Positions of values that are not finite numbers.
    beyond: Vec<(Cell, f64)>,
}

impl<'a> XAxis<'a> {
    /// The axis for the values of a column in these rows. Without `scale`, the values decide the scale.
    pub fn of(
        column: &'a Column,
        is_setting: bool,
        rows: impl Iterator<Item = usize>,
        scale: Option<Scale>,
    ) -> XAxis<'a> {
        let cells = rows.map(|row| column.cells.at(row)).ordered_by(|a, b| a.order(b));
        let cells: Vec<Cell> = cells.dedup_by(|a, b| a.order(b).is_eq()).collect();
        let numbers: Vec<f64> = cells.iter().filter_map(finite).collect();
        let scale = scale.unwrap_or_else(|| scale_of_steps(&numbers));
        let step = match numbers.as_slice() {
            [.., before, last] => last - before,
            [only] => only.abs().max(1.0),
            [] => 1.0,
        };
        let after = |place: f64| match scale {
            Scale::Log | Scale::Symlog if place > 0.0 => place * 2.0,
            _ => place + step,
        };
        let first = if scale == Scale::Log { 1.0 } else { 0.0 };
        let mut place = numbers.last().copied().unwrap_or(first);
        // A missing value sorts first but is last on the axis, because a load without a limit is the highest.
        let (missing, others): (Vec<Cell>, Vec<Cell>) = cells.into_iter().partition(Cell::is_missing);
        let others = others.into_iter().filter(|cell| finite(cell).is_none());
        let beyond = others.chain(missing).map(|cell| {
            place = after(place);
            (cell, place)
        });
        let beyond: Vec<(Cell, f64)> = beyond.filter(|(_, place)| place.is_finite()).collect();
        let numbers = numbers.iter().map(|number| (*number, show_number(*number)));
        let ticks = numbers.chain(beyond.iter().map(|(cell, at)| (*at, label(cell))));
        XAxis {
            column,
            is_setting,
            scale,
            ticks: ticks.map(|(at, label)| Tick { at, label }).collect(),
            beyond,
        }
    }

    /// The axis for a panel. It has ticks only along a setting.
    pub fn axis(&self) -> Axis {
        let ticks = self.ticks.iter().filter(|_| self.is_setting);
        Axis::of(axis_title(&self.column.name), self.scale).with_ticks(ticks.cloned())
    }

    /// Position of runs with the same setting; `None` if they do not fit on the axis.
    pub fn place(&self, rows: &[usize]) -> Option<f64> {
        let cell = self.column.cells.at(*rows.first()?);
        match finite(&cell) {
            Some(number) => (self.scale != Scale::Log || number > 0.0).then_some(number),
            None => {
                let mut beyond = self.beyond.iter();
                Some(beyond.find(|(other, _)| other.order(&cell).is_eq())?.1)
            }
        }
    }
}

fn finite(cell: &Cell) -> Option<f64> {
    cell.number().filter(|number| number.is_finite())
}

fn label(cell: &Cell) -> String {
    match cell {
        Cell::Missing => "unset".into(),
        Cell::Float(number) if *number == f64::INFINITY => "unlimited".into(),
        other => other.to_string(),
    }
}

/// The scale that suits the steps of a load, in ascending order. It is linear for a single step, if the first is not positive, or for even
/// steps that begin near zero; otherwise it is logarithmic. A linear axis begins at zero, so other steps would leave its left side empty.
fn scale_of_steps(numbers: &[f64]) -> Scale {
    let [first, second, before, last] = match numbers {
        [first, last] => [*first, *last, *first, *last],
        [first, second, .., last] => [*first, *second, numbers[numbers.len() - 2], *last],
        _ => return Scale::Linear,
    };
    let grow = last - before >= 2.0 * (second - first);
    let is_wide = last / first >= WIDE_LOAD;
    let is_far = 2.0 * first >= last;
    match first > 0.0 && (numbers.len() == 2 || grow || is_wide || is_far) {
        true => Scale::Log,
        false => Scale::Linear,
    }
}

/// The scale that suits measured figures.
pub fn scale_of_figures(values: impl Iterator<Item = f64>) -> Scale {
    scale_of(values, WIDE_FIGURES)
}

/// Logarithmic if all values are positive and the ratio of the largest to the smallest is at least `wide`, else linear.
pub fn scale_of(values: impl Iterator<Item = f64>, wide: f64) -> Scale {
    match values.minmax().into_option() {
        Some((least, most)) if least > 0.0 && most / least >= wide => Scale::Log,
        _ => Scale::Linear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_record::table::Section;

    #[test]
    fn the_axis_of_a_load_has_no_empty_side() {
        let scale = |numbers: &[f64]| scale_of_steps(numbers);
        for log in [
            &[2.0, 4.0][..],
            &[1.0, 2.0, 4.0],
            &[100.0, 110.0, 120.0],
            &[1.0, 100.0, 200.0, 300.0],
        ] {
            assert_eq!(scale(log), Scale::Log, "{log:?}");
        }
        for linear in [&[1.0, 2.0, 3.0, 4.0][..], &[0.0, 1.0], &[10.0, 20.0, 30.0], &[7.0], &[]] {
            assert_eq!(scale(linear), Scale::Linear, "{linear:?}");
        }
    }

    #[test]
    fn what_is_no_number_lies_beyond_the_numbers() {
        let cells = [
            Cell::Missing,
            Cell::Text("auto".into()),
            Cell::Integer(16),
            Cell::Float(f64::INFINITY),
            Cell::Integer(1),
        ];
        let column = Column {
            name: "x".into(),
            section: Section::Bench,
            cells: cells.into_iter().collect(),
        };
        let along = XAxis::of(&column, true, 0..5, None);
        let ticks = along.ticks.iter();
        let shown: Vec<String> = ticks.map(|tick| format!("{}@{}", tick.label, tick.at)).collect();
        assert_eq!(shown, ["1@1", "16@16", "unlimited@32", "auto@64", "unset@128"]);
        assert_eq!(along.place(&[0]), Some(128.0));
        assert_eq!(XAxis::of(&column, true, 0..2, None).place(&[1]), Some(1.0));
    }
}
