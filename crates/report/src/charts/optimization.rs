//! The course of an optimisation: the figure of each start against the server time spent so far, and the best figure so far.

use super::ChartContext;
use super::x_axis::scale_of_figures;
use crate::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::sentences::parts::{defaults, split};
use crate::texts::words::axis_title;
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_answer::{Answer, Better, CandidateSummary, Estimate, Goal, OptimizationState};
use vsweep_base::units::show_many;

/// Fewest measured servers for a chart.
const FEWEST: usize = 3;
/// Horizontal distance of a prediction from its start, as a share of the axis.
const PREDICTION_SHIFT: f64 = 0.01;
/// Maximum number of predictions that are drawn with their intervals. More intervals would hide everything else.
const MOST_INTERVALS: usize = 40;
/// Most settings in one line of a label.
const SETTINGS_PER_LINE: usize = 2;
/// Units of time in seconds, the largest first.
const UNITS: [(f64, &str); 2] = [(3600.0, "h"), (60.0, "min")];
const SECOND: (f64, &str) = (1.0, "s");

/// Returns the chart, or `None` unless there is an optimisation with figures of several servers.
pub fn chart(subject: &ChartContext<'_>, answer: &Answer) -> Option<Chart> {
    let found = answer.optimization.as_deref()?;
    let course = Course::of(answer, found)?;
    let mut note = "Each point is a start of a server; bars are 95 % intervals by its own runs.".to_owned();
    if !course.predicted.is_empty() {
        note += " Grey: predicted before the first start.";
    }
    note += " Labels: the settings in which a new best server differs from the previous one.";
    if course.without_figure > 0 {
        let without = show_many(course.without_figure as u64, "start");
        note += &format!(" {without} gave no figure.");
    }
    let title = "Course of the optimisation".to_owned();
    let chart = subject.chart(title, note, vec![course.panel(answer, found)]);
    let name = "optimize".to_owned();
    Some(Chart { name, ..chart })
}

/// Everything that the chart draws.
#[derive(Default)]
struct Course {
    /// The unit of the time axis.
    unit: &'static str,
    /// End of the time axis, in `unit`.
    end: f64,
    predicted: Vec<Mark>,
    /// First starts of servers, then further starts.
    starts: [Vec<Mark>; 2],
    best: Vec<Mark>,
    rings: Vec<Mark>,
    /// Number of starts without a figure.
    without_figure: usize,
}

impl Course {
    fn of(answer: &Answer, found: &OptimizationState) -> Option<Course> {
        let figures = found.history.iter().filter(|start| start.value.is_some());
        let seconds: f64 = found.history.iter().map(|start| start.seconds).sum();
        if figures.map(|start| &start.config).unique().count() < FEWEST || seconds <= 0.0 {
            return None;
        }
        let large = UNITS.into_iter().find(|(second, _)| seconds >= 2.0 * second);
        let (second, unit) = large.unwrap_or(SECOND);
        let mut course = Course {
            unit,
            end: seconds / second,
            ..Course::default()
        };
        let candidates = found.candidates.iter().map(|candidate| (&*candidate.config, candidate));
        let candidates: BTreeMap<&str, &CandidateSummary> = candidates.collect();
        let name = |config: &str| candidates.get(config).map_or("", |candidate| &candidate.name);
        let better = better(answer, found);
        // Number and sum of the logarithms of each server's figures.
        let mut known: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let mut best = None;
        let mut x = 0.0;
        for start in &found.history {
            x += start.seconds / second;
            let Some(value) = &start.value else {
                course.without_figure += 1;
                continue;
            };
            let config = &*start.config;
            let is_first = !known.contains_key(config);
            let sums = known.entry(config).or_default();
            *sums = (sums.0 + 1.0, sums.1 + value.value.ln());
            let before = best;
            let (leader, figure) = leader(&known, better)?;
            best = Some((leader, figure));
            let mut mark = mark_of(x, value);
            if let Some((former, figure)) = before {
                course.best.push(Mark::at(x, figure));
                if leader == config && former != config {
                    mark.label = difference(name(config), name(former));
                }
            }
            course.best.push(Mark::at(x, figure));
            if found.best.as_deref() == Some(config) {
                course.rings.push(Mark::at(x, mark.y));
            }
            course.starts[usize::from(!is_first)].push(mark);
            let predicted = candidates.get(config).and_then(|own| own.predicted.as_ref());
            if let Some(predicted) = predicted.filter(|_| is_first) {
                let mark = mark_of(x - PREDICTION_SHIFT * course.end, predicted);
                course.predicted.push(mark);
            }
        }
        course.best.push(Mark::at(course.end, best?.1));
        if course.predicted.len() > MOST_INTERVALS {
            course.predicted.iter_mut().for_each(|mark| mark.bar = None);
        }
        Some(course)
    }

    fn panel(self, answer: &Answer, found: &OptimizationState) -> Panel {
        let (unit, end) = (self.unit, self.end);
        let [first, further] = self.starts;
        let of_defaults = found.defaults.as_ref().and_then(|config| {
            let candidate = found.candidates.iter().find(|candidate| candidate.config == *config)?;
            let measured = found
                .history
                .iter()
                .any(|start| start.config == *config && start.value.is_some());
            let value = candidate.value.filter(|_| measured)?.value;
            let name = defaults(answer.name_of(config));
            Some((name, vec![Mark::at(0.0, value), Mark::at(end, value)]))
        });
        let (name, line) = of_defaults.unwrap_or_default();
        let series = vec![
            Series::new("predicted", Style::Background, self.predicted),
            Series::new(name, Style::Limit, line),
            Series::new("best so far", Style::Line(0), self.best),
            Series::new("first start of a server", Style::Points(0), first),
            Series::new("a further start", Style::Points(1), further),
            Series::new("the best server", Style::Ring, self.rings),
        ];
        let x = Axis::of(format!("Server time so far ({unit})"), Scale::Linear).covering(0.0, end);
        let figures = series.iter().flat_map(|series| &series.points).map(|mark| mark.y);
        let y = Axis::of(axis_of(answer, found), scale_of_figures(figures)).floating();
        Panel::of(x, y, series)
    }
}

/// The best server, by the geometric mean over its starts, and this mean. Each server has the number and the sum of its logarithms.
fn leader<'a>(known: &BTreeMap<&'a str, (f64, f64)>, better: Better) -> Option<(&'a str, f64)> {
    let means = known.iter();
    let means = means.map(|(config, (count, sum))| (*config, (sum / count).exp()));
    means.reduce(|one, other| match better.prefers(other.1, one.1) {
        true => other,
        false => one,
    })
}

fn mark_of(x: f64, estimate: &Estimate) -> Mark {
    Mark {
        bar: Some((estimate.low, estimate.high)),
        ..Mark::at(x, estimate.value)
    }
}

/// The settings in which a server differs from an earlier one, in short lines; all settings if none differ.
fn difference(name: &str, before: &str) -> Vec<String> {
    let (same, differing) = split(name, before);
    let shown = if differing.is_empty() { same } else { differing };
    shown.chunks(SETTINGS_PER_LINE).map(|line| line.join(", ")).collect()
}

/// Returns true if several workloads are answered together. The figure of a server is then its smallest share of a workload's best figure.
fn is_joint(answer: &Answer, found: &OptimizationState) -> bool {
    answer.together.iter().any(|own| own.question == found.question)
}

fn better(answer: &Answer, found: &OptimizationState) -> Better {
    let mut asked = answer.questions.iter().filter(|own| own.question == found.question);
    match asked.next() {
        Some(first) if !is_joint(answer, found) => first.better,
        _ => Better::Higher,
    }
}

/// The title of the vertical axis: the figure that is optimised.
fn axis_of(answer: &Answer, found: &OptimizationState) -> String {
    if is_joint(answer, found) {
        return "Smallest share of a workload's best".to_owned();
    }
    let (name, adds_up) = match answer.questions.iter().find(|own| own.question == found.question) {
        Some(first) => match &first.goal {
            Goal::Metric { name, adds_up } => (name, *adds_up),
            Goal::Load { parameter, .. } => (parameter, true),
        },
        None => return found.question.clone(),
    };
    match answer.gpus.filter(|_| adds_up) {
        Some(gpus) => format!("{}, on {}", axis_title(name), show_many(u64::from(gpus), "GPU")),
        None => axis_title(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use vsweep_record::table::{Points, TableBuilder};

    /// The answer of an optimisation with these starts, each a server and its figure.
    fn answer(starts: &[(&str, Option<f64>)]) -> Answer {
        let interval = |value: f64| json!({"value": value, "low": value - 5.0, "high": value + 5.0});
        let history = starts.iter();
        let history =
            history.map(|(config, value)| json!({"config": config, "seconds": 1800, "value": value.map(interval)}));
        let candidate = |(config, name): (&str, &str)| {
            json!({"config": config, "name": name, "state": "measured", "starts": 1, "reason": null, "value": interval(100.0),
                   "predicted": interval(90.0)})
        };
        let servers = [
            ("a", "default settings"),
            ("b", "TP 2, seqs 64"),
            ("c", "TP 2, seqs 128"),
            ("d", "TP 4, seqs 64"),
        ];
        let answer = json!({
            "version": 1, "margin": 0.01, "gpus": 8, "configs": [], "questions": [], "together": [], "frontiers": [], "noise": [],
            "estimates": [],
            "optimization": {
                "question": "Throughput", "ended": null, "certainty": 0.95, "best": "c", "probability": 0.5, "starts": 5, "seconds": 1.0,
                "grid_seconds": null, "hour_gain": 0.0, "defaults": "a", "over_defaults": null,
                "candidates": servers.map(candidate), "history": history.collect::<Vec<Value>>(),
            },
        });
        serde_json::from_value(answer).expect("an answer")
    }

    fn drawn(starts: &[(&str, Option<f64>)]) -> Option<Chart> {
        let table = TableBuilder::new().finish();
        let points = Points::of(&table);
        let subject = ChartContext {
            experiment: "night",
            points: &points,
        };
        chart(&subject, &answer(starts))
    }

    const NIGHT: [(&str, Option<f64>); 6] = [
        ("a", Some(100.0)),
        ("b", Some(120.0)),
        ("d", None),
        ("c", Some(130.0)),
        ("c", Some(110.0)),
        ("b", Some(121.0)),
    ];

    #[test]
    fn the_best_so_far_is_that_of_the_means_and_each_new_one_says_what_it_changes() {
        let chart = drawn(&NIGHT).expect("three servers");
        assert!(chart.note.contains("1 start gave no figure"), "{}", chart.note);
        let panel = &chart.panels[0];
        assert_eq!(panel.x.title, "Server time so far (h)");
        let series = |name: &str| {
            let own = panel.series.iter().find(|series| series.name == name);
            own.unwrap_or_else(|| panic!("no {name}: {panel:?}")).points.clone()
        };
        let places = |marks: &[Mark]| marks.iter().map(|mark| (mark.x, mark.y.round())).collect::<Vec<_>>();
        let (first, further) = (series("first start of a server"), series("a further start"));
        assert_eq!(places(&first), [(0.5, 100.0), (1.0, 120.0), (2.0, 130.0)]);
        assert_eq!(places(&further), [(2.5, 110.0), (3.0, 121.0)]);
        assert_eq!(
            first[1].label,
            ["TP 2, seqs 64"],
            "nothing is left of the default settings"
        );
        assert_eq!(first[2].label, ["seqs 128"], "the parallelism stays");
        // Its second start makes the mean of `c` worse than that of `b`.
        let best = [
            (0.5, 100.0),
            (1.0, 100.0),
            (1.0, 120.0),
            (2.0, 120.0),
            (2.0, 130.0),
            (2.5, 130.0),
            (2.5, 120.0),
        ];
        assert_eq!(places(&series("best so far"))[..7], best);
        assert!(further[0].label.is_empty(), "its start is not that of the new best");
        assert_eq!(places(&series("the best server")), [(2.0, 130.0), (2.5, 110.0)]);
        assert_eq!(
            places(&series("the default settings (a)")),
            [(0.0, 100.0), (3.0, 100.0)]
        );
        assert_eq!(series("predicted").len(), 3, "one for each server with a figure");
    }

    #[test]
    fn two_servers_have_no_course() {
        assert_eq!(drawn(&NIGHT[..3]), None);
        assert!(drawn(&NIGHT[..4]).is_some());
    }
}
