//! Predicts when servers that share the machine begin and end, by the policy of the real run and the predicted durations.

use super::{Forecast, Options, Total, Unknown};
use crate::ids::ServerId;
use crate::matrix::ServerConfig;
use crate::plan::Plan;
use crate::run::{capacity, demand};
use crate::selection::packed::{Capacity, Need, Work, longest_chain, play_apart};
use crate::units::show_duration;
use std::collections::BTreeMap;
use std::time::Duration;

/// The division of the machine between the servers of a rehearsal.
#[derive(Debug, Clone, PartialEq)]
pub struct Packing {
    /// Resources that may be used at the same time.
    pub capacity: Capacity,
    /// Likely beginning of each server, in seconds, in the order of the forecasts.
    pub begins: Vec<f64>,
    /// The longest chain of servers, of which each begins at the end of the one before.
    chain: Vec<usize>,
    /// Time for which the servers of the chain wait for the starts and runs of others, in seconds.
    waited_s: f64,
}

/// Returns the GPUs that a server is given; none if the plan does not divide them.
pub(super) fn gpus_of(plan: &Plan, server: &ServerConfig, options: &Options) -> Vec<u32> {
    let capacity = capacity(&plan.exec, options.gpus);
    let gpus = capacity.map_or(0, |capacity| demand(&plan.exec, capacity, server));
    (0..gpus).collect()
}

/// Divides the machine among the servers of some forecasts; `None` if they run one after the other.
pub(super) fn pack(
    plan: &Plan,
    servers: impl Iterator<Item = ServerConfig>,
    forecasts: &[Forecast],
    options: &Options,
) -> Result<Option<Packing>, Unknown> {
    let Some(capacity) = capacity(&plan.exec, options.gpus) else {
        return Ok(None);
    };
    let configs: BTreeMap<ServerId, ServerConfig> = servers.map(|server| (server.id.clone(), server)).collect();
    let mut needs = Vec::with_capacity(forecasts.len());
    let mut works = Vec::with_capacity(forecasts.len());
    for forecast in forecasts {
        let config = configs.get(&forecast.server);
        let gpus = config.map_or(0, |server| demand(&plan.exec, capacity, server));
        let alone = config.is_some_and(|server| plan.exec.is_exclusive(&server.params));
        if gpus > capacity.gpus {
            return Err(Unknown::Because(format!(
                "`{}` needs {gpus} GPUs, and the machine has {}: say which one is meant, e.g. `vsweep plan --gpu {gpus}xh100`, or leave the server out",
                forecast.name, capacity.gpus
            )));
        }
        let both = 2 * gpus;
        if plan.compare.is_some() && both > capacity.gpus && gpus > 0 {
            return Err(Unknown::Because(format!(
                "two servers at once need {both} GPUs, and the machine has {}: say which one is meant, e.g. `vsweep plan --gpu {both}xh100`, or remove \
                 [exec]",
                capacity.gpus
            )));
        }
        // Every config has its first start before any has its second, so one round of starts is played.
        let rounds = f64::from(plan.starts.max(1));
        let work = Work {
            starts: (f64::from(forecast.starts) / rounds).ceil() as u64,
            starting_s: forecast.total.starts.likely / rounds,
            runs: (forecast.runs as f64 / rounds).ceil() as u64,
            running_s: forecast.total.runs.likely / rounds,
            starts_apart: config.is_some_and(|server| plan.exec.starts_apart(&server.argv, gpus)),
        };
        let seconds = work.starting_s + work.running_s;
        needs.push(Need { gpus, seconds, alone });
        works.push(work);
    }
    let order = capacity.order(&needs);
    let placed = match works.iter().any(|work| work.starts_apart) {
        true => play_apart(capacity, &needs, &works, &order),
        false => capacity.play(&needs, &order),
    };
    let mut begins = vec![0.0; needs.len()];
    for group in &placed {
        begins[group.group] = group.from;
    }
    let chain = longest_chain(&placed);
    let in_chain = placed.iter().filter(|placed| chain.contains(&placed.group));
    let waits = in_chain.map(|placed| placed.to - placed.from - needs[placed.group].seconds);
    let waited_s = waits.sum::<f64>().max(0.0) * f64::from(plan.starts.max(1));
    Ok(Some(Packing {
        capacity,
        begins,
        chain,
        waited_s,
    }))
}

impl Packing {
    /// Returns the total duration with its uncertainty, which is that of the longest chain.
    pub(super) fn total(&self, forecasts: &[Forecast]) -> Total {
        let mut total = Total::default();
        for server in &self.chain {
            total += forecasts[*server].total;
        }
        let likely = total.interval().likely;
        match likely > 0.0 {
            true => total.stretched(1.0 + self.waited_s / likely),
            false => total,
        }
    }

    /// Returns a sentence on the time that is lost because starts are kept apart from runs, if it is at least a second.
    pub(super) fn remark(&self) -> Option<String> {
        let waited = Duration::from_secs_f64(self.waited_s);
        let text = format!(
            "no server starts while another one is measured (exec.starts_apart): {} of that is waiting for it",
            show_duration(waited)
        );
        (waited >= Duration::from_secs(1)).then_some(text)
    }
}
