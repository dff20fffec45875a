//! Which points cannot be told from the best one at a figure, and which of them wins: by intervals over starts, and by fresh starts
//! once the finalists have them, because the best of many is best partly by luck.

use super::{Better, Cell, Column, Point, Points, Section};
use itertools::Itertools;
use std::ops::Range;
use vsweep_strategy::stats::{Candidate, Estimate, finalists, winner};

/// Latencies by which "lowest latency" is judged: the first that was measured. Tails before middles, the whole request
/// before its first token.
pub const LATENCIES: [&str; 7] = [
    "p99_e2el_ms",
    "p95_e2el_ms",
    "median_e2el_ms",
    "mean_e2el_ms",
    "p99_ttft_ms",
    "median_ttft_ms",
    "mean_ttft_ms",
];

/// Who is best at a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Contest {
    /// The winner by its place in [`Points::points`]: of the equals the one with the fewest settings.
    pub winner: usize,
    /// What decided about it.
    pub estimate: Estimate,
    /// The points that cannot be told from the best one, the winner included, best first.
    pub equals: Vec<usize>,
    /// How sure that is.
    pub standing: Standing,
}

/// What a winner rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing more is to be measured: no other config is within reach, or the plan has no finals.
    Alone,
    /// Fresh starts of the finalists.
    Confirmed,
    /// The starts that also made it a finalist.
    Unconfirmed,
}

impl Standing {
    /// In what others are tied with the winner.
    pub fn words(self) -> &'static str {
        match self {
            Standing::Unconfirmed => "within the intervals over starts; fresh starts have not decided yet",
            Standing::Alone | Standing::Confirmed => "within the intervals over starts",
        }
    }
}

impl Points<'_> {
    /// The contest of some points; none unless the best one has an interval.
    pub fn contest(&self, entrants: &[usize], metric: &str, better: Better) -> Option<Contest> {
        let has_starts = |place: &usize| self.points[*place].starts.is_some_and(|starts| starts > 1);
        if !entrants.iter().any(has_starts) {
            return None;
        }
        let planned = self.runs.planned_starts();
        let finals = self.among_best(&self.candidates(entrants, metric, 0..planned), better);
        let (_, best) = finals.first()?;
        best.estimate.error?;
        let places: Vec<usize> = finals.iter().map(|(place, _)| *place).collect();
        if self.are_of_one_config(&places) || !self.runs.has_finals() {
            return self.decide(&finals, better, Standing::Alone);
        }
        let is_tried = places.iter().all(|place| self.is_tried_fresh(&self.points[*place]));
        let fresh = self.candidates(&places, metric, planned..u32::MAX);
        match is_tried && !fresh.is_empty() {
            true => self.decide(&fresh, better, Standing::Confirmed),
            false => self.decide(&finals, better, Standing::Unconfirmed),
        }
    }

    /// The points of several configs that must be measured on fresh starts before one of them is called the winner.
    pub fn finalists(&self, entrants: &[usize], metric: &str, better: Better) -> Vec<usize> {
        let candidates = self.candidates(entrants, metric, 0..self.runs.planned_starts());
        let finals = self.among_best(&candidates, better);
        let places: Vec<usize> = finals.into_iter().map(|(place, _)| place).collect();
        match self.are_of_one_config(&places) {
            true => Vec::new(),
            false => places,
        }
    }

    fn candidates(&self, entrants: &[usize], metric: &str, slots: Range<u32>) -> Vec<(usize, Candidate)> {
        let candidate = |place: &usize| {
            let point = &self.points[*place];
            let estimate = self.estimate_at(point, metric, &slots)?;
            let overrides = self.overrides(point);
            Some((*place, Candidate { estimate, overrides }))
        };
        entrants.iter().filter_map(candidate).collect()
    }

    /// Those that cannot be told from the best one, best first.
    fn among_best(&self, candidates: &[(usize, Candidate)], better: Better) -> Vec<(usize, Candidate)> {
        let all: Vec<Candidate> = candidates.iter().map(|(_, candidate)| *candidate).collect();
        let mut finals: Vec<_> = finalists(&all, better).into_iter().map(|at| candidates[at]).collect();
        finals.sort_by(|(_, a), (_, b)| better.order(a.estimate.log, b.estimate.log));
        finals
    }

    fn decide(&self, candidates: &[(usize, Candidate)], better: Better, standing: Standing) -> Option<Contest> {
        let all: Vec<Candidate> = candidates.iter().map(|(_, candidate)| *candidate).collect();
        let won = winner(&all, better)?;
        let equals = won.equals.iter().map(|at| candidates[*at]).collect_vec();
        let equals = self.among_best(&equals, better);
        Some(Contest {
            winner: candidates[won.index].0,
            estimate: candidates[won.index].1.estimate,
            equals: equals.into_iter().map(|(place, _)| place).collect(),
            standing,
        })
    }

    fn server_columns(&self) -> impl Iterator<Item = &Column> {
        let columns = self.runs.columns().iter();
        columns.filter(|column| column.section == Section::Serve)
    }

    /// How many settings a point's server config has.
    fn overrides(&self, point: &Point) -> usize {
        let settings = self.server_columns().filter(|column| !column.is_combo());
        settings
            .filter(|column| column.cells[point.row] != Cell::Missing)
            .count()
    }

    /// A point of the server config that is left at its defaults, by its place: the only one with the fewest settings.
    pub fn defaults(&self) -> Option<usize> {
        let overrides: Vec<usize> = self.points.iter().map(|point| self.overrides(point)).collect();
        let fewest = overrides.iter().min()?;
        let plain = overrides.iter().positions(|count| count == fewest).collect_vec();
        let is_one = plain.len() < overrides.len() && self.are_of_one_config(&plain);
        is_one.then(|| plain[0])
    }

    /// Whether points, by their places, were measured on servers of the same settings.
    pub fn are_of_one_config(&self, places: &[usize]) -> bool {
        let is_one = |column: &Column| {
            let mut cells = places.iter().map(|place| &column.cells[self.points[*place].row]);
            cells.all_equal()
        };
        self.server_columns().all(is_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{RunRow, TableBuilder};
    use serde_json::json;

    use vsweep_plan::validity::Validity;

    /// The contest of configs with one, two and three settings; each with the throughputs of its starts.
    fn contest(planned: u32, starts: [&[f64]; 3]) -> Option<Contest> {
        let mut builder = TableBuilder::new();
        builder.plan_starts(planned);
        for (config, values) in starts.iter().enumerate() {
            let names = ["a", "b", "c"];
            let settings = names[..=config].iter().map(|name| ((*name).to_owned(), json!(config)));
            let settings = settings.collect();
            for (slot, value) in values.iter().enumerate() {
                builder.push(RunRow {
                    point: names[config],
                    run: 0,
                    validity: Some(Validity::Valid),
                    serve: Some(&settings),
                    metrics: &[("output_throughput".into(), Cell::Float(*value))],
                    slot: slot as u32,
                    launch: Some(format!("{config}-{slot}")),
                    order: slot as u64,
                    ..RunRow::default()
                });
            }
        }
        let table = builder.finish();
        Points::of(&table).contest(&[0, 1, 2], "output_throughput", Better::Higher)
    }

    fn summary(contest: Option<Contest>) -> Option<(usize, Vec<usize>, Standing)> {
        contest.map(|contest| (contest.winner, contest.equals, contest.standing))
    }

    #[test]
    fn among_equals_the_plainest_wins_and_fresh_starts_decide() {
        let (plain, fancy, slow) = ([98.0, 100.0, 102.0], [101.0, 103.0, 99.0], [50.0, 51.0, 49.0]);
        let unconfirmed = contest(3, [&plain, &fancy, &slow]);
        assert_eq!(summary(unconfirmed), Some((0, vec![1, 0], Standing::Unconfirmed)));
        let fresh = |values: [f64; 3], more: [f64; 3]| [values, more].concat();
        let (plain, fancy) = (fresh(plain, [90.0, 90.5, 89.5]), fresh(fancy, [110.0, 110.5, 109.5]));
        let confirmed = contest(3, [&plain, &fancy, &slow]);
        assert_eq!(summary(confirmed), Some((1, vec![1], Standing::Confirmed)));
    }

    #[test]
    fn a_clear_winner_stands_alone_and_one_start_decides_nothing() {
        let alone = contest(3, [&[100.0, 101.0, 99.0], &[50.0, 51.0, 49.0], &[20.0, 21.0, 19.0]]);
        assert_eq!(summary(alone), Some((0, vec![0], Standing::Alone)));
        assert_eq!(summary(contest(1, [&[100.0], &[50.0], &[20.0]])), None);
    }
}
