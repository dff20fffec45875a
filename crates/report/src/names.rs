//! The names that a report gives to configs, loads and workloads.

use super::findings::variation::{follows_from, name_workload, settings, varying};
use crate::sentences::parts::{DEFAULT_SETTINGS, ONLY_SERVER};
use crate::texts::words::server_name;
use itertools::Itertools;
use vsweep_record::evidence::Names;
use vsweep_record::journal::{RunRecord, State};
use vsweep_record::table::{Column, Points, Section, Workload};

/// Names of the configs, loads and workloads in a table, made from the parameters that vary.
pub struct PointNames<'a> {
    points: &'a Points<'a>,
    /// The settings that distinguish servers.
    server: Vec<&'a Column>,
    /// The parameters that distinguish loads within a workload.
    load: Vec<&'a Column>,
    /// The name of a server if none of its settings varies.
    only: String,
}

impl<'a> PointNames<'a> {
    /// Names of a table's points.
    pub fn of(points: &'a Points<'a>) -> PointNames<'a> {
        let (mut server, bench): (Vec<&Column>, Vec<&Column>) = varying(points)
            .into_iter()
            .partition(|column| column.section == Section::Serve);
        let workloads = points.workloads();
        let is_of_workload = |column: &Column| {
            let mut settings = workloads.iter().flat_map(|workload| &workload.settings);
            settings.any(|setting| setting.name == column.name)
        };
        match server.is_empty() {
            true => server = differing(points),
            // A setting that changes with the load distinguishes servers too.
            false => {
                for column in differing(points) {
                    if !follows_from(points, &server, column) {
                        server.push(column);
                    }
                }
            }
        }
        let load = bench.into_iter().filter(|column| !is_of_workload(column));
        PointNames {
            points,
            server,
            load: load.collect(),
            only: ONLY_SERVER.to_owned(),
        }
    }

    /// Names of the points of a record, whose plan may have servers that were not measured yet.
    pub fn among(points: &'a Points<'a>, state: &State, runs: &[&RunRecord]) -> PointNames<'a> {
        let names = PointNames::of(points);
        let planned = state.planning_session().map_or(0, |planned| planned.servers);
        let mut measured = points.points.iter().filter_map(|point| runs.get(point.row));
        let first = measured.next();
        match first.filter(|first| planned > 1 && measured.all(|run| run.server == first.server)) {
            None => names,
            Some(run) => PointNames {
                only: match server_name(&run.server, state).as_str() {
                    "default" => DEFAULT_SETTINGS.to_owned(),
                    name => name.to_owned(),
                },
                ..names
            },
        }
    }
}

/// Settings of servers that differ although `varying` names none, for example if each load has a server of its own.
fn differing<'a>(points: &'a Points<'_>) -> Vec<&'a Column> {
    let settings = points
        .runs
        .columns()
        .iter()
        .filter(|column| column.section == Section::Serve);
    let differs = |column: &&Column| !points.points.iter().map(|point| column.cells.at(point.row)).all_equal();
    settings.filter(differs).collect()
}

impl Names for PointNames<'_> {
    fn config(&self, row: usize) -> String {
        match self.server.is_empty() {
            true => self.only.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vsweep_plan::Params;
    use vsweep_record::table::{RunRow, TableBuilder};

    #[test]
    fn a_setting_that_changes_with_the_load_distinguishes_servers() {
        let mut builder = TableBuilder::new();
        for (point, (size, seqs)) in [(1, 8), (1, 32), (2, 8), (2, 32)].into_iter().enumerate() {
            let serve = [("tensor_parallel_size", size), ("max_num_seqs", seqs)];
            let serve: Params = serve
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .into_iter()
                .collect();
            builder.push(RunRow {
                point: &point.to_string(),
                serve: Some(&serve),
                bench: Some(&Params::from_iter([("max_concurrency".to_owned(), json!(seqs))])),
                ..RunRow::default()
            });
        }
        let table = builder.finish();
        let points = Points::of(&table);
        let names = PointNames::of(&points);
        let servers: Vec<String> = (0..4).map(|row| names.config(row)).collect();
        assert_eq!(
            servers,
            ["TP 1, seqs 8", "TP 1, seqs 32", "TP 2, seqs 8", "TP 2, seqs 32"]
        );
    }
}
