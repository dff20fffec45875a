//! Planted searches: servers with known limits, and the posteriors of searches for them.

use super::judge::{Score, Trial, score};
use super::planted::{MARGIN, log_between};
use vsweep_answer::{Config, Experiment, Question, Random, Search, StartLimit, answer};

/// Number of quantiles in a posterior.
const QUANTILES: u32 = 40;

/// Plants limits, searches for them and judges the answer. Needs no oracle, because the posterior of a search contains its noise.
pub fn judge(seed: u64) -> Trial {
    let mut random = Random::of(seed, &["searches"]);
    let random = &mut random;
    let count = log_between(random, 2.0, 21.0) as usize;
    let spread = log_between(random, 0.003, 0.5);
    let typical = log_between(random, 4.0, 300.0);
    let groups = 1 + random.below(count);
    let mut limits: Vec<f64> = (0..count).map(|_| typical * (spread * random.normal()).exp()).collect();
    if random.below(3) == 0 {
        (groups..count).for_each(|at| limits[at] = limits[random.below(groups)]);
    }
    let starts = 1 + random.below(3);
    let start_noise = 0.04 * random.uniform();
    let slope = log_between(random, 0.3, 10.0);
    let width = log_between(random, 0.003, 0.06);
    let search = |(at, limit): (usize, &f64)| {
        let mut found = Vec::new();
        for start in 0..starts {
            let width = width * (0.5 * random.normal()).exp();
            let centre = limit.ln() + start_noise * random.normal() / slope + width * random.normal();
            let quantile =
                |place| (centre + width * normal_quantile((f64::from(place) + 0.5) / f64::from(QUANTILES))).exp();
            let quantiles: Vec<f64> = (0..QUANTILES).map(quantile).collect();
            found.push(StartLimit {
                start: start.to_string(),
                node: "n".to_owned(),
                // A search reports a load that is hardly ever above the limit.
                load: Some(quantiles[0].floor().max(1.0)),
                quantiles,
            });
        }
        // Of several starts, the highest load counts that is not above their mean.
        let loads: Vec<f64> = found.iter().filter_map(|located| located.load).collect();
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        let load = loads.iter().copied().filter(|load| *load <= mean).fold(1.0, f64::max);
        Search {
            config: super::play::id(at),
            target: "chat".to_owned(),
            load: Some(load),
            slope,
            starts: found,
            ..Search::default()
        }
    };
    let searches = limits.iter().enumerate().map(search).collect();
    let configs = (0..count).map(|at| Config {
        id: super::play::id(at),
        changes: at % 4,
        ..Config::default()
    });
    let experiment = Experiment {
        configs: configs.collect(),
        searches,
        questions: vec![Question::highest_load("chat")],
        margin: MARGIN,
        seed,
        ..Experiment::default()
    };
    let found = answer(experiment.clone());
    let values: Vec<Option<f64>> = limits.iter().map(|limit| Some(*limit)).collect();
    let own: Option<Score> = score(&found, &values, 1.0);
    let mut held = [(0, 0); 5];
    for entrant in &found.questions[0].entrants {
        let at: usize = entrant.config[1..].parse().expect("a number");
        held[0].0 += usize::from(entrant.value.low <= limits[at] && limits[at] <= entrant.value.high);
        held[0].1 += 1;
    }
    Trial {
        scores: own.map(|own| (own, None)),
        advised: None,
        intervals: held,
        has_starts: starts > 1,
        noise: (start_noise, 0.0),
        stable: None,
    }
}

/// The normal quantile, by bisection.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-6.0f64, 6.0f64);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        match below(middle) < probability {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

/// The normal distribution function (Abramowitz and Stegun 26.2.17).
fn below(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let poly =
        t * (0.319_381_53 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-x * x / 2.0).exp() / (std::f64::consts::TAU).sqrt() * poly;
    if x > 0.0 { 1.0 - tail } else { tail }
}
