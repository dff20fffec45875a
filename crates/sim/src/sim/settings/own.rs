//! What the simulator's own flags mean: speed, noise, start, faults.

use super::{FlagReader, Unusable};
use crate::sim::engine::noise::{Spread, uniform};
use crate::sim::fault::Fault;
use crate::sim::flags::Flags;
use crate::sim::neighbours::CrossTalk;
use std::time::Duration;

pub(super) fn speed(read: &FlagReader) -> Result<f64, Unusable> {
    if read.on("sim_zero", false) {
        return Ok(f64::INFINITY);
    }
    let speed = read.float("sim_speed", 1.0);
    let usable = speed > 0.0 && speed.is_finite();
    usable
        .then_some(speed)
        .ok_or_else(|| Unusable::Flag(format!("argument --sim-speed: must be above 0, got '{speed}'")))
}

/// A number of a flag of ours, within its bounds.
pub(super) fn within(read: &FlagReader, name: &str, default: f64, most: f64) -> Result<f64, Unusable> {
    let value = read.float(name, default);
    let usable = (0.0..=most).contains(&value);
    let flag = name.replace('_', "-");
    usable
        .then_some(value)
        .ok_or_else(|| Unusable::Flag(format!("argument --{flag}: must be 0 to {most}, got '{value}'")))
}

pub(super) fn spread(read: &FlagReader) -> Result<Spread, Unusable> {
    let every = duration(read, "sim_stall_every")?;
    let length = duration(read, "sim_stall")?.unwrap_or(Duration::from_millis(200));
    Ok(Spread {
        step: within(read, "sim_noise", 0.02, 2.0)?,
        server: within(read, "sim_server_noise", 0.0, 2.0)?,
        drift: within(read, "sim_drift", 0.0, 0.9)?,
        slowing: within(read, "sim_slowing", 0.0, 100.0)?,
        stalls: every
            .filter(|every| !every.is_zero())
            .map(|every| (every.as_secs_f64(), length.as_secs_f64())),
    })
}

pub(super) fn cross_talk(read: &FlagReader) -> Result<CrossTalk, Unusable> {
    Ok(CrossTalk {
        busy: within(read, "sim_cross_talk", 0.0, 10.0)?,
        starting: within(read, "sim_start_cross_talk", 0.0, 10.0)?,
    })
}

fn duration(read: &FlagReader, name: &str) -> Result<Option<Duration>, Unusable> {
    let Some(text) = read.text(name) else { return Ok(None) };
    let flag = name.replace('_', "-");
    let parsed = humantime::parse_duration(text).map_err(|error| {
        Unusable::Flag(format!(
            "argument --{flag}: '{text}' is not a duration such as 600ms or 2s: {error}"
        ))
    });
    parsed.map(Some)
}

/// How long the start takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTime {
    /// This long in all.
    Within(Duration),
    /// As long as the model of the phases says.
    Modelled,
}

/// Short unless asked otherwise, so that a sweep of many servers is a demo and not a wait.
pub(super) fn start(read: &FlagReader, faults: &[Fault]) -> Result<StartTime, Unusable> {
    if let Some(Fault::SlowStart(time)) = faults.iter().find(|fault| matches!(fault, Fault::SlowStart(_))) {
        return Ok(StartTime::Within(*time));
    }
    Ok(match read.text("sim_start") {
        Some("modelled") => StartTime::Modelled,
        _ => StartTime::Within(duration(read, "sim_start")?.unwrap_or(Duration::from_millis(600))),
    })
}

/// The faults of this server. Those with a share (`KIND@P`) strike this share of all servers: which ones, their settings
/// and the seed decide.
pub(super) fn faults(
    flags: &Flags,
    environment: &dyn Fn(&str) -> Option<String>,
    draw: u64,
) -> Result<Vec<Fault>, Unusable> {
    let read = FlagReader(flags);
    let mut words = read.texts("sim_fault");
    let from_environment = environment("VSWEEP_SIM_FAULT").unwrap_or_default();
    words.extend(
        from_environment
            .split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_string),
    );
    let mut faults = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let refuse = |error| Unusable::Flag(format!("argument --sim-fault: {error}"));
        let (fault, share) = Fault::parse_with_share(word).map_err(refuse)?;
        if uniform(draw, place as u64) < share {
            faults.push(fault);
        }
    }
    Ok(faults)
}
