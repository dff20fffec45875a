//! The starts of a plan's servers in virtual time, several at once: nothing that happens on one concerns another, unless a search
//! takes its first guess from its neighbour's answer, or a server would not start. The outcome is that of one thread.

use super::Company;
use super::plays::lock;
use super::server::StandIn;
use super::stage::play_group;
use super::{Forecast, Unknown};
use crate::agenda::{Ending, Group};
use crate::ids::ServerId;
use crate::journal::{FIRST_SLOT, State};
use crate::matrix::ServerConfig;
use crate::threads;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

impl Company<'_> {
    /// The forecasts of all servers, over their starts, on which something is left to do after `done`, in the order of the plan.
    pub fn perform(&self, done: &State) -> Result<Vec<Forecast>, Unknown> {
        let left = Mutex::new(Some(self.schedule.foreseen(done).enumerate()));
        let played = Mutex::new(Vec::new());
        let most = match &self.schedule.plan.sla {
            Some(_) => 1,
            None => threads::cores(),
        };
        let work = || {
            let mut state = done.clone();
            loop {
                let next = lock(&left).as_mut().and_then(Iterator::next);
                let Some((place, start)) = next else { return };
                let Some(group) = self.schedule.sure_group(&start, &state) else {
                    continue;
                };
                let forecast = self.play(&start.server, group, &mut state);
                if !matches!(forecast, Ok((_, Ending::Finished))) {
                    *lock(&left) = None;
                }
                lock(&played).push((place, forecast));
            }
        };
        threads::beside(most, work);
        let mut played = played.into_inner().unwrap_or_else(PoisonError::into_inner);
        played.sort_by_key(|(place, _)| *place);
        let mut forecasts: Vec<Forecast> = Vec::new();
        let mut places: HashMap<ServerId, usize> = HashMap::new();
        for (_, played) in played {
            let (forecast, ending) = played?;
            match places.get(&forecast.server) {
                Some(place) => forecasts[*place].add(forecast),
                None => {
                    places.insert(forecast.server.clone(), forecasts.len());
                    forecasts.push(forecast);
                }
            }
            if ending == Ending::StoppedOnFailure {
                break;
            }
        }
        Ok(forecasts)
    }

    fn play(&self, server: &ServerConfig, group: Group, state: &mut State) -> Result<(Forecast, Ending), Unknown> {
        let stand_in = self.lessons.stand_in(server, self.options)?;
        if let Some(forecast) = unstarted(&group, &stand_in, state) {
            return Ok((forecast, Ending::Finished));
        }
        play_group(self, group, &stand_in, state).map_err(|unknown| match unknown {
            Unknown::Because(why) => {
                Unknown::Because(format!("{}: {why}", self.schedule.plan.secrets.redact(&server.name)))
            }
            too_much => too_much,
        })
    }
}

/// A server that would not start for an earlier slot either is not started again, and all its runs fail.
fn unstarted(group: &Group, stand_in: &StandIn, state: &State) -> Option<Forecast> {
    let failure = stand_in
        .failure
        .as_ref()
        .filter(|failure| !failure.cause.is_transient())?;
    let mut starts = state
        .servers
        .get(&group.server.id)
        .into_iter()
        .flat_map(|record| &record.starts);
    let was_ready = starts.any(|start| start.ready_seconds.is_some());
    (group.slot > FIRST_SLOT && !was_ready).then(|| Forecast {
        runs: group.tasks.len() as u64,
        failure: Some(failure.clone()),
        ..Forecast::new(group.server.id.clone(), group.server.name.clone())
    })
}
