//! Throughput of servers against the seconds until they are ready. Optimisation levels trade one for the other.

use super::ChartContext;
use super::multiples::groups;
use super::pareto;
use crate::chart::Chart;
use crate::findings::variation::varying;
use itertools::Itertools;
use vsweep_record::table::{Column, Measure, PlacedPoint, Section, Tradeoff};

/// Seconds from launch to ready.
const STARTUP: &str = "startup_s";

/// Ratio of the slowest start to the fastest below which the difference may be noise: two starts of one server took 28 and 34 s.
const LEAST_RATIO: f64 = 1.3;
/// Difference in seconds below which start-up times do not matter.
const LEAST_DIFFERENCE_S: f64 = 5.0;

/// Draws the workload with the most servers, if their start-up times differ.
pub fn charts(subject: &ChartContext<'_>) -> Vec<Chart> {
    let points = subject.points;
    let has = |metric: &&str| points.points.iter().any(|point| points.spread(point, metric).is_some());
    let throughput = ["output_throughput", "total_token_throughput"].into_iter().find(has);
    let measures = throughput.and_then(|throughput| {
        let startup = Measure::parse(&format!("{STARTUP}:lower")).ok()?;
        Some((startup, Measure::parse(throughput).ok()?))
    });
    let Some((startup, throughput)) = measures else {
        return Vec::new();
    };
    let params = varying(points).into_iter();
    let of_server: Vec<&Column> = params.filter(|column| column.section == Section::Serve).collect();
    let servers = |tradeoff: &Tradeoff<'_>| {
        let placed: Vec<&PlacedPoint<'_>> = tradeoff.placed.iter().collect();
        groups(&placed, &of_server, |placed| placed.point.row).len()
    };
    let tradeoffs = Tradeoff::of_each(points, &startup, &throughput);
    let most = tradeoffs.iter().rev().max_by_key(|tradeoff| servers(tradeoff));
    let Some(tradeoff) = most.filter(|tradeoff| servers(tradeoff) > 1) else {
        return Vec::new();
    };
    let starts = tradeoff.placed.iter().map(|placed| placed.x.value);
    if starts
        .minmax()
        .into_option()
        .is_none_or(|(least, most)| most < LEAST_RATIO * least || most - least < LEAST_DIFFERENCE_S)
    {
        return Vec::new();
    }
    let mut chart = pareto::draw(subject, tradeoff, &[], &[]);
    chart.name = "startup".into();
    chart.title = "Throughput against start-up".into();
    if tradeoffs.len() > 1 {
        chart.note += " Drawn is the workload that most servers have in common.";
    }
    vec![chart]
}
