//! Two figures of every point against each other: the points that no other beats, and the knee of this frontier.

use crate::table::{Better, Cell, Column, Point, Points, Section, Spread, Table, Workload, frontier, knee};
use vsweep_base::validity::Validity;

/// Output tokens per second for each user.
pub const PER_USER: &str = "tokens_per_user";
/// Output tokens per second for each GPU.
pub const PER_GPU: &str = "tokens_per_gpu";

/// A figure and its better direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// The column.
    pub metric: String,
    /// The better direction.
    pub better: Better,
}

/// A point with both figures.
#[derive(Debug, Clone)]
pub struct PlacedPoint<'p> {
    /// The point.
    pub point: &'p Point,
    /// Its first figure over its runs.
    pub x: Spread,
    /// Its second figure over its runs.
    pub y: Spread,
    /// True if no other point of its workload beats it. With an answer, only points that meet the plan's targets compete.
    pub on_frontier: bool,
    /// True if it is the frontier's knee.
    pub is_knee: bool,
}

/// The points of one workload in the plane of two figures.
#[derive(Debug, Clone)]
pub struct Tradeoff<'p> {
    /// Measure of the horizontal axis.
    pub x: Measure,
    /// Measure of the vertical axis.
    pub y: Measure,
    /// The points that have both figures, in the order of the table.
    pub placed: Vec<PlacedPoint<'p>>,
    /// Indices in `placed` of the points on the frontier, from the best `x` to the worst.
    pub frontier: Vec<usize>,
    /// The workload.
    pub workload: Workload<'p>,
}

impl Measure {
    /// Reads `p99_ttft_ms` or `p99_ttft_ms:lower`. Without a direction, the name of the metric decides, as in [`natural_direction`].
    pub fn parse(text: &str) -> Result<Measure, String> {
        let (metric, better) = match text.rsplit_once(':') {
            None => (text, natural_direction(text)),
            Some((metric, "higher")) => (metric, Better::Higher),
            Some((metric, "lower")) => (metric, Better::Lower),
            Some((metric, other)) => {
                return Err(format!(
                    "`{other}` is not a direction; write {metric}:higher or {metric}:lower"
                ));
            }
        };
        Ok(Measure {
            metric: metric.trim().to_owned(),
            better,
        })
    }

    /// Returns the figures of the usual frontier: output tokens per second for each user, and for each GPU. If no run has a known number of
    /// GPUs, as with a server behind a URL, the second figure is that of the server.
    pub fn of_frontier(runs: &Table) -> [Measure; 2] {
        let has_gpus = runs.column(PER_GPU).is_some_and(Column::has_numbers);
        let throughput = if has_gpus { PER_GPU } else { "output_throughput" };
        [PER_USER, throughput].map(|metric| Measure {
            metric: metric.to_owned(),
            better: natural_direction(metric),
        })
    }
}

/// Returns the better direction of a metric by its name; higher if the name does not show it.
pub fn natural_direction(metric: &str) -> Better {
    Better::by_name(metric).unwrap_or(Better::Higher)
}

impl<'p> Tradeoff<'p> {
    /// Returns the trade-off of each workload, with the points that have both figures.
    pub fn of_each(points: &'p Points<'_>, x: &Measure, y: &Measure) -> Vec<Tradeoff<'p>> {
        let workloads = points.workloads().into_iter();
        workloads.map(|workload| Tradeoff::of(points, workload, x, y)).collect()
    }

    fn of(points: &'p Points<'_>, workload: Workload<'p>, x: &Measure, y: &Measure) -> Tradeoff<'p> {
        let place = |point: &'p Point| {
            let (x, y) = (points.spread(point, &x.metric)?, points.spread(point, &y.metric)?);
            (x.value.is_finite() && y.value.is_finite()).then_some(PlacedPoint {
                point,
                x,
                y,
                on_frontier: false,
                is_knee: false,
            })
        };
        let own = workload.points.iter().map(|at| &points.points[*at]);
        let mut placed: Vec<PlacedPoint<'_>> = own.filter_map(place).collect();
        let positions: Vec<(f64, f64)> = placed.iter().map(|placed| (placed.x.value, placed.y.value)).collect();
        let better = (x.better, y.better);
        // Points that the answer leaves out of its frontier are beaten, or do not meet the plan's targets.
        let answered = points.frontier(&x.metric, &y.metric);
        let may_be_on_it = |at: &usize| answered.is_none_or(|on_it| on_it.contains(&placed[*at].point.id));
        let candidates: Vec<usize> = (0..placed.len()).filter(may_be_on_it).collect();
        let of_candidates: Vec<(f64, f64)> = candidates.iter().map(|at| positions[*at]).collect();
        let found = frontier(&of_candidates, better).into_iter();
        let frontier: Vec<usize> = found.map(|at| candidates[at]).collect();
        for at in &frontier {
            placed[*at].on_frontier = true;
        }
        if let Some(at) = knee(&positions, &frontier, better) {
            placed[at].is_knee = true;
        }
        Tradeoff {
            x: x.clone(),
            y: y.clone(),
            placed,
            frontier,
            workload,
        }
    }

    /// Returns the number of points that lack a figure.
    pub fn left_out(&self) -> usize {
        self.workload.points.len() - self.placed.len()
    }
}

/// Returns a table with one row for each point: its parameters, both figures with their smallest and largest value, and marks for the
/// frontier and the knee.
pub fn list_placed(tradeoffs: &[Tradeoff<'_>], runs: &Table) -> Table {
    let Some(first) = tradeoffs.first() else {
        return Table::default();
    };
    let placed: Vec<&PlacedPoint<'_>> = tradeoffs.iter().flat_map(|tradeoff| &tradeoff.placed).collect();
    let column = |name: &str, section, cell: &dyn Fn(&PlacedPoint<'_>) -> Cell| {
        Column::of(name, section, placed.iter().map(|placed| cell(placed)))
    };
    let mut columns = vec![
        column("point", Section::Identity, &|placed| {
            Cell::Text(placed.point.id.as_ref().into())
        }),
        column("validity", Section::Identity, &|placed| {
            placed.point.validity.map(Validity::name).into()
        }),
    ];
    let params = runs.columns().iter().filter(|column| column.section.is_parameter());
    columns.extend(params.map(|param| column(&param.name, param.section, &|placed| param.cells.at(placed.point.row))));
    let spreads: (Vec<Spread>, Vec<Spread>) = placed.iter().map(|placed| (placed.x, placed.y)).unzip();
    for (Measure { metric, .. }, spreads) in [(&first.x, spreads.0), (&first.y, spreads.1)] {
        let mut figure = |end: &str, figure: fn(&Spread) -> f64| {
            let figures = spreads.iter().map(figure);
            columns.push(Column::of(format!("{metric}{end}"), Section::Metric, figures));
        };
        figure("", |spread| spread.value);
        figure("_min", |spread| spread.min);
        figure("_max", |spread| spread.max);
    }
    columns.push(column("runs", Section::Derived, &|placed| {
        placed.point.used.len().into()
    }));
    columns.push(column("frontier", Section::Derived, &|placed| {
        Cell::Bool(placed.on_frontier)
    }));
    columns.push(column("knee", Section::Derived, &|placed| Cell::Bool(placed.is_knee)));
    Table::of(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_read_or_natural() {
        let better = |text| Measure::parse(text).expect("a measure").better;
        assert_eq!(better("p99_ttft_ms"), Better::Lower);
        assert_eq!(better("output_throughput"), Better::Higher);
        assert_eq!(better("p99_ttft_ms:higher"), Better::Higher);
        assert!(Measure::parse("x:up").expect_err("no direction").contains(":lower"));
    }
}
