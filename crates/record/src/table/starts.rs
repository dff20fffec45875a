//! Which start of a server each run was measured on, and what a point's figures are worth over starts: the start is the unit of an
//! interval (docs/verdicts.md). Without several starts there is none.

use super::{Column, Point, Points, Table};
use itertools::Itertools;
use std::collections::BTreeMap;
use std::ops::Range;
use vsweep_strategy::stats::{ALPHA, Estimate, RunPrior, Start, estimate};

/// What a reader must know of figures from a single start.
pub const ONE_START: &str = "one start: start-to-start noise unknown";

impl Table {
    /// Starts of each server config that the plan asks for.
    pub fn planned_starts(&self) -> u32 {
        self.planned_starts.max(1)
    }

    /// Whether the plan has finals at all.
    pub(super) fn has_finals(&self) -> bool {
        (2..u32::MAX).contains(&self.planned_starts)
    }

    /// The planned start that a run belongs to, from 0.
    pub fn slot(&self, row: usize) -> u32 {
        self.runs[row].slot
    }

    /// On how many launches some runs were measured; none where that is not known of all of them.
    pub(super) fn launches(&self, rows: &[usize]) -> Option<usize> {
        let launches: Option<Vec<u32>> = rows.iter().map(|row| self.runs[*row].launch).collect();
        launches
            .map(|launches| launches.into_iter().unique().count())
            .filter(|count| *count > 0)
    }
}

impl Points<'_> {
    /// A figure of a point by its starts, as far as its runs have it; runs whose launch is not known count as one start.
    pub fn starts_of(&self, point: &Point, metric: &str) -> Vec<Start> {
        let Some(column) = self.runs.column(metric) else {
            return Vec::new();
        };
        let values = point.used.iter();
        let values = values.filter_map(|row| Some((self.runs.runs[*row].launch, column.cells[*row].number()?)));
        let launches = values.into_group_map().into_iter().sorted_by_key(|(launch, _)| *launch);
        launches.filter_map(|(_, values)| Start::of(&values)).collect()
    }

    /// A figure of a point over some of its starts; none where the starts are not known, or a value has no logarithm.
    pub(super) fn estimate_at(&self, point: &Point, metric: &str, slots: &Range<u32>) -> Option<Estimate> {
        let rows = point.used.iter().copied();
        let rows = rows.filter(|row| slots.contains(&self.runs.slot(*row)));
        self.estimate_over(self.runs.column(metric)?, &rows.collect::<Vec<usize>>())
    }

    fn estimate_over(&self, column: &Column, rows: &[usize]) -> Option<Estimate> {
        let mut launches: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let value = column.cells[*row].number()?;
            launches.entry(self.runs.runs[*row].launch?).or_default().push(value);
        }
        let starts: Option<Vec<Start>> = launches.values().map(|values| Start::of(values)).collect();
        estimate(&starts?, RunPrior::TYPICAL)
    }

    /// The 95 % interval of a figure over the starts of a point; none with one start, or where no run differs.
    pub(super) fn interval_of(&self, column: &Column, point: &Point) -> Option<(f64, f64)> {
        if point.starts.is_none_or(|starts| starts < 2) {
            return None;
        }
        if point.used.iter().map(|row| &column.cells[*row]).all_equal() {
            return None;
        }
        Some(self.estimate_over(column, &point.used)?.interval(ALPHA)?.exp())
    }

    /// Whether every measured point has one start, as far as starts are known, so that nothing is known of how starts differ.
    pub fn have_one_start(&self) -> bool {
        let known = self.points.iter().filter_map(|point| point.starts);
        known.max() == Some(1)
    }

    /// Whether a point was tried on a fresh start, whatever came of it.
    pub(super) fn is_tried_fresh(&self, point: &Point) -> bool {
        point.slots.iter().any(|slot| *slot >= self.runs.planned_starts())
    }
}
