//! The start of a server that each run was measured on, by row.

use crate::table::Table;
use itertools::Itertools;

impl Table {
    /// The planned start that a run belongs to, from 0.
    pub fn slot(&self, row: usize) -> u32 {
        self.runs[row].slot
    }

    /// The launch that a run was measured on, numbered within the table; none where that is not known.
    pub fn launch(&self, row: usize) -> Option<u32> {
        self.runs[row].launch
    }

    /// True if something else than its server and its load had a part in a run.
    pub fn is_disturbed(&self, row: usize) -> bool {
        self.runs[row].marks.iter().any(|mark| mark.code.is_disturbance())
    }

    /// On how many launches some runs were measured; none where that is not known of all of them.
    pub(in crate::table) fn launches(&self, rows: &[usize]) -> Option<usize> {
        let launches: Option<Vec<u32>> = rows.iter().map(|row| self.runs[*row].launch).collect();
        launches
            .map(|launches| launches.into_iter().unique().count())
            .filter(|count| *count > 0)
    }
}
