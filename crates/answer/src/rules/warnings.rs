//! Warnings that a user should read before deploying the winner.

use super::super::asked::{Goal, Question};
use super::super::document::{Warning, Winner};
use super::super::experiment::{Config, Experiment, Point, Search};
use super::super::fit::SURE;
use std::collections::BTreeSet;

/// Smallest probability of the winner at which an assumed start noise is worth a warning.
const CONFIDENT: f64 = 0.9;

/// Returns the warnings about a winner. `assumed` is the start noise of the figure that decided, if it was not measured.
pub fn warnings(
    experiment: &Experiment,
    question: &Question,
    config: &Config,
    winner: &Winner,
    assumed: Option<f64>,
) -> Vec<Warning> {
    let facts = &config.facts;
    let mut found = Vec::new();
    if facts.deaths > 0 {
        found.push(Warning::Deaths {
            deaths: facts.deaths,
            launches: facts.launches,
        });
    }
    if facts.retries > 0 {
        found.push(Warning::Retries { retries: facts.retries });
    }
    let point = experiment
        .points
        .iter()
        .find(|point| Some(&point.id) == winner.point.as_ref());
    if let Some(point) = point.filter(|point| point.failed > 0) {
        found.push(Warning::FailedRuns {
            failed: point.failed,
            of: point.failed + point.runs.len() as u32,
        });
    }
    if facts.failed_requests > 0 {
        found.push(Warning::FailedRequests {
            failed: facts.failed_requests,
            requests: facts.requests,
        });
    }
    let (disturbed, of) = disturbed(experiment, question, winner);
    if disturbed > 0 {
        found.push(Warning::Disturbed { disturbed, of });
    }
    if let Some(codes) = doubts(experiment, question, winner) {
        found.push(Warning::Doubtful { codes: codes.clone() });
    }
    if let Goal::Load { target, .. } = &question.goal {
        let mut searches = experiment.searches.iter();
        let own = searches.find(|search| is_own(search, question, target, winner));
        let reasons = own.map_or_else(Vec::new, |own| own.may_not_last.clone());
        found.extend((!reasons.is_empty()).then_some(Warning::MayNotLast { reasons }));
    }
    let (own, others) = nodes(experiment, question, &config.id);
    if !own.is_empty() && !others.is_subset(&own) {
        found.push(Warning::OtherNodes {
            own: own.into_iter().collect(),
            others: others.into_iter().collect(),
        });
    }
    if !facts.other_versions.is_empty() {
        found.push(Warning::OtherVersions {
            own: facts.versions.clone(),
            others: facts.other_versions.clone(),
        });
    }
    if facts.simulated {
        found.push(Warning::Simulated);
    }
    if let Some(deviation) = assumed.filter(|_| winner.probability >= CONFIDENT) {
        found.push(Warning::StartNoiseAssumed { deviation });
    }
    let uncertain = winner.meets.iter().filter(|meeting| meeting.probability < SURE);
    found.extend(uncertain.map(|meeting| Warning::TargetUncertain {
        target: meeting.target.clone(),
        probability: meeting.probability,
    }));
    found
}

/// Returns the number of disturbed runs, and of all runs, of the winner's point or of its search.
fn disturbed(experiment: &Experiment, question: &Question, winner: &Winner) -> (u32, u32) {
    if let Some(id) = &winner.point {
        let point = experiment.points.iter().find(|point| point.id == *id);
        let runs = point.map_or(&[][..], |point| &point.runs);
        return (
            runs.iter().filter(|run| run.disturbed).count() as u32,
            runs.len() as u32,
        );
    }
    // One search probes for all its targets with the same runs, so only one target is counted.
    let Goal::Load { target, .. } = &question.goal else {
        return (0, 0);
    };
    let searches = experiment.searches.iter();
    let own = searches.filter(|search| is_own(search, question, target, winner));
    let counts = own.map(|search| search.disturbed);
    counts.fold((0, 0), |(disturbed, of), own| (disturbed + own.0, of + own.1))
}

/// Returns true if a search is the winner's search for a target.
fn is_own(search: &Search, question: &Question, target: &str, winner: &Winner) -> bool {
    search.workload == question.workload && search.target == target && search.config == winner.config
}

/// Returns the doubts about the figure by which a point won, or about the figures at the load that a search reports, if there are any.
fn doubts<'e>(experiment: &'e Experiment, question: &Question, winner: &Winner) -> Option<&'e Vec<String>> {
    let codes = match &question.goal {
        Goal::Metric { name, .. } => {
            let mut points = experiment.points.iter();
            let point = points.find(|point| Some(&point.id) == winner.point.as_ref())?;
            point.doubts.get(name)
        }
        Goal::Load { target, .. } => {
            let mut searches = experiment.searches.iter();
            let own = searches.find(|search| is_own(search, question, target, winner));
            own.map(|search| &search.doubts)
        }
    };
    codes.filter(|codes| !codes.is_empty())
}

/// Returns the known nodes on which a config was measured, and those of all other configs, for the workload of a question.
fn nodes(experiment: &Experiment, question: &Question, config: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut own, mut others) = (BTreeSet::new(), BTreeSet::new());
    let of_points = |point: &&Point| point.workload == question.workload;
    for point in experiment.points.iter().filter(of_points) {
        let nodes = if point.config == config { &mut own } else { &mut others };
        nodes.extend(point.runs.iter().map(|run| run.node.clone()));
    }
    let of_searches = |search: &&Search| search.workload == question.workload;
    for search in experiment.searches.iter().filter(of_searches) {
        let nodes = if search.config == config { &mut own } else { &mut others };
        nodes.extend(search.starts.iter().map(|start| start.node.clone()));
    }
    // The nodes of imported runs are unknown.
    own.remove("");
    others.remove("");
    (own, others)
}
