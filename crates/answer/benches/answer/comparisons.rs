//! Planted comparisons: two servers with a known ratio, each measured in its own experiment.

use super::planted::log_between;
use vsweep_answer::{
    Better, ComparisonInput, Config, Experiment, Figure, Limit, Metric, NoisePrior, Point, Random, RequirementVerdict,
    Run, Scale, Verdict, compare,
};

const METRIC: &str = "output_throughput";
/// The margin of comparisons.
const MARGIN: f64 = 0.03;

/// The result of one comparison.
pub struct ComparisonResult {
    /// Number of intervals of ratios that contain the truth, and of all.
    pub held: (usize, usize),
    /// True if nothing was planted.
    pub is_same: bool,
    /// True if the verdict at the first point is `improved` or `regressed`, although nothing was planted or the truth has the other
    /// direction.
    pub is_false_alarm: bool,
    /// Starts of each side.
    pub starts: usize,
    /// True if the verdict at the first point is `same`, although the true ratio is beyond the margin.
    pub is_overlooked: bool,
    /// True if a limit of -5 % is reported as broken at some point, and true if it is reported as undecided.
    pub guard: (bool, bool),
}

/// Plants a ratio, measures it and judges the answer.
pub fn judge(seed: u64) -> ComparisonResult {
    let mut random = Random::of(seed, &["comparisons"]);
    let random = &mut random;
    let is_same = random.below(2) == 0;
    let log_ratio = if is_same { 0.0 } else { 0.2 * (random.uniform() - 0.5) };
    let (starts, runs, loads) = (1 + random.below(4), 1 + random.below(4), 1 + random.below(4));
    let (run, start) = (log_between(random, 0.002, 0.05), 0.03 * random.uniform());
    let requests = log_between(random, 100.0, 2000.0);
    let mut side = |shift: f64, seed: u64| {
        let effects: Vec<f64> = (0..starts).map(|_| start * random.normal()).collect();
        let mut points = Vec::new();
        for load in 0..loads {
            let mut own = Vec::new();
            for (name, effect) in effects.iter().enumerate() {
                for _ in 0..runs {
                    let error = 0.4 / requests.sqrt();
                    let value = (7.0 + shift + effect + run * random.normal() + error * random.normal()).exp();
                    own.push(Run {
                        start: name.to_string(),
                        node: "n".to_owned(),
                        disturbed: false,
                        figures: [(METRIC, Figure::Value { value, error })].into(),
                    });
                }
            }
            points.push(Point {
                id: load.to_string(),
                config: "c".to_owned(),
                load: load.to_string(),
                runs: own,
                ..Point::default()
            });
        }
        Experiment {
            metrics: vec![Metric {
                name: METRIC.to_owned(),
                scale: Scale::Log,
                better: Better::Higher,
                prior: NoisePrior::THROUGHPUT,
            }],
            configs: vec![Config {
                id: "c".to_owned(),
                ..Config::default()
            }],
            points,
            seed,
            ..Experiment::default()
        }
    };
    let (base, new) = (side(0.0, seed), side(log_ratio, seed));
    let found = compare(&ComparisonInput {
        base: &base,
        new: &new,
        pairs: (0..loads).map(|load| (load.to_string(), load.to_string())).collect(),
        margin: &|_| MARGIN,
        limits: vec![Limit {
            metric: METRIC.to_owned(),
            change: -0.05,
        }],
    });
    let truth = log_ratio.exp();
    let holds = |point: &&vsweep_answer::ComparedPoint| point.ratio.low <= truth && truth <= point.ratio.high;
    let says = |verdict: Verdict| found.points[0].verdict == verdict;
    let is_far = log_ratio.abs() > MARGIN.ln_1p();
    let any = |requirement: RequirementVerdict| found.limits.iter().any(|limit| limit.requirement == requirement);
    ComparisonResult {
        held: (found.points.iter().filter(holds).count(), found.points.len()),
        is_same,
        starts,
        is_false_alarm: (says(Verdict::Improved) && truth <= 1.0) || (says(Verdict::Regressed) && truth >= 1.0),
        is_overlooked: is_far && says(Verdict::Same),
        guard: (any(RequirementVerdict::Broken), any(RequirementVerdict::Undecided)),
    }
}
