//! Plays the starts of a plan's servers in virtual time, several at once. Starts do not affect each other, with two exceptions. A search
//! takes its first guess from its neighbour's answer, and a server that lacks memory may rule out larger servers. Starts with such
//! dependencies are played first, in the order of the plan, so that the result is that of a single thread. An optimisation starts its
//! servers in an unknown order, so all its searches take their first guess from the first search that finds a load.

use super::Rehearser;
use super::moved::objective;
use super::stage::play_group;
use super::{Forecast, Unknown};
use crate::agenda::{Ending, Start};
use crate::evidence::first_results;
use crate::ids::ServerId;
use crate::journal::{ServerDescription, State};
use crate::selection::optimized::Trial;
use crate::threads;
use std::collections::HashMap;

/// Number of parts, for each processor, into which the starts are divided, because some take longer than others.
const PARTS: usize = 4;

/// Result of playing a start, with its position in the plan.
type PlayedStart = (usize, Result<(Forecast, Ending), Unknown>);

impl Rehearser<'_> {
    /// Returns the forecasts of all servers on which something is left to do after `done`, in the order of the plan. Each is the sum over
    /// the starts of its server.
    pub fn perform(&self, done: &State) -> Result<Vec<Forecast>, Unknown> {
        let (mut played, independent, known) = self.perform_dependent(done);
        let searches = self.schedule.plan.sla.is_some();
        // Each part begins with a copy of the state, which may be large, so a part holds several starts.
        let part_size = independent.len().div_ceil(PARTS * threads::cores()).max(1);
        let play = |part: &&[(usize, Start)]| {
            let mut state = known.clone();
            let forecast = |(position, start): &(usize, Start)| {
                if searches {
                    // Otherwise the first guess of a search would depend on the part.
                    state.clone_from(&known);
                }
                Some((*position, self.play(start, &mut state)?))
            };
            part.iter().filter_map(forecast).collect::<Vec<PlayedStart>>()
        };
        let parts: Vec<_> = independent.chunks(part_size).collect();
        let more = threads::map(threads::cores(), &parts, play);
        played.extend(more.into_iter().flatten());
        played.sort_by_key(|(position, _)| *position);
        let mut forecasts: Vec<Forecast> = Vec::new();
        let mut indices: HashMap<ServerId, usize> = HashMap::new();
        for (_, played) in played {
            let (forecast, ending) = played?;
            match indices.get(&forecast.server) {
                Some(index) => forecasts[*index].add(forecast),
                None => {
                    indices.insert(forecast.server.clone(), forecasts.len());
                    forecasts.push(forecast);
                }
            }
            if ending == Ending::StoppedOnFailure {
                break;
            }
        }
        Ok(forecasts)
    }

    /// Plays the starts that depend on each other, up to one that ends the sweep. Returns their results, the independent starts before that
    /// one, and the state with which the independent starts begin.
    fn perform_dependent(&self, done: &State) -> (Vec<PlayedStart>, Vec<(usize, Start)>, State) {
        let (mut played, mut independent) = (Vec::new(), Vec::new());
        let mut state = done.clone();
        let mut found = None;
        for (position, start) in self.schedule.foreseen(done).enumerate() {
            if !self.is_dependent(&start, &state, found.is_some()) {
                independent.push((position, start));
                continue;
            }
            let Some(forecast) = self.play(&start, &mut state) else {
                continue;
            };
            let has_found = |(forecast, _): &(Forecast, Ending)| {
                forecast.answers.iter().any(|answer| answer.found.value().is_some())
            };
            if found.is_none() && self.optimization.is_some() && forecast.as_ref().is_ok_and(has_found) {
                found = Some(state.clone());
            }
            let ends = !matches!(forecast, Ok((_, Ending::Finished)));
            played.push((position, forecast));
            if ends {
                break;
            }
        }
        (played, independent, found.unwrap_or_else(|| done.clone()))
    }

    /// Returns true if a start depends on others, or others may depend on it.
    fn is_dependent(&self, start: &Start, state: &State, has_found: bool) -> bool {
        let plan = self.schedule.plan;
        let fails = || {
            let stand_in = self.calibration.stand_in(&start.server, self.options);
            stand_in.is_ok_and(|stand_in| stand_in.failure.is_some())
        };
        let is_ruled_out = || {
            state
                .lacks_memory(&ServerDescription::of(&start.server, &plan.secrets))
                .is_some()
        };
        (plan.sla.is_some() && !has_found) || fails() || is_ruled_out()
    }

    /// Plays a start, if something is left to do on it.
    fn play(&self, start: &Start, state: &mut State) -> Option<Result<(Forecast, Ending), Unknown>> {
        let mut group = self.schedule.sure_group(start, state)?;
        if self.optimization.is_some() {
            // The order of the starts decides which servers are beaten. It is not known, so no search is skipped.
            let searches = group.searches.iter_mut();
            searches.for_each(|search| search.settings.skip_beaten = false);
        }
        let named = |unknown| match unknown {
            Unknown::Because(why) => {
                let server = self.schedule.plan.secrets.redact(&start.server.name);
                Unknown::Because(format!("{server}: {why}"))
            }
            too_much => too_much,
        };
        let stand_in = self.calibration.stand_in(&start.server, self.options);
        let stand_in = stand_in.map_err(Unknown::from);
        let mut played = stand_in.and_then(|stand_in| play_group(self, group, &stand_in, state).map_err(named));
        if let (Ok((forecast, _)), Some(record)) = (&mut played, &self.optimization) {
            let requirements = &self.schedule.plan.report.requirements;
            forecast.results = first_results(record, &start.server.id, state, requirements);
            let target = objective(self.schedule.plan);
            for answer in forecast.answers.iter().filter(|answer| Some(&*answer.target) == target) {
                let trial = forecast
                    .results
                    .as_mut()
                    .and_then(|results| results.get_mut(&answer.workload));
                // The load of a search that ended early is only a lower bound of its limit.
                if let (Some(Trial::Measured { ln_value, .. }), Some(limit), Some(load)) =
                    (trial, answer.limit, answer.found.value())
                {
                    *ln_value += (limit / load).ln();
                }
            }
        }
        Some(played)
    }
}
