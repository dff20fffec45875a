//! The servers of a plan in virtual time, several at once: nothing that happens on one concerns another, unless a search
//! takes its first guess from its neighbour's answer. The outcome is that of one thread.

use super::company::Company;
use super::server::StandIn;
use super::stage::play_group;
use super::{Forecast, Unknown};
use crate::agenda::{Ending, Group};
use crate::journal::State;
use crate::matrix::ServerConfig;
use crate::threads;
use std::sync::{Mutex, MutexGuard, PoisonError};

impl Company<'_> {
    /// The forecasts of all servers on which something is left to do after `done`, in the order of the plan.
    pub fn perform(&self, done: &State) -> Result<Vec<Forecast>, Unknown> {
        let left = Mutex::new(Some(self.schedule.servers().enumerate()));
        let played = Mutex::new(Vec::new());
        let most = match &self.plan.sla {
            Some(_) => 1,
            None => threads::cores(),
        };
        let work = || {
            let mut state = done.clone();
            loop {
                let next = lock(&left).as_mut().and_then(Iterator::next);
                let Some((place, server)) = next else { return };
                let Some(group) = self.schedule.group(&server, &state) else {
                    continue;
                };
                let forecast = self.play(&server, group, &mut state);
                if !matches!(forecast, Ok((_, Ending::Finished))) {
                    *lock(&left) = None;
                }
                lock(&played).push((place, forecast));
            }
        };
        threads::beside(most, work);
        let mut played = played.into_inner().unwrap_or_else(PoisonError::into_inner);
        played.sort_by_key(|(place, _)| *place);
        let mut forecasts = Vec::new();
        for (_, played) in played {
            let (forecast, ending) = played?;
            forecasts.push(forecast);
            if ending == Ending::StoppedOnFailure {
                break;
            }
        }
        Ok(forecasts)
    }

    fn play(&self, server: &ServerConfig, group: Group, state: &mut State) -> Result<(Forecast, Ending), Unknown> {
        let stand_in = StandIn::of(server, self.options)?;
        play_group(self, group, &stand_in, state).map_err(|unknown| match unknown {
            Unknown::Because(why) => Unknown::Because(format!("{}: {why}", self.plan.secrets.redact(&server.name))),
            too_much => too_much,
        })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
