//! One answer for several workloads. A config reaches a share of each workload's best figure, and its smallest share is its score. Of the
//! configs whose score is within the margin of the best score, the answer is the one that wins the most workloads, then the one with the
//! fewest changes from the defaults.

use super::super::document::{Share, Together};
use super::super::fit::{ExperimentFit, rounded};
use super::contest::Margin;
use super::question::Settled;
use vsweep_strategy::stats::Better;

/// Returns one joint answer for each question that is asked for several workloads, in the order of the questions. Questions are matched by
/// their names.
pub fn together(fitted: &ExperimentFit<'_>, settled: &[Settled]) -> Vec<Together> {
    let mut names: Vec<&str> = Vec::new();
    for question in settled {
        let name = &*question.answered.question;
        let all = settled.iter().filter(|other| other.answered.question == name);
        if !names.contains(&name) && all.count() > 1 {
            names.push(name);
        }
    }
    let of = |name: &&str| {
        settled
            .iter()
            .filter(|question| question.answered.question == **name)
            .collect::<Vec<&Settled>>()
    };
    names.iter().map(|name| answer(fitted, name, &of(name))).collect()
}

fn answer(fitted: &ExperimentFit<'_>, name: &str, questions: &[&Settled]) -> Together {
    let configs = &fitted.experiment.configs;
    let none = Together {
        question: name.to_owned(),
        config: None,
        shares: Vec::new(),
        probability: 0.0,
    };
    // A question about latency is dropped for a workload without a winner, and an answer without that workload would not be joint.
    let asked = fitted
        .experiment
        .questions
        .iter()
        .filter(|question| question.name == name);
    let has_winners = questions.iter().all(|question| question.answered.winner.is_some());
    if questions.len() < asked.count() || !has_winners {
        return none;
    }
    let best = |question: &&Settled| {
        let values = question
            .entrants
            .placed
            .iter()
            .filter_map(|placed| placed.contender.plain);
        question.answered.better.best(values)
    };
    let share = |question: &&Settled, config: usize| {
        let placed = question.entrants.placed.iter().find(|placed| placed.config == config)?;
        Some(question.answered.better.share(placed.contender.plain?, best(question)?))
    };
    let shares = |config: usize| {
        questions
            .iter()
            .map(|question| share(question, config))
            .collect::<Option<Vec<f64>>>()
    };
    let mut ranked: Vec<(usize, Vec<f64>)> = (0..configs.len())
        .filter_map(|config| Some((config, shares(config)?)))
        .collect();
    let least = |shares: &[f64]| shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ranked.iter().map(|(_, shares)| least(shares)).fold(0.0, f64::max);
    let margin = Margin {
        part: fitted.experiment.margin,
        better: Better::Higher,
    };
    // A config that reaches nothing of a workload cannot be the answer for all.
    ranked.retain(|(_, shares)| least(shares) > 0.0 && margin.holds(least(shares), most, 0.0));
    // The winners of single workloads were chosen by more than their shares, such as the targets that they also meet.
    let wins = |config: usize| {
        let winners = questions
            .iter()
            .filter_map(|question| question.answered.winner.as_ref());
        winners.filter(|winner| winner.config == configs[config].id).count()
    };
    ranked.sort_by(|a, b| {
        let by_wins = wins(b.0).cmp(&wins(a.0));
        let by_changes = configs[a.0].changes.cmp(&configs[b.0].changes);
        by_wins.then(by_changes).then(least(&b.1).total_cmp(&least(&a.1)))
    });
    let Some((config, shares)) = ranked.first() else {
        return none;
    };
    let each = questions.iter().zip(shares).map(|(question, share)| Share {
        workload: question.answered.workload.clone(),
        share: *share,
        winner: question
            .answered
            .winner
            .as_ref()
            .map_or(String::new(), |winner| winner.config.clone()),
    });
    Together {
        question: name.to_owned(),
        config: Some(configs[*config].id.clone()),
        shares: each.collect(),
        probability: rounded(probability(questions, *config, configs.len(), margin)),
    }
}

/// Returns the part of the draws in which a config's smallest share is within the margin of the best smallest share of any config.
fn probability(questions: &[&Settled], config: usize, configs: usize, margin: Margin) -> f64 {
    let draws = questions
        .iter()
        .flat_map(|question| &question.entrants.placed)
        .map(|placed| placed.contender.draws.len());
    let (mut held, mut all) = (0usize, 0usize);
    for draw in 0..draws.min().unwrap_or(0) {
        let mut least = vec![f64::INFINITY; configs];
        for question in questions {
            let better = question.answered.better;
            let mut values = vec![f64::NAN; configs];
            for placed in &question.entrants.placed {
                values[placed.config] = placed.contender.draws[draw];
            }
            let best = better.best(values.iter().copied().filter(|value| !value.is_nan()));
            for (least, value) in least.iter_mut().zip(&values) {
                let share = best
                    .filter(|_| !value.is_nan())
                    .map_or(f64::NEG_INFINITY, |best| better.share(*value, best));
                *least = least.min(share);
            }
        }
        let most = least.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most.is_finite() {
            all += 1;
            held += usize::from(least[config].is_finite() && margin.holds(least[config], most, 0.0));
        }
    }
    held as f64 / all.max(1) as f64
}
