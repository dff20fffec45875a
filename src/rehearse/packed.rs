//! Servers side by side in virtual time: the policy of the real run with the predicted lengths.

use super::{Forecast, Options, Total, Unknown};
use crate::ids::ServerId;
use crate::journal::Interferences;
use crate::matrix::ServerConfig;
use crate::plan::Plan;
use crate::run::{demand, room};
use crate::selection::packed::{Need, Room, longest_chain};
use crate::stats::Slowdown;
use crate::units::show_many;
use std::collections::BTreeMap;

/// How the servers of a rehearsal share the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed {
    /// How much runs at once.
    pub room: Room,
    /// When each server likely begins, in seconds, in the order of the forecasts.
    pub begins: Vec<f64>,
    /// The servers that take as long as all: each begins with the end of the one before.
    chain: Vec<usize>,
    /// Runs that are repeated alone, and as many beside others, to learn whether servers slow each other down.
    repeated: usize,
}

/// Pairs of runs that usually tell whether servers slow each other down.
const USUAL_PAIRS: usize = 6;

/// Shares the machine out among the servers of some forecasts; `None` if they run one after the other.
pub(super) fn pack(
    plan: &Plan,
    servers: impl Iterator<Item = ServerConfig>,
    forecasts: &[Forecast],
    options: &Options,
    found: &Interferences,
) -> Result<Option<Packed>, Unknown> {
    let Some(mut room) = room(&plan.exec, options.gpus) else {
        return Ok(None);
    };
    if plan.exec.watched_percent().is_some() && found.servers.slowdown == Slowdown::Slows {
        room.groups = 1;
    }
    let configs: BTreeMap<ServerId, ServerConfig> = servers.map(|server| (server.id.clone(), server)).collect();
    let mut needs = Vec::with_capacity(forecasts.len());
    for forecast in forecasts {
        let config = configs.get(&forecast.server);
        let gpus = config.map_or(0, |server| demand(&plan.exec, room, server));
        let alone = config.is_some_and(|server| plan.exec.is_exclusive(&server.params));
        if gpus > room.gpus {
            return Err(Unknown::Because(format!(
                "`{}` needs {gpus} GPUs, and the machine has {}: say which one is meant, e.g. --gpu {gpus}xh100, or leave the server out",
                forecast.name, room.gpus
            )));
        }
        let both = 2 * gpus;
        if plan.compare.is_some() && both > room.gpus && gpus > 0 {
            return Err(Unknown::Because(format!(
                "two servers at once need {both} GPUs, and the machine has {}: say which one is meant, e.g. --gpu {both}xh100, or remove \
                 [exec]",
                room.gpus
            )));
        }
        // Every config has its first start before any has its second.
        let seconds = forecast.total.interval().likely / f64::from(plan.starts.max(1));
        needs.push(Need { gpus, seconds, alone });
    }
    let placed = room.play(&needs, &room.order(&needs));
    let mut begins = vec![0.0; needs.len()];
    for group in &placed {
        begins[group.group] = group.from;
    }
    let chain = longest_chain(&placed);
    let is_side_by_side = placed
        .iter()
        .any(|one| placed.iter().any(|other| one.from < other.to && other.from < one.from));
    let is_open = is_side_by_side && plan.exec.watched_percent().is_some() && found.servers.is_open();
    let pairs = USUAL_PAIRS.saturating_sub(found.servers.pairs);
    let repeated = if is_open { pairs } else { 0 };
    Ok(Some(Packed {
        room,
        begins,
        chain,
        repeated,
    }))
}

impl Packed {
    /// How long it all takes: errors of what runs beside the longest chain hardly matter.
    pub(super) fn total(&self, forecasts: &[Forecast]) -> Total {
        let mut total = Total::default();
        for server in &self.chain {
            total += forecasts[*server].total;
        }
        total
    }

    /// What is assumed of repeated runs.
    pub(super) fn remark(&self) -> Option<String> {
        let pairs = show_many(self.repeated as u64, "pair");
        let text = format!(
            "{pairs} of repeated runs tell whether they do, one of each alone while the others wait; if so, the rest takes longer"
        );
        (self.repeated > 0).then_some(text)
    }

    /// How long the repeated runs keep everybody, in seconds: each that is alone all the others, those beside them nobody for longer
    /// than a run; and the others finish the run that they are at before.
    pub(super) fn kept_s(&self, forecasts: &[Forecast]) -> f64 {
        let runs: u64 = forecasts.iter().map(|server| server.runs).sum();
        let seconds: f64 = forecasts.iter().map(|server| server.total.runs.likely).sum();
        match self.repeated {
            0 => 0.0,
            repeated => (repeated as f64 + 2.0) * seconds / runs.max(1) as f64,
        }
    }
}
