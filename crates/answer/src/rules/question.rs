//! The answer to one question: finds its entrants, decides the contest, and writes its part of the document.

use super::super::asked::{Goal, Question};
use super::super::document::{Entrant, Estimate, Nearest, QuestionAnswer, Winner};
use super::super::fit::{ExperimentFit, draws_of, estimate_by, rounded};
use super::alone::{alone, warning};
use super::contest::{Contender, Found, Margin, RULED_OUT, decide};
use super::effects::effects;
use super::entrants::{EntrantFacts, Entrants, fits, of_points};
use super::meeting::{TargetsMet, distance, points_of};
use super::searches::of_searches;
use super::warnings::warnings;
use vsweep_strategy::stats::Better;

/// Minimum probability of being as good as the winner, for a config to be listed as such.
const EVEN: f64 = 0.5;

/// The answer to a question, with the draws of its entrants.
pub struct Settled {
    /// Its part of the document.
    pub answered: QuestionAnswer,
    /// The entrants.
    pub entrants: Entrants,
}

/// Answers a question.
pub fn settle(fitted: &ExperimentFit<'_>, question: &Question) -> Settled {
    let met = TargetsMet::of(fitted, question);
    let (entrants, better) = match &question.goal {
        Goal::Metric { name, adds_up } => {
            let better = fitted
                .figures(name)
                .map_or(Better::Higher, |figures| figures.metric.better);
            (of_points(fitted, question, &met, name, *adds_up), better)
        }
        Goal::Load { target, unit, .. } => (of_searches(fitted, question, target, *unit), Better::Higher),
    };
    let margin = Margin {
        part: fitted.experiment.margin,
        better,
    };
    let contenders: Vec<Contender> = entrants.placed.iter().map(|placed| placed.contender.clone()).collect();
    let found = decide(&contenders, margin, has_nodes(fitted, question));
    let id = |at: usize| fitted.experiment.configs[entrants.placed[at].config].id.clone();
    let ids = |keep: &dyn Fn(usize) -> bool| {
        (0..entrants.placed.len())
            .filter(|at| keep(*at))
            .map(id)
            .collect::<Vec<String>>()
    };
    let is_winner = |at: usize| found.winner.is_some_and(|(winner, _)| winner == at);
    let has_winner = found.winner.is_some();
    let mut answered = QuestionAnswer {
        question: question.name.clone(),
        workload: question.workload.clone(),
        load: question.load.clone(),
        goal: question.goal.clone(),
        better,
        targets: question.targets.clone(),
        winner: None,
        nearest: if has_winner {
            None
        } else {
            nearest(fitted, question, &met)
        },
        ties: found.ties.iter().map(|at| id(*at)).collect(),
        as_good: ids(&|at| has_winner && !is_winner(at) && found.as_good[at] >= EVEN),
        ruled_out: ids(&|at| has_winner && !is_winner(at) && found.probability[at] < RULED_OUT),
        entrants: documented(fitted, &entrants, &found, better),
        too_large: entrants
            .too_large
            .iter()
            .map(|at| fitted.experiment.configs[*at].id.clone())
            .collect(),
        effects: Vec::new(),
        alone: Vec::new(),
        warnings: Vec::new(),
        advice: None,
    };
    if let Some((at, reason)) = found.winner {
        let placed = &entrants.placed[at];
        let config = &fitted.experiment.configs[placed.config];
        let winner = Winner {
            config: config.id.clone(),
            point: placed.point.map(|point| fitted.experiment.points[point].id.clone()),
            load: placed.load.clone(),
            replicas: placed.replicas,
            value: placed.value,
            probability: rounded(found.probability[at]),
            chosen: reason.chosen(id),
            meets: placed.point.map_or(Vec::new(), |point| met.each(fitted, point)),
            at_ceiling: placed.at_ceiling,
        };
        answered.warnings = warnings(
            fitted.experiment,
            question,
            config,
            &winner,
            assumed_start_noise(fitted, question).filter(|_| entrants.placed.len() > 1),
        );
        if let Some(point) = placed.point {
            answered.effects = effects(fitted, placed.config, point, question);
        }
        answered.winner = Some(winner);
        answered.alone = alone(fitted.experiment, question, &answered);
        let alone_warning = warning(&answered.alone, &config.id);
        answered.warnings.extend(alone_warning);
    }
    Settled { answered, entrants }
}

/// Returns true if the figure that decides comes from several nodes. The estimates of shares then contain the effects of nodes, which the
/// probabilities do not.
fn has_nodes(fitted: &ExperimentFit<'_>, question: &Question) -> bool {
    let Goal::Metric { name, .. } = &question.goal else {
        return false;
    };
    fitted
        .figures(name)
        .is_some_and(|figures| figures.posterior.noise().2.is_some())
}

/// Returns the start noise of the figure that decides, if it is assumed.
fn assumed_start_noise(fitted: &ExperimentFit<'_>, question: &Question) -> Option<f64> {
    let Goal::Metric { name, .. } = &question.goal else {
        return None;
    };
    let figures = fitted.figures(name)?;
    let (_, start, _) = figures.posterior.noise();
    figures.posterior.assumes_starts().then_some(start.deviation)
}

/// Returns the entrants for the document: those that meet the targets by plain estimates, best first, then the others, best first.
fn documented(fitted: &ExperimentFit<'_>, entrants: &Entrants, found: &Found, better: Better) -> Vec<Entrant> {
    let winner = found.winner.map(|(at, _)| &entrants.placed[at]);
    let entrant = |(at, placed): (usize, &EntrantFacts)| {
        let config = &fitted.experiment.configs[placed.config];
        let runs = placed
            .point
            .map_or(&[][..], |point| &fitted.experiment.points[point].runs);
        Entrant {
            config: config.id.clone(),
            point: placed.point.map(|point| fitted.experiment.points[point].id.clone()),
            load: placed.load.clone(),
            replicas: placed.replicas,
            meets: placed.contender.plain.is_some(),
            at_ceiling: placed.at_ceiling,
            value: placed.value,
            probability: rounded(found.probability[at]),
            as_good: rounded(found.as_good[at]),
            winner_over: winner
                .filter(|winner| winner.config != placed.config)
                .and_then(|winner| over(winner, placed, better)),
            is_default: config.changes == 0,
            is_disturbed: !runs.is_empty() && runs.iter().all(|run| run.disturbed),
        }
    };
    let mut all: Vec<(usize, &EntrantFacts)> = entrants.placed.iter().enumerate().collect();
    all.sort_by(|(_, a), (_, b)| {
        let order = a.ranked_value().total_cmp(&b.ranked_value());
        let order = if better == Better::Higher {
            order.reverse()
        } else {
            order
        };
        let meets = |placed: &EntrantFacts| placed.contender.plain.is_some();
        meets(b).cmp(&meets(a)).then(order)
    });
    all.into_iter().map(entrant).collect()
}

/// Returns the winner's figure as a multiple of another entrant's. `None` if the other has the better estimate (the winner was then chosen
/// for another reason), if it may hold more (it met its target at the highest load allowed, or its search ended undecided), or if its figure
/// is not above 0.
fn over(winner: &EntrantFacts, other: &EntrantFacts, better: Better) -> Option<Estimate> {
    let may_hold_more = other.at_ceiling || other.is_undecided();
    let (own, others) = (winner.ranked_value(), other.ranked_value());
    if may_hold_more || others <= 0.0 || better.prefers(others, own) {
        return None;
    }
    let draws = winner.value_draws.iter().zip(&other.value_draws);
    estimate_by(own / others, draws.map(|(one, other)| one / other))
}

/// Returns the point that comes nearest to the targets, of configs that fit on the user's GPUs; `None` for a question about loads.
fn nearest(fitted: &ExperimentFit<'_>, question: &Question, met: &TargetsMet) -> Option<Nearest> {
    let Goal::Metric { name, .. } = &question.goal else {
        return None;
    };
    let figures = fitted.figures(name)?;
    let all = points_of(fitted, &question.workload, question.load.as_deref());
    let measured = all.filter(|(at, point)| figures.estimates[*at].is_some() && fits(fitted, point));
    let far = measured.map(|(at, _)| (at, distance(fitted, at, &question.targets)));
    // A point that meets the targets did not win because its throughput is 0, which is near to nothing.
    let is_zero = |at: usize| figures.estimates[at].is_some_and(|figure| figure.value == 0.0);
    let far = far.filter(|(_, (distance, place))| *distance > 0.0 || !is_zero(*place));
    let nearer =
        |one: (usize, (f64, usize)), other: (usize, (f64, usize))| if other.1.0 < one.1.0 { other } else { one };
    let (at, (_, place)) = far.reduce(nearer)?;
    let point = &fitted.experiment.points[place];
    Some(Nearest {
        config: point.config.clone(),
        point: point.id.clone(),
        load: point.load.clone(),
        meets: met.each(fitted, at),
        probability: rounded(met.count(at) as f64 / draws_of(fitted.experiment) as f64),
    })
}
