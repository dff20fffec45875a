//! Charts of throughput per GPU against speed per user, with one curve for each server config. The load varies along a curve. If there are
//! few servers, each has its own colour; otherwise those that cannot be distinguished have one curve, and the colour shows the setting that
//! explains most.

use super::multiples::{groups, order};
use super::{ChartContext, labelled, of_workload};
use crate::chart::{Axis, Chart, MOST_CURVES, Mark, Panel, Scale, Series, Style};
use crate::findings::ranking::{Ranking, sort};
use crate::findings::variation::{name_workload, settings, swept, varying_within};
use crate::ordered::{Order, Ordered};
use crate::texts::words::{axis_title, short_name, short_setting, throughput_in_words};
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_base::units::show_many;
use vsweep_record::table::{Column, Measure, MetricSet, PlacedPoint, Section, Spread, Tradeoff};

/// Maximum number of servers that have a colour each.
const MOST_COLOURS: usize = 6;
/// Maximum number of servers that are drawn in the background.
const MOST_FAINT: usize = 40;
/// Distance within which two points count as one place, as a share of each axis.
const NEAR: f64 = 0.02;
/// Greatest number of points of a curve that are labelled with their load.
const MOST_LABELS: usize = 10;

/// Returns the chart of each workload, in the order of the workloads; `None` for a workload without a chart. `recommended` are indices of
/// points.
pub fn of_each(subject: &ChartContext<'_>, ranking: &Ranking, recommended: &[usize]) -> Vec<Option<Chart>> {
    let [x, y] = Measure::of_frontier(subject.points.runs);
    let tradeoffs = Tradeoff::of_each(subject.points, &x, &y);
    tradeoffs
        .iter()
        .enumerate()
        .map(|(place, tradeoff)| draw(subject, tradeoff, ranking.of_workload(place), recommended))
        .collect()
}

fn draw(
    subject: &ChartContext<'_>,
    tradeoff: &Tradeoff<'_>,
    ranked: &[String],
    recommended: &[usize],
) -> Option<Chart> {
    if !MetricSet::of(subject.points, &tradeoff.workload).gives_output {
        return None;
    }
    let varying = varying_within(subject.points, &tradeoff.workload);
    let (mut server_columns, bench): (Vec<&Column>, Vec<&Column>) =
        varying.into_iter().partition(|column| column.section == Section::Serve);
    let load = swept(subject.points, &bench)?;
    let named = server_columns.clone();
    sort(&mut server_columns, ranked);
    let load_of = |placed: &PlacedPoint<'_>| load.cells.at(placed.point.row).number().unwrap_or(f64::INFINITY);
    let placed = tradeoff.placed.iter();
    let placed = placed
        .ordered_by(|a, b| load_of(a).total_cmp(&load_of(b)))
        .collect_vec();
    // Families are in the order of the settings, as in the charts of latency, so that a server has the same colour in both.
    let mut families = groups(&placed, &server_columns, |placed| placed.point.row);
    if families.len() < 2 || families.iter().all(|family| family.len() < 2) {
        return None;
    }
    let front = tradeoff
        .frontier
        .iter()
        .map(|at| tradeoff.placed[*at].point.row)
        .collect_vec();
    let on_front = |family: &[&PlacedPoint<'_>]| family.iter().any(|placed| front.contains(&placed.point.row));
    let is_chosen = |family: &[&PlacedPoint<'_>]| family.iter().any(|own| subject.is_among(own.point, recommended));
    // The rows of servers that cannot be distinguished from another one, by the first row of that one.
    let mut alike: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    if families.len() > MOST_COLOURS {
        // Of servers that are alike, those recommended are drawn, else one on the frontier.
        families.order_by_key(|family| (!is_chosen(family), !on_front(family)));
        for family in std::mem::take(&mut families) {
            let row = family[0].point.row;
            match families
                .iter()
                .find(|drawn| !is_chosen(&family) && are_alike(drawn, &family, load))
            {
                Some(drawn) => alike.entry(drawn[0].point.row).or_default().push(row),
                None => families.push(family),
            }
        }
        families.order_by(|a, b| order(&server_columns, a[0].point.row, b[0].point.row));
    }
    let name = |family: &[&PlacedPoint<'_>]| {
        let row = family[0].point.row;
        let own = settings(&named, row);
        let Some([first, others @ ..]) = alike.get(&row).map(Vec::as_slice) else {
            return own;
        };
        let differs = |column: &&Column| column.cells.at(row) != column.cells.at(*first);
        let first = settings(&named.iter().copied().filter(differs).collect_vec(), *first);
        match others.len() {
            0 => format!("{own} (alike: {first})"),
            more => format!("{own} (alike: {first} and {more} more)"),
        }
    };
    let leading = server_columns.first().copied();
    let each_has_colour = families.len() <= MOST_COLOURS;
    if !each_has_colour {
        let highest = |family: &[&PlacedPoint<'_>]| family.iter().map(|placed| placed.y.value).fold(f64::MIN, f64::max);
        families.order_by(|a, b| highest(b).total_cmp(&highest(a)));
    }
    let (mut series, mut shown, mut faint) = (Vec::new(), Vec::new(), 0);
    let colour_of = |family: &Vec<&PlacedPoint<'_>>| {
        let row = family[0].point.row;
        Some(match each_has_colour {
            true => settings(&server_columns, row),
            false => short_setting(&leading?.name, &leading?.cells.at(row)),
        })
    };
    let colours = families.iter().map(colour_of).collect::<Option<Vec<String>>>()?;
    for (family, colour) in families.iter().zip(&colours) {
        let place = shown.iter().position(|known| *known == colour);
        let left = || colours.iter().unique().filter(|own| !shown.contains(own)).count();
        // Of the servers with the same setting, the best one gets its colour. Others get a colour of their own if they are on the frontier
        // and enough colours are left. Servers on the frontier have a colour in any case.
        let has_own = match place {
            None => shown.len() < if on_front(family) { MOST_CURVES } else { MOST_COLOURS },
            Some(_) => on_front(family) && shown.len() + left() < MOST_COLOURS,
        };
        match place {
            _ if has_own => {
                let (style, curve) = (Style::Curve(shown.len()), marks(family, Some(load)));
                series.push(Series::new(name(family), style, curve));
                shown.push(colour);
            }
            Some(place) if on_front(family) => {
                let name = format!("{colour}, other settings");
                series.push(Series::new(name, Style::Curve(place), marks(family, Some(load))));
            }
            _ => {
                faint += 1;
                if faint <= MOST_FAINT {
                    series.insert(0, Series::new("Other servers", Style::Faint, marks(family, None)));
                }
            }
        }
    }
    let ring = |at: &usize| {
        let placed = &tradeoff.placed[*at];
        let is_recommended = subject.is_among(placed.point, recommended);
        Mark {
            label: is_recommended.then(|| "recommended".to_owned()).into_iter().collect(),
            ..Mark::at(placed.x.value, placed.y.value)
        }
    };
    let is_drawn = |at: &&usize| {
        let row = tradeoff.placed[**at].point.row;
        families.iter().flatten().any(|own| own.point.row == row)
    };
    let frontier = tradeoff.frontier.iter().filter(is_drawn).map(ring).collect();
    series.push(Series::new("On the Pareto frontier", Style::Ring, frontier));
    let best = match (each_has_colour, leading) {
        (false, Some(leading)) => format!(
            " Coloured: for each value of {}, which explains most of the differences, the server with the highest throughput, and those on the frontier.",
            short_name(&leading.name)
        ),
        _ => String::new(),
    };
    let left_out = match faint.saturating_sub(MOST_FAINT) {
        0 => String::new(),
        more => format!(" Not drawn: {}.", show_many(more as u64, "slower server")),
    };
    let merged = match alike.is_empty() {
        true => "",
        false => " Alike: at each load the intervals overlap; one of these servers is drawn.",
    };
    let axis = |measure: &Measure| Axis::of(axis_title(&measure.metric), Scale::Linear);
    let is_repeated = tradeoff.placed.iter().any(|placed| placed.point.used.len() > 1);
    let workload = name_workload(subject.points, &tradeoff.workload);
    let note = format!(
        "One curve per server; the number next to a point is its load ({}). {}p and to the right is better.{best}{merged}{left_out}",
        short_name(&load.name),
        match (subject.points.has_estimates(), is_repeated) {
            (true, _) => "Estimates; u",
            (false, true) => "Medians over runs; u",
            (false, false) => "U",
        },
    );
    remove_repeated_labels(&mut series);
    let panel = Panel::of(axis(&tradeoff.x).floating(), axis(&tradeoff.y), series);
    let throughput = throughput_in_words(&tradeoff.y.metric);
    let title = of_workload(&format!("Each server: {throughput} against speed per user"), &workload);
    Some(subject.chart(title, note, vec![panel]))
}

/// Returns true if two servers were measured under the same loads, and the intervals of both figures overlap at each.
fn are_alike(a: &[&PlacedPoint<'_>], b: &[&PlacedPoint<'_>], load: &Column) -> bool {
    let overlap = |a: &Spread, b: &Spread| {
        let ((low, high), (least, most)) = (a.reach(), b.reach());
        low <= most && least <= high
    };
    let is_alike = |(a, b): (&&PlacedPoint<'_>, &&PlacedPoint<'_>)| {
        let is_same_load = load.cells.at(a.point.row) == load.cells.at(b.point.row);
        is_same_load && overlap(&a.x, &b.x) && overlap(&a.y, &b.y)
    };
    a.len() == b.len() && a.iter().zip(b).all(is_alike)
}

/// Removes the label of a mark if another mark at about the same place has the same label.
fn remove_repeated_labels(series: &mut [Series]) {
    let most = |of: fn(&Mark) -> f64| series.iter().flat_map(|own| &own.points).map(of).fold(0.0, f64::max);
    let (width, height) = (most(|mark| mark.x), most(|mark| mark.y));
    let mut named: Vec<Mark> = Vec::new();
    for mark in series.iter_mut().flat_map(|series| &mut series.points) {
        let is_near = |other: &Mark| {
            let (across, up) = ((other.x - mark.x).abs(), (other.y - mark.y).abs());
            other.label == mark.label && across <= NEAR * width && up <= NEAR * height
        };
        if named.iter().any(is_near) {
            mark.label = Vec::new();
        } else if !mark.label.is_empty() {
            named.push(mark.clone());
        }
    }
}

/// Returns the points of a server config. Some of them are labelled with their load, if it is given.
fn marks(family: &[&PlacedPoint<'_>], load: Option<&Column>) -> Vec<Mark> {
    let placed = family
        .iter()
        .map(|placed| (placed.point, placed.x.value, placed.y.value));
    labelled(placed, load, MOST_LABELS)
}
