//! The names that a report gives to configs, loads and workloads.

use super::findings::variation::{name_workload, settings, varying};
use itertools::Itertools;
use vsweep_record::evidence::Names;
use vsweep_record::table::{Column, Points, Section, Workload};

/// The names of what is in a table, by the parameters that vary.
pub struct PointNames<'a> {
    points: &'a Points<'a>,
    server: Vec<&'a Column>,
    load: Vec<&'a Column>,
}

impl<'a> PointNames<'a> {
    /// Names of a table's points.
    pub fn of(points: &'a Points<'a>) -> PointNames<'a> {
        let (server, bench): (Vec<&Column>, Vec<&Column>) = varying(points)
            .into_iter()
            .partition(|column| column.section == Section::Serve);
        let workloads = points.workloads();
        let is_of_workload = |column: &Column| {
            let mut settings = workloads.iter().flat_map(|workload| &workload.settings);
            settings.any(|own| own.name == column.name)
        };
        let server = match server.is_empty() {
            true => differing(points),
            false => server,
        };
        let load = bench.into_iter().filter(|column| !is_of_workload(column));
        PointNames {
            points,
            server,
            load: load.collect(),
        }
    }
}

/// The settings of servers that differ although none varies by itself, as where each load has a server of its own.
fn differing<'a>(points: &'a Points<'_>) -> Vec<&'a Column> {
    let settings = points
        .runs
        .columns()
        .iter()
        .filter(|column| column.section == Section::Serve);
    let of_points = |column: &&Column| !points.points.iter().map(|point| column.cells.at(point.row)).all_equal();
    settings.filter(of_points).collect()
}

impl Names for PointNames<'_> {
    fn config(&self, row: usize) -> String {
        match self.server.is_empty() {
            true => "the only server".to_owned(),
            false => settings(&self.server, row),
        }
    }

    fn load(&self, row: usize) -> String {
        match self.load.is_empty() {
            true => String::new(),
            false => settings(&self.load, row),
        }
    }

    fn workload(&self, workload: &Workload<'_>) -> String {
        name_workload(self.points, workload)
    }
}
