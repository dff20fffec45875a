//! Compares answers with the truth, and counts.

use super::planted::{MARGIN, Planted};
use super::play::{Fate, METRICS, id, play, play_more};
use std::collections::BTreeMap;
use vsweep_answer::model::Noise;
use vsweep_answer::{Answer, answer, answer_knowing};

/// Quality of one answer.
#[derive(Clone, Copy)]
pub struct Score {
    /// The probability that it claims.
    pub claim: f64,
    /// True if the winner is within the margin of the best.
    pub is_right: bool,
    /// True if the winner or one of its ties is within the margin.
    pub holds: bool,
    /// Number of ties.
    pub ties: usize,
    /// The winner's true value, as a share of the best.
    pub value: f64,
}

/// Number of intervals that contain the truth, and of all.
pub type Coverage = (usize, usize);

/// The results of one planted truth.
pub struct Trial {
    /// Scores of the answer and, if there is one, of the oracle. `None` if no server truly meets the limit, or an answer names no winner.
    pub scores: Option<(Score, Option<Score>)>,
    /// Certainty that is expected after following the advice, and true if the answer was then right.
    pub advised: Option<(f64, bool)>,
    /// Coverage of all intervals, of those of points with one run, of winners, of throughput, and of latency.
    pub intervals: [Coverage; 5],
    /// True if at least a third of the servers have a second start.
    pub has_starts: bool,
    /// Planted start and run noise of throughput.
    pub noise: (f64, f64),
    /// For a kill and for a crash, true if each winner has a probability of at least 5 % in the other's document.
    pub stable: Option<[bool; 2]>,
}

/// Plants a truth, measures it and judges the answers.
pub fn judge(seed: u64) -> Trial {
    let planted = Planted::draw(seed);
    let experiment = play(&planted, Fate::Whole);
    let own = answer(experiment.clone());
    let knows = |at: usize| {
        let sizes = planted.noise[at];
        let noise = Noise {
            run: sizes.run,
            start: sizes.start,
            node: 0.0,
        };
        (METRICS[at].to_owned(), noise)
    };
    let noise: BTreeMap<String, Noise> = [knows(0), knows(1)].into();
    let oracle = answer_knowing(experiment.clone(), &noise);
    let is_measured = |server: usize, load: usize| {
        let id = format!("{}@{load}", id(server));
        experiment.points.iter().any(|point| point.id == id)
    };
    let values = planted.values(is_measured);
    let scores = || Some((score(&own, &values, 0.0)?, Some(score(&oracle, &values, 0.0)?)));
    let mut starts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for point in &experiment.points {
        starts
            .entry(&point.config)
            .or_default()
            .extend(point.runs.iter().map(|run| &*run.start));
    }
    let several = starts
        .values()
        .filter(|starts| starts.iter().any(|start| *start != starts[0]))
        .count();
    let others = [Fate::Killed, Fate::Crashed].map(|fate| answer(play(&planted, fate)));
    Trial {
        scores: scores(),
        advised: advised(&planted, &own, &values),
        intervals: intervals(&planted, &own),
        has_starts: several * 3 >= planted.servers.len(),
        noise: (planted.noise[0].start, planted.noise[0].run),
        stable: Some(others.map(|other| allows(&own, &other) && allows(&other, &own))),
    }
}

/// Follows the advice of an answer. Returns the expected certainty, and true if the new answer is right.
fn advised(planted: &Planted, own: &Answer, values: &[Option<f64>]) -> Option<(f64, bool)> {
    let advice = own.questions[0].advice.as_ref()?;
    let more = |server: usize| match advice.configs.contains(&id(server)) {
        true => advice.starts as usize,
        false => 0,
    };
    let found = answer(play_more(planted, Fate::Whole, &more));
    Some((advice.expected, score(&found, values, 0.0)?.is_right))
}

/// Compares an answer with true values. Differences up to `unit` do not matter.
pub fn score(answer: &Answer, values: &[Option<f64>], unit: f64) -> Option<Score> {
    let found = &answer.questions[0];
    let best = values.iter().flatten().copied().reduce(f64::max)?;
    let winner = found.winner.as_ref()?;
    let value = |name: &str| {
        let at = (0..values.len()).find(|at| id(*at) == name);
        at.and_then(|at| values[at]).unwrap_or(0.0)
    };
    let is_near = |name: &str| value(name) * (1.0 + MARGIN) >= best || best - value(name) <= unit;
    Some(Score {
        claim: winner.probability,
        is_right: is_near(&winner.config),
        holds: is_near(&winner.config) || found.ties.iter().any(|tie| is_near(tie)),
        ties: found.ties.len(),
        value: if best - value(&winner.config) <= unit {
            1.0
        } else {
            value(&winner.config) / best
        },
    })
}

fn intervals(planted: &Planted, answer: &Answer) -> [Coverage; 5] {
    let mut found = [(0, 0); 5];
    let winner = answer.questions[0]
        .winner
        .as_ref()
        .and_then(|winner| winner.point.clone());
    for point in &answer.estimates {
        let server: usize = point.config[1..].parse().expect("a number");
        let load: usize = point.load.parse().expect("a number");
        for (at, estimate) in point.figures.iter().enumerate() {
            let Some(estimate) = estimate else { continue };
            let truth = planted.servers[server].means[load][at].exp();
            let holds = usize::from(estimate.low <= truth && truth <= estimate.high);
            let is_winner = at == 0 && winner.as_ref() == Some(&point.point);
            for (count, counts) in found
                .iter_mut()
                .zip([true, point.runs == 1, is_winner, at == 0, at == 1])
            {
                if counts {
                    *count = (count.0 + holds, count.1 + 1);
                }
            }
        }
    }
    found
}

/// True if the winner of one answer has a probability of at least 5 % in the other, or either names none.
fn allows(one: &Answer, other: &Answer) -> bool {
    let (Some(winner), true) = (&one.questions[0].winner, other.questions[0].winner.is_some()) else {
        return true;
    };
    let entrant = other.questions[0]
        .entrants
        .iter()
        .find(|entrant| entrant.config == winner.config);
    entrant.is_some_and(|entrant| entrant.probability >= 0.05)
}
