//! Which start of a server each run was measured on, and what a point's figures are worth over starts: the start is the unit of an
//! interval (docs/verdicts.md). Without several starts there is none.

use super::{Cell, Column, Point, Points, Section, Table};
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_strategy::stats::{ALPHA, Estimate, RunPrior, Start, estimate};

/// What a reader must know of figures from a single start.
pub const ONE_START: &str = "one start: start-to-start noise unknown";

/// Where a run was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Origin {
    /// The planned start that it belongs to.
    pub slot: u32,
    /// The launch, numbered within the table; none where that is not known.
    pub launch: Option<u32>,
}

/// Which starts of a point count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Those that every point has, by the plan.
    Planned,
    /// Those that only the finalists have: they were no part of what made them finalists.
    Fresh,
}

impl Table {
    /// Starts of each server config that the plan asks for.
    pub fn planned_starts(&self) -> u32 {
        self.planned_starts.max(1)
    }

    /// Whether any config was started for its final.
    fn is_of(&self, row: usize, stage: Stage) -> bool {
        let is_fresh = self.slot(row) >= self.planned_starts();
        is_fresh == (stage == Stage::Fresh)
    }

    /// The planned start that a run belongs to, from 0.
    pub fn slot(&self, row: usize) -> u32 {
        self.origins.get(row).map_or(0, |origin| origin.slot)
    }

    fn launch(&self, row: usize) -> Option<u32> {
        self.origins.get(row)?.launch
    }

    /// The column that says which start each run belongs to, if any belongs to a later one than the first.
    pub(super) fn starts_column(&self) -> Option<Column> {
        let has_later = self.origins.iter().any(|origin| origin.slot > 0);
        has_later.then(|| Column {
            name: "start".to_owned(),
            section: Section::Identity,
            cells: self.origins.iter().map(|origin| Cell::Integer(origin.slot.into())).collect(),
        })
    }
}

impl Points<'_> {
    /// On how many starts of its server a point was measured; none where that is not known.
    pub fn starts(&self, point: &Point) -> Option<usize> {
        let launches = point.used.iter().map(|row| self.runs.launch(*row));
        let launches: Vec<Option<u32>> = launches.unique().collect();
        (!launches.is_empty() && launches.iter().all(Option::is_some)).then_some(launches.len())
    }

    /// A figure of a point over its starts; none where the starts are not known, or a value has no logarithm.
    pub fn estimate(&self, point: &Point, metric: &str) -> Option<Estimate> {
        self.estimate_over(self.runs.column(metric)?, &point.used)
    }

    /// The same over the starts of one stage.
    pub fn estimate_at(&self, point: &Point, metric: &str, stage: Stage) -> Option<Estimate> {
        let rows = point.used.iter().copied().filter(|row| self.runs.is_of(*row, stage));
        self.estimate_over(self.runs.column(metric)?, &rows.collect::<Vec<usize>>())
    }

    pub(super) fn estimate_over(&self, column: &Column, rows: &[usize]) -> Option<Estimate> {
        let mut launches: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let value = column.cells[*row].number()?;
            launches.entry(self.runs.launch(*row)?).or_default().push(value);
        }
        let starts: Option<Vec<Start>> = launches.values().map(|values| Start::of(values)).collect();
        estimate(&starts?, RunPrior::TYPICAL)
    }

    /// The 95 % interval of a figure over the starts of a point; none with one start.
    pub fn interval(&self, point: &Point, metric: &str) -> Option<(f64, f64)> {
        Some(self.estimate(point, metric)?.interval(ALPHA)?.exp())
    }

    /// Whether every measured point has one start, as far as starts are known, so that nothing is known of how starts differ.
    pub fn have_one_start(&self) -> bool {
        let known = self.points.iter().filter_map(|point| self.starts(point));
        known.max() == Some(1)
    }

    /// Whether a point was tried on a fresh start, whatever came of it.
    pub(super) fn is_tried_fresh(&self, point: &Point) -> bool {
        point.slots.iter().any(|slot| *slot >= self.runs.planned_starts())
    }
}
