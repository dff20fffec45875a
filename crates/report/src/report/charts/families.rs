//! One curve a server config in the plane of throughput per GPU against speed per user, with the load along it: what each server can
//! be, beside what every other can be. The setting that matters most gives the colours.

use super::multiples::groups;
use super::{Subject, of_workload};
use crate::report::chart::{Axis, Chart, MOST_CURVES, Mark, Panel, Scale, Series, Style};
use crate::report::effects::{Findings, Mattered};
use crate::report::variation::{name_workload, settings, swept, varying_within};
use crate::report::words::{axis_title, short_name, short_setting};
use crate::report::yardstick::Yardstick;
use vsweep_plan::units::show_many;
use vsweep_record::table::{Column, Measure, PlacedPoint, Section, Tradeoff};

/// Servers up to which each has a colour of its own.
const MOST_OWN: usize = 6;
/// Servers that stay in the background.
const MOST_FAINT: usize = 40;
/// Points of a curve whose load stands beside them.
const MOST_LABELS: usize = 10;

/// The chart of each workload, in their order; `None` for those that have none.
pub fn of_each(subject: &Subject<'_>, found: &Findings<'_>) -> Vec<Option<Chart>> {
    let (x, y) = (Measure::tokens_per_user(), Measure::tokens_per_gpu());
    let tradeoffs = Tradeoff::of_each(subject.points, &x, &y);
    let told = tradeoffs.iter().enumerate();
    told.map(|(place, tradeoff)| draw(subject, tradeoff, found.of_workload(place)))
        .collect()
}

/// A server config and its points, from the lowest load to the highest.
struct Family<'t> {
    points: Vec<&'t PlacedPoint<'t>>,
    /// Its settings in words.
    name: String,
}

fn draw(subject: &Subject<'_>, tradeoff: &Tradeoff<'_>, found: &[Mattered<'_>]) -> Option<Chart> {
    if !Yardstick::of(subject.points, &tradeoff.workload).gives_output {
        return None;
    }
    let varying = varying_within(subject.points, &tradeoff.workload);
    let (mut server, bench): (Vec<&Column>, Vec<&Column>) =
        varying.into_iter().partition(|column| column.section == Section::Serve);
    let load = swept(subject.points, &bench)?;
    if let Some(found) = found.first() {
        found.sort(&mut server);
    }
    let families = families(tradeoff, &server, load);
    if families.len() < 2 || families.iter().all(|family| family.points.len() < 2) {
        return None;
    }
    let leading = found.first().map(Mattered::leading);
    let is_leading = |column: &&Column| Some(column.name.as_str()) == leading;
    let leading = server.iter().copied().find(is_leading).or(server.first().copied());
    let mut series = Vec::new();
    let is_own = families.len() <= MOST_OWN;
    let mut shown: Vec<String> = Vec::new();
    let mut faint = 0;
    let mut ranked: Vec<&Family<'_>> = families.iter().collect();
    if !is_own {
        ranked.sort_by(|a, b| b.highest().total_cmp(&a.highest()));
    }
    for family in ranked {
        let colour = match is_own {
            true => family.name.clone(),
            false => short_setting(&leading?.name, &leading?.cells[family.points[0].point.row]),
        };
        // Of the servers of one colour, only the best one stands out.
        if shown.contains(&colour) || shown.len() == MOST_CURVES {
            faint += 1;
            if faint <= MOST_FAINT {
                series.insert(0, family.series("Other servers".into(), Style::Faint, load));
            }
        } else {
            series.push(family.series(colour.clone(), Style::Curve(shown.len()), load));
            shown.push(colour);
        }
    }
    let best = match (is_own, leading) {
        (false, Some(leading)) => format!(
            " Coloured: for each value of {}, which matters most, the server with the highest throughput.",
            short_name(&leading.name)
        ),
        _ => String::new(),
    };
    let left_out = match faint.saturating_sub(MOST_FAINT) {
        0 => String::new(),
        more => format!(" Not drawn: {}.", show_many(more as u64, "slower server")),
    };
    let axis = |measure: &Measure| Axis::of(axis_title(&measure.metric), Scale::Linear);
    let is_repeated = tradeoff.placed.iter().any(|placed| placed.point.used.len() > 1);
    let workload = name_workload(subject.points, &tradeoff.workload);
    let note = format!(
        "One curve a server; the number beside a point is its load ({}). {}p and to the right is better.{best}{left_out}",
        short_name(&load.name),
        if is_repeated { "Medians over runs; u" } else { "U" },
    );
    let panel = Panel::of(axis(&tradeoff.x), axis(&tradeoff.y), series);
    let title = of_workload("Throughput per GPU against speed per user", &workload);
    Some(subject.chart(title, note, vec![panel]))
}

/// The points of each server config, in the order of these settings, as in the charts of latency: a server has one colour.
fn families<'t>(tradeoff: &'t Tradeoff<'t>, server: &[&Column], load: &Column) -> Vec<Family<'t>> {
    let placed: Vec<&PlacedPoint<'_>> = tradeoff.placed.iter().collect();
    let family = |mut points: Vec<&'t PlacedPoint<'t>>| {
        points.sort_by(|a, b| load_of(load, a).total_cmp(&load_of(load, b)));
        let name = settings(server, points[0].point.row);
        Family { points, name }
    };
    let families = groups(&placed, server, |placed| placed.point.row);
    families.into_iter().map(family).collect()
}

fn load_of(load: &Column, placed: &PlacedPoint<'_>) -> f64 {
    load.cells[placed.point.row].number().unwrap_or(f64::INFINITY)
}

impl Family<'_> {
    fn highest(&self) -> f64 {
        let throughputs = self.points.iter().map(|placed| placed.y.median);
        throughputs.fold(f64::MIN, f64::max)
    }

    fn series(&self, name: String, style: Style, load: &Column) -> Series {
        let step = self.points.len().div_ceil(MOST_LABELS);
        let mark = |(i, placed): (usize, &&PlacedPoint<'_>)| {
            let is_labelled = matches!(style, Style::Curve(_)) && i.is_multiple_of(step);
            let load = is_labelled.then(|| load.cells[placed.point.row].to_string());
            Mark {
                label: load.into_iter().collect(),
                suspect: placed.point.is_suspect(),
                ..Mark::at(placed.x.median, placed.y.median)
            }
        };
        Series::new(name, style, self.points.iter().enumerate().map(mark).collect())
    }
}
