//! The answer of an experiment as data, one for each workload: which points are best at what, which others cannot be told
//! apart from them, and the Pareto frontier. The HTML page and the Markdown summary show the same answer.

use super::goals::Goals;
use super::variation::name_workload;
use super::yardstick::Yardstick;
use crate::report::ordered::Order;
use itertools::Itertools;
use vsweep_plan::units::show_many;
use vsweep_plan::validity::Validity;
use vsweep_record::table::{Better, Point, Points, Spread, Standing, Workload, distinct, frontier, knee};

/// The axes of the frontier: speed per user against throughput per GPU, both better when higher.
pub const FRONTIER: [&str; 2] = ["tokens_per_user", "tokens_per_gpu"];

/// What the frontier's knee is the answer to.
pub const KNEE: &str = "Best balance";

/// What a sweep found for one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What tells the workload from the others; empty if it is the only one.
    pub workload: String,
    /// The best point for each question, in the order of a report.
    pub bests: Vec<Best>,
    /// Points on the Pareto frontier by place in [`Points::points`], from the highest speed per user to the lowest.
    pub frontier: Vec<usize>,
    /// The same without points that are as good as an earlier one (see [`distinct`]): a point, and how many are as good.
    pub distinct: Vec<(usize, usize)>,
    /// The frontier's knee, where it has one.
    pub knee: Option<usize>,
    /// Whether some point has several runs, without which no tie can be seen.
    pub repeated: bool,
    /// Whether every point that competes is suspect.
    pub doubtful: bool,
    /// Points that were measured and do not compete, because no run of theirs is a measurement of them.
    pub invalid: usize,
    /// Points that were measured and do not compete, because they do not meet what is `wanted`.
    pub missing: usize,
    /// What the plan asks of a point: `chat or batch`; empty if nothing.
    pub wanted: String,
    /// Whether no point meets it. Then nothing is best, and the frontier is that of all points.
    pub none_meets: bool,
}

/// The best point for one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// What it is best at.
    pub question: &'static str,
    /// The figure it is judged by.
    pub metric: &'static str,
    /// Which place in [`Points::points`].
    pub point: usize,
    /// The figure over its runs.
    pub spread: Spread,
    /// Other points that cannot be told from it, best first: by their intervals over starts, or, with one start, because their runs
    /// reach into the range of its runs.
    pub tied: Vec<usize>,
    /// What it rests on; none with one start.
    pub standing: Option<Standing>,
    /// The best point of another server config, and how many times its figure the best one is; none if there is no other.
    pub runner_up: Option<(usize, f64)>,
    /// The best point of the server with the default settings, and how many times its figure the best one is; none if the best one
    /// has them, or none was measured.
    pub default: Option<(usize, f64)>,
}

impl Best {
    /// In what others are tied with it.
    pub fn why_tied(&self) -> &'static str {
        match self.standing {
            None => "within the spread of the runs",
            Some(standing) => standing.words(),
        }
    }
}

impl Answer {
    /// What to say of points that do not compete, a sentence each.
    pub fn left_out(&self) -> Vec<String> {
        let sentence = |count: usize, why: String| {
            let counted = show_many(count as u64, "point");
            (count > 0).then(|| format!("{counted} left out{why}; see points.csv"))
        };
        let sentences = [
            sentence(self.invalid, ": no run measured what it claims (invalid)".to_owned()),
            sentence(self.missing, format!(" for not meeting {}", self.wanted)),
        ];
        sentences.into_iter().flatten().collect()
    }

    /// That nothing is recommended, where no point meets what is wanted.
    pub fn none(&self) -> Option<String> {
        let sentence = || format!("No point meets {}, so none is recommended", self.wanted);
        self.none_meets.then(sentence)
    }

    /// Whether anything was measured that competes, or would.
    pub fn is_measured(&self) -> bool {
        !self.bests.is_empty() || self.none_meets
    }

    /// A question as it is asked of the workload: `Lowest latency`, with several `Lowest latency, 512 in, 16 out`.
    pub fn ask(&self, question: &str) -> String {
        match self.workload.as_str() {
            "" => question.to_owned(),
            workload => format!("{question}, {workload}"),
        }
    }
}

/// The mark of a point whose figures are in doubt: `suspect: run_too_short, sample_too_small`; nothing for any other.
pub fn mark(point: &Point) -> Option<String> {
    point
        .is_suspect()
        .then(|| format!("suspect: {}", point.codes.iter().join(", ")))
}

/// Finds the answer of every workload, in the order of [`Points::workloads`]; one that was not measured has none.
pub fn find(points: &Points<'_>, goals: &Goals) -> Vec<Answer> {
    let workloads = points.workloads().into_iter();
    workloads.map(|workload| find_for(points, goals, &workload)).collect()
}

/// Valid and suspect points compete if they meet what the plan asks, invalid ones do not. Who shows a suspect one marks it.
pub fn find_for(points: &Points<'_>, goals: &Goals, workload: &Workload<'_>) -> Answer {
    let own = || workload.points.iter().copied();
    let measured: Vec<usize> = own().filter(|i| !points.points[*i].used.is_empty()).collect();
    let meeting: Vec<usize> = measured.iter().copied().filter(|i| goals.competes(*i)).collect();
    let none_meets = meeting.is_empty() && !measured.is_empty();
    let missing = measured.len() - meeting.len();
    let entrants = if none_meets { measured } else { meeting };
    let is_suspect = |i: &usize| points.points[*i].is_suspect();
    let is_invalid = |i: &usize| points.points[*i].validity == Some(Validity::Invalid);
    let best = |question, metric, better| best(points, &entrants, question, metric, better);
    let yardstick = Yardstick::of(points, workload);
    let (asked, metrics) = yardstick.latency;
    let latency = metrics.iter().find_map(|metric| best(asked, metric, Better::Lower));
    let per_gpu = best("Most throughput per GPU", FRONTIER[1], Better::Higher);
    let (asked, throughput) = yardstick.throughput;
    let bests = [
        best(asked, throughput, Better::Higher),
        per_gpu.filter(|_| yardstick.gives_output && gpus_differ(points, &entrants)),
        latency,
        best("Cheapest tokens", "cost_per_million_output_tokens", Better::Lower),
        best("Least energy", "joules_per_output_token", Better::Lower),
    ];
    let median = |i: usize, metric| points.spread(&points.points[i], metric).map(|spread| spread.median);
    let placed = entrants.iter().filter(|_| yardstick.gives_output);
    let place = |i: &usize| Some((*i, (median(*i, FRONTIER[0])?, median(*i, FRONTIER[1])?)));
    let (placed, places): (Vec<usize>, Vec<(f64, f64)>) = placed.filter_map(place).unzip();
    let directions = (Better::Higher, Better::Higher);
    let front = frontier(&places, directions);
    Answer {
        workload: name_workload(points, workload),
        bests: bests.into_iter().flatten().filter(|_| !none_meets).collect(),
        distinct: distinct(&places, &front)
            .into_iter()
            .map(|(i, others)| (placed[i], others))
            .collect(),
        knee: knee(&places, &front, directions)
            .filter(|_| !none_meets)
            .map(|i| placed[i]),
        frontier: front.into_iter().map(|i| placed[i]).collect(),
        repeated: entrants.iter().any(|i| points.points[*i].used.len() > 1),
        doubtful: !entrants.is_empty() && entrants.iter().all(is_suspect),
        invalid: own().filter(is_invalid).count(),
        missing: if none_meets { 0 } else { missing },
        wanted: goals.wanted(),
        none_meets,
    }
}

fn best(
    points: &Points<'_>,
    entrants: &[usize],
    question: &'static str,
    metric: &'static str,
    better: Better,
) -> Option<Best> {
    let spread = |i: &usize| Some((*i, points.spread(&points.points[*i], metric)?));
    let mut ranked: Vec<(usize, Spread)> = entrants.iter().filter_map(spread).collect();
    ranked.retain(|(_, spread)| spread.median.is_finite());
    ranked.order_by(|(_, a), (_, b)| better.order(a.median, b.median));
    let contest = points.contest(entrants, metric, better);
    let first = ranked.first()?;
    let point = contest.as_ref().map_or(first.0, |contest| contest.winner);
    let spread = points.spread(&points.points[point], metric)?;
    let reaches = |other: &Spread| {
        let are_several = spread.count > 1 && other.count > 1;
        are_several && other.min <= spread.max && spread.min <= other.max
    };
    let (tied, standing) = match contest {
        Some(contest) => (contest.equals, Some(contest.standing)),
        None => {
            let tied = ranked.iter().filter(|(_, other)| reaches(other));
            (tied.map(|(other, _)| *other).collect(), None)
        }
    };
    let first_of = |is_asked: &dyn Fn(usize) -> bool| {
        let (next, other) = ranked.iter().find(|(other, _)| is_asked(*other))?;
        let ratio = spread.median / other.median;
        ratio.is_finite().then_some((*next, ratio))
    };
    let is_other = |other: usize| !points.are_of_one_config(&[point, other]);
    let plain = points.defaults().filter(|plain| is_other(*plain));
    Some(Best {
        question,
        metric,
        point,
        spread,
        tied: tied.into_iter().filter(|other| *other != point).collect(),
        standing,
        runner_up: first_of(&is_other),
        default: plain.and_then(|plain| first_of(&|other| points.are_of_one_config(&[plain, other]))),
    })
}

/// With one number of GPUs everywhere, throughput per GPU ranks as throughput does.
fn gpus_differ(points: &Points<'_>, entrants: &[usize]) -> bool {
    let counts = entrants
        .iter()
        .filter_map(|i| points.spread(&points.points[*i], "gpu_count"));
    !counts.map(|spread| spread.median.to_bits()).all_equal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_plan::cause::Outcome;

    use vsweep_record::table::{Cell, RunRow, Table, TableBuilder};

    fn table(runs: &[(&str, Validity, f64)]) -> Table {
        let mut builder = TableBuilder::new();
        for (run, (point, validity, value)) in runs.iter().enumerate() {
            let is_valid = *validity == Validity::Valid;
            builder.push(RunRow {
                point,
                run: run as u32,
                outcome: if is_valid { Outcome::Ok } else { Outcome::Suspect },
                validity: Some(*validity),
                gpus: Some(1.0),
                metrics: &[("output_throughput".into(), Cell::Float(*value))],
                ..RunRow::default()
            });
        }
        builder.finish()
    }

    #[test]
    fn points_whose_runs_overlap_the_best_are_tied() {
        let ok = Validity::Valid;
        let runs = table(&[
            ("a", ok, 90.0),
            ("a", ok, 110.0),
            ("b", ok, 95.0),
            ("b", ok, 115.0),
            ("c", ok, 80.0),
            ("c", ok, 94.0),
        ]);
        let answer = &find(&Points::of(&runs), &Goals::default())[0];
        assert_eq!((answer.bests.len(), answer.doubtful, answer.repeated), (1, false, true));
        assert_eq!((answer.bests[0].point, &answer.bests[0].tied[..]), (1, &[0][..]));
    }

    #[test]
    fn a_suspect_point_competes_and_an_invalid_one_does_not() {
        let runs = table(&[
            ("a", Validity::Invalid, 50.0),
            ("b", Validity::Suspect, 9.0),
            ("c", Validity::Valid, 5.0),
        ]);
        let points = Points::of(&runs);
        let answer = &find(&points, &Goals::default())[0];
        assert_eq!((answer.bests[0].point, answer.invalid, answer.doubtful), (1, 1, false));
        assert!(mark(&points.points[1]).is_some() && mark(&points.points[2]).is_none());
        let all = table(&[("b", Validity::Suspect, 9.0)]);
        assert!(find(&Points::of(&all), &Goals::default())[0].doubtful);
    }

    #[test]
    fn nothing_measured_has_no_answer() {
        let runs = table(&[]);
        let answer = &find(&Points::of(&runs), &Goals::default())[0];
        assert!(answer.bests.is_empty() && answer.frontier.is_empty() && !answer.doubtful);
    }
}
