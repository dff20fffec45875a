//! Workloads: kinds of requests, regardless of how much load they make. Points of two workloads never compete, because they answer
//! different questions: the requests with the shortest outputs would always be the fastest.

use super::{COMBO, Cell, Column, Point, Points, Section, normal};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;

/// Bench parameters that set the amount, timing and repetition of the load, or its seed. Every other bench parameter belongs to the
/// workload.
const LOAD: [&str; 20] = [
    "batch_size",
    "burstiness",
    "duration",
    "duration_grace",
    "max_concurrency",
    "num_prompts",
    "num_requests",
    "num_warmups",
    "ramp_up_end_rps",
    "ramp_up_start_rps",
    "ramp_up_strategy",
    "repeats",
    "request_count",
    "request_rate",
    "seed",
    "settle_ms",
    "warmup",
    "warmup_margin",
    "warmup_prompts",
    "warmups",
];

/// Returns true if a bench parameter belongs to the load and not to the workload.
pub fn is_of_load(name: &str) -> bool {
    LOAD.contains(&normal(name).as_str())
}

/// The points of one workload.
#[derive(Debug, Clone)]
pub struct Workload<'t> {
    /// Parameters that distinguish it from the other workloads; empty if it is the only one.
    pub settings: Vec<&'t Column>,
    /// Indices of its points in [`Points::points`], in order.
    pub points: Vec<usize>,
}

impl Column {
    /// Returns true if it is a parameter of the workload and not of the server or the load.
    pub fn is_of_workload(&self) -> bool {
        let name = normal(&self.name);
        let name = name.strip_prefix("bench.").unwrap_or(&name);
        self.section == Section::Bench && name != COMBO && !is_of_load(name)
    }

    /// Returns true if it names combinations of parameters.
    pub fn is_combo(&self) -> bool {
        self.section.is_parameter() && self.name.rsplit('.').next() == Some(COMBO)
    }
}

impl<'t> Points<'t> {
    /// Returns the workloads with their points, in the order of their parameters' values; one workload if no parameter varies.
    pub fn workloads(&self) -> Vec<Workload<'t>> {
        let settings = self.workload_settings();
        let row = |index: &usize| self.points[*index].row;
        let order = |a: &usize, b: &usize| {
            let mut orders = settings
                .iter()
                .map(|column| column.cells.at(row(a)).order(&column.cells.at(row(b))));
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut indices: Vec<usize> = (0..self.points.len()).collect();
        indices.sort_by(order);
        let workload = |points: &[usize]| Workload {
            settings: settings.clone(),
            points: points.to_vec(),
        };
        match indices.is_empty() {
            true => vec![workload(&[])],
            false => indices.chunk_by(|a, b| order(a, b).is_eq()).map(workload).collect(),
        }
    }

    /// Returns true if a point measured the prefill alone. It makes almost no output, so its throughput is that of prompts, and speed per
    /// user has no meaning.
    pub fn reads_prompts_only(&self, point: &Point) -> bool {
        ["phase", "mode"]
            .map(|name| self.param(point, name).to_string())
            .contains(&"prefill".to_owned())
    }

    /// Returns the parameters that distinguish workloads. Of parameters that change together, one to one, only the first is returned. If
    /// the column of combination names distinguishes points exactly as they do, it is returned alone.
    fn workload_settings(&self) -> Vec<&'t Column> {
        let mut kept: Vec<&Column> = Vec::new();
        for column in self.runs.columns().iter().filter(|column| column.is_of_workload()) {
            let first = self.points.first().map(|point| column.cells.at(point.row));
            let varies = self
                .points
                .iter()
                .any(|point| Some(column.cells.at(point.row)) != first);
            if varies && !kept.iter().any(|earlier| self.is_one_to_one(earlier, column)) {
                kept.push(column);
            }
        }
        let mut names = self
            .runs
            .columns()
            .iter()
            .filter(|column| column.section == Section::Bench && column.is_combo());
        match names.next() {
            Some(names) if !kept.is_empty() && self.distinguishes_alike(names, &kept) => vec![names],
            _ => kept,
        }
    }

    /// Returns true if a column distinguishes points exactly as these columns do together.
    fn distinguishes_alike(&self, column: &Column, others: &[&Column]) -> bool {
        let one = |row: usize| vec![column.cells.at(row).to_string()];
        let all = |row: usize| {
            others
                .iter()
                .map(|other| other.cells.at(row).to_string())
                .collect::<Vec<String>>()
        };
        let is_named = |point: &Point| column.cells.at(point.row) != Cell::Missing;
        self.points.iter().all(is_named) && self.pair_up(one, all)
    }

    /// Returns true if each value of one parameter goes with one value of the other, and vice versa.
    pub fn is_one_to_one(&self, a: &Column, b: &Column) -> bool {
        self.pair_up(|row| a.cells.at(row).to_string(), |row| b.cells.at(row).to_string())
    }

    /// Returns true if each value on either side goes with one value on the other.
    fn pair_up<A: Eq + Hash + Clone, B: Eq + Hash + Clone>(
        &self,
        a: impl Fn(usize) -> A,
        b: impl Fn(usize) -> B,
    ) -> bool {
        let (mut to, mut from) = (HashMap::new(), HashMap::new());
        self.points.iter().all(|point| {
            let (a, b) = (a(point.row), b(point.row));
            *to.entry(a.clone()).or_insert_with(|| b.clone()) == b && *from.entry(b).or_insert_with(|| a.clone()) == a
        })
    }
}

impl Workload<'_> {
    /// Returns true if it is the only workload.
    pub fn is_only(&self) -> bool {
        self.settings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{RunRow, Table, TableBuilder};
    use serde_json::{Value, json};

    fn table(loads: &[Value]) -> Table {
        let mut builder = TableBuilder::new();
        for (i, load) in loads.iter().enumerate() {
            builder.push(RunRow {
                point: &i.to_string(),
                run: 0,
                bench: load.as_object(),
                ..RunRow::default()
            });
        }
        builder.finish()
    }

    fn found(loads: &[Value]) -> (Vec<String>, Vec<Vec<usize>>) {
        let table = table(loads);
        let workloads = Points::of(&table).workloads();
        let names = workloads[0].settings.iter().map(|column| column.name.clone()).collect();
        (names, workloads.into_iter().map(|workload| workload.points).collect())
    }

    #[test]
    fn lengths_make_workloads_and_loads_do_not() {
        let load = |input: u32, users: u32| {
            json!({"random-input-len": input, "random_output_len": input / 4, "max_concurrency": users,
                   "num_prompts": users * 10, "seed": users, "dataset_name": "random"})
        };
        let (names, points) = found(&[load(512, 1), load(128, 1), load(512, 8), load(128, 8)]);
        assert_eq!(names, ["random-input-len"]);
        assert_eq!(points, [[1, 3], [0, 2]]);
    }

    #[test]
    fn workloads_with_one_load_each_stay_separate() {
        let (names, points) = found(&[
            json!({"random_input_len": 512, "max_concurrency": 32}),
            json!({"random_input_len": 8192, "max_concurrency": 4}),
        ]);
        assert_eq!((names.len(), points.len()), (1, 2));
    }

    #[test]
    fn a_combination_names_a_workload_if_it_distinguishes_the_same_points() {
        let load = |combo: &str, input: u32, output: u32, users: u32| json!({"combo": combo, "random_input_len": input, "random_output_len": output, "max_concurrency": users});
        let both = [
            load("chat", 512, 64, 8),
            load("chat", 512, 64, 1),
            load("rag", 512, 16, 1),
            load("code", 64, 16, 1),
        ];
        assert_eq!(found(&both).0, ["combo"]);
        let (names, points) = found(&[load("light", 512, 64, 1), load("heavy", 512, 64, 64)]);
        assert_eq!((names, points), (vec![], vec![vec![0, 1]]));
    }

    #[test]
    fn where_only_the_load_varies_there_is_one_workload() {
        let load = |users| json!({"random_input_len": 512, "max_concurrency": users});
        assert_eq!(found(&[load(1), load(2)]), (vec![], vec![vec![0, 1]]));
        assert_eq!(found(&[]), (vec![], vec![vec![]]));
    }
}
