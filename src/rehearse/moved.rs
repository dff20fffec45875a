//! Computes the change of the load that a search finds, if a constant of the twin is larger. A search in virtual time is too coarse to show
//! this change. So each server is played at the load that was found, with the likely value of each constant and with a value one standard
//! deviation larger. The requests are equal, so the figures differ only because of the constant. The growth of the figures with the load, a
//! little above and below, then gives the change of the load.

use super::load::{Play, Player};
use super::server::ModelledServer;
use super::stage::reads_gaps;
use super::twin::{COUNT, applies};
use super::{Budget, Forecast, Options, PredictedAnswer, Rehearsal, Unknown};
use crate::agenda::{Schedule, Start};
use crate::bench::params_of;
use crate::evidence::Results;
use crate::ids::ServerId;
use crate::journal::{FIRST_SLOT, State};
use crate::matrix::{LoadSearch, Matrix, ServerConfig};
use crate::plan::{Plan, Reset};
use crate::search::{Probe, Question, Vary};
use crate::selection::optimized::Trial;
use crate::sim::engine::noise::Spread;
use crate::threads;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Ratio of the loads between which the growth of figures is measured.
const STEP: f64 = 1.25;
/// Minimum growth, the slope `d ln(figure) / d ln(load)`. Smaller slopes count as this.
const LEAST_GROWTH: f64 = 0.1;
/// Largest magnitude of a margin: the logarithm of a ratio that is above 1 if a criterion fails. Larger margins count as this.
const CAP: f64 = 1.0;

/// Returns the results of a rehearsal's servers with each of the twin's constants a standard deviation larger, by constant and server;
/// `None` for servers without results.
///
/// # Errors
///
/// [`Unknown::TooMuch`] if it takes more computing than allowed, [`Unknown::Because`] if a load cannot be played.
pub fn moved_results(
    schedule: Schedule<'_>,
    record: &State,
    rehearsal: &Rehearsal,
    options: &Options,
) -> Result<Vec<Vec<Option<Results>>>, Unknown> {
    let Some(first) = schedule.servers().next() else {
        return Ok(Vec::new());
    };
    let with = |moved: Option<usize>| {
        let options = Options {
            moved,
            // Timings with other constants are of no use later, so they get a cache of their own.
            plays: Arc::default(),
            ..options.clone()
        };
        options.with_twin(record, schedule.plan, &first).0
    };
    let target = objective(schedule.plan);
    let (likely, moved) = (with(None), (0..COUNT).map(|constant| with(Some(constant))));
    let (moved, budget): (Vec<Options>, Budget) = (moved.collect(), Budget::new(&options.limits));
    let starts = schedule.starts_at(FIRST_SLOT);
    let mut starts: HashMap<ServerId, Start> = starts.map(|start| (start.server.id.clone(), start)).collect();
    let played = rehearsal.servers.iter().filter_map(|forecast| {
        let start = starts.remove(&forecast.server)?;
        let group = schedule.group(&start, record);
        Some((
            start.server,
            group.map_or_else(Vec::new, |group| group.searches),
            forecast,
        ))
    });
    let played: Vec<(ServerConfig, Vec<LoadSearch>, &Forecast)> = played.collect();
    let of_server = |(server, searches, forecast): &(ServerConfig, Vec<LoadSearch>, &Forecast)| {
        let likely = without_noise(server, &likely)?;
        let mut results = vec![forecast.results.clone(); COUNT];
        for answer in forecast.answers.iter().filter(|answer| Some(&*answer.target) == target) {
            let Some(search) = searches.iter().find(|search| search.id == answer.search) else {
                continue;
            };
            let Some(probing) = ProbeInput::of(schedule, search, answer, &budget) else {
                continue;
            };
            let growth = probing.growth(&likely)?;
            for (constant, results) in results.iter_mut().enumerate() {
                let cost = likely.settings.as_ref().map(|settings| &settings.cost);
                let trial = results.as_mut().and_then(|results| results.get_mut(&answer.workload));
                if let (Some(Trial::Measured { ln_value, .. }), Some(growth)) = (trial, &growth)
                    && cost.is_some_and(|cost| applies(constant, cost))
                {
                    *ln_value += probing.change(growth, &without_noise(server, &moved[constant])?)?;
                }
            }
        }
        Ok(results)
    };
    let of_servers = threads::map(threads::cores(), &played, of_server);
    let of_servers = of_servers.into_iter().collect::<Result<Vec<_>, Unknown>>()?;
    let of_constant = |constant: usize| of_servers.iter().map(|results| results[constant].clone()).collect();
    Ok((0..COUNT).map(of_constant).collect())
}

/// Returns the target whose load an optimisation maximises.
pub(super) fn objective(plan: &Plan) -> Option<&str> {
    let stated = plan.optimize.as_ref()?.objective.as_deref();
    stated.or_else(|| Some(&plan.sla.as_ref()?.targets.first()?.name))
}

/// Returns a server in virtual time without noise in the durations of its steps.
fn without_noise(server: &ServerConfig, options: &Options) -> Result<ModelledServer, Unknown> {
    let mut modelled = ModelledServer::of(server, options)?;
    if let Some(settings) = &mut modelled.settings {
        settings.spread = Spread::default();
    }
    Ok(modelled)
}

/// A load that a search found for a target, and the input for playing it.
struct ProbeInput<'a> {
    plan: &'a Plan,
    matrix: &'a Matrix,
    search: &'a LoadSearch,
    answer: &'a PredictedAnswer,
    load: f64,
    budget: &'a Budget,
}

/// The growth of a target's largest margin with the load.
struct Growth {
    /// The largest margin at the load that was found.
    margin: f64,
    /// Slope `d ln(figure) / d ln(load)` below that load.
    below: f64,
    /// Slope above that load.
    above: f64,
}

impl<'a> ProbeInput<'a> {
    /// Returns the load of an answer. `None` if no load was found, or if it is the highest one allowed, which a constant hardly changes.
    fn of(
        schedule: Schedule<'a>,
        search: &'a LoadSearch,
        answer: &'a PredictedAnswer,
        budget: &'a Budget,
    ) -> Option<ProbeInput<'a>> {
        Some(ProbeInput {
            plan: schedule.plan,
            matrix: schedule.matrix,
            search,
            answer,
            load: answer
                .limit
                .or(answer.found.value())
                .filter(|load| *load < search.settings.upper)?,
            budget,
        })
    }

    /// Plays the load that was found and two loads around it. `None` if the load that was found gives no figures.
    fn growth(&self, server: &ModelledServer) -> Result<Option<Growth>, Unknown> {
        let vary = self.search.settings.vary;
        let Some(margin) = self.margin(server, self.load)? else {
            return Ok(None);
        };
        let slope_to = |load: f64| -> Result<Option<f64>, Unknown> {
            if load == self.load {
                return Ok(None);
            }
            let other = self.margin(server, load)?;
            Ok(other.map(|other| ((other - margin) / (load / self.load).ln()).max(LEAST_GROWTH)))
        };
        // At least one user more or less.
        let (up, down) = match vary {
            Vary::MaxConcurrency => (
                (self.load * STEP).max(self.load + 1.0),
                (self.load / STEP).min(self.load - 1.0),
            ),
            Vary::RequestRate => (self.load * STEP, self.load / STEP),
        };
        let above = slope_to(vary.floor(up))?;
        let below = if down > 0.0 { slope_to(vary.floor(down))? } else { None };
        let either = above.or(below).unwrap_or(LEAST_GROWTH);
        Ok(Some(Growth {
            margin,
            below: below.unwrap_or(either),
            above: above.unwrap_or(either),
        }))
    }

    /// Returns the change of the load's logarithm on a server with another constant.
    fn change(&self, growth: &Growth, moved: &ModelledServer) -> Result<f64, Unknown> {
        let increase = self
            .margin(moved, self.load)?
            .map_or(0.0, |margin| margin - growth.margin);
        let slope = if increase > 0.0 { growth.below } else { growth.above };
        Ok(-increase / slope)
    }

    /// Returns the largest margin of the target's criteria at a load. `None` if the load gives no figures.
    fn margin(&self, server: &ModelledServer, load: f64) -> Result<Option<f64>, Unknown> {
        let LoadSearch { settings, .. } = self.search;
        let targets = settings
            .targets
            .iter()
            .filter(|target| target.name == self.answer.target);
        let targets: Vec<_> = targets.cloned().collect();
        let reaching = if settings.vary == Vary::MaxConcurrency {
            load as u64
        } else {
            1
        };
        let question = Question {
            target: self.answer.target.clone(),
            value: load,
            requests: settings.requests.at(load).max(reaching),
            confirm: true,
            draw: 0,
        };
        let point = self.matrix.point_for(self.search, &question);
        let params = match &point.argv {
            Some(argv) => params_of(argv),
            None => Some(point.params),
        };
        let Some(params) = params else { return Ok(None) };
        let mut player = Player::new(server, self.plan.serve.reset == Reset::Nothing, reads_gaps(self.plan));
        let (_, measurement) = player.play(Play {
            params: &params,
            warmup: self.plan.bench.warmup,
            watch: None,
            limit: self.plan.bench.timeout,
            budget: self.budget,
        })?;
        let Some(measurement) = measurement else {
            return Ok(None);
        };
        let metric = |key: &str| measurement.result.get(key).and_then(Value::as_f64);
        let probe = Probe::read(question, &targets, settings.vary, metric, &measurement.requests, None);
        let margins = probe.readings.values().map(|reading| reading.margin().clamp(-CAP, CAP));
        Ok(margins.reduce(f64::max))
    }
}
