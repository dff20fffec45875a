//! Interprets the simulator's own flags: speed, noise, start, faults.

use crate::engine::noise::Spread;
use crate::fault::Fault;
use crate::flags::{Flags, Refusal};
use crate::neighbours::CrossTalk;
use std::ops::RangeInclusive;
use std::time::Duration;
use vsweep_base::units::parse_duration;
use vsweep_metrics::rng::uniform;

/// Allowed speed-up factors. Below the lower end, waits could exceed what a `Duration` holds.
const SPEEDS: RangeInclusive<f64> = 1e-6..=1e9;

pub(super) fn speed(flags: &Flags) -> Result<f64, Refusal> {
    if flags.is_on("sim_zero", false) {
        return Ok(f64::INFINITY);
    }
    match flags.float("sim_speed", 1.0) {
        speed if SPEEDS.contains(&speed) => Ok(speed),
        speed => Err(Refusal::argument(
            "sim_speed",
            format!("must be 0.000001 to 1000000000, got '{speed}'"),
        )),
    }
}

/// Returns the value of a flag, a number that must be from 0 to `most`.
pub(super) fn within(flags: &Flags, name: &str, default: f64, most: f64) -> Result<f64, Refusal> {
    match flags.float(name, default) {
        value if (0.0..=most).contains(&value) => Ok(value),
        value => Err(Refusal::argument(name, format!("must be 0 to {most}, got '{value}'"))),
    }
}

pub(super) fn spread(flags: &Flags) -> Result<Spread, Refusal> {
    let every = duration(flags, "sim_stall_every")?;
    let length = duration(flags, "sim_stall")?.unwrap_or(Duration::from_millis(200));
    Ok(Spread {
        step: within(flags, "sim_noise", 0.02, 2.0)?,
        server: within(flags, "sim_server_noise", 0.0, 2.0)?,
        drift: within(flags, "sim_drift", 0.0, 0.9)?,
        slowing: within(flags, "sim_slowing", 0.0, 100.0)?,
        stalls: every
            .filter(|every| !every.is_zero())
            .map(|every| (every.as_secs_f64(), length.as_secs_f64())),
    })
}

pub(super) fn cross_talk(flags: &Flags) -> Result<CrossTalk, Refusal> {
    Ok(CrossTalk {
        busy: within(flags, "sim_cross_talk", 0.0, 10.0)?,
        starting: within(flags, "sim_start_cross_talk", 0.0, 10.0)?,
    })
}

fn duration(flags: &Flags, name: &str) -> Result<Option<Duration>, Refusal> {
    let Some(text) = flags.text(name) else { return Ok(None) };
    let refusal = |why| Refusal::argument(name, format!("'{text}': {why}"));
    parse_duration(text).map(Some).map_err(refusal)
}

/// Returns the duration of the whole start; `None` if the phases have their modelled durations. It is short by default, so that demos with
/// many servers do not take long.
pub(super) fn start(flags: &Flags, faults: &[Fault]) -> Result<Option<Duration>, Refusal> {
    if let Some(Fault::SlowStart(time)) = faults.iter().find(|fault| matches!(fault, Fault::SlowStart(_))) {
        return Ok(Some(*time));
    }
    match flags.text("sim_start") {
        None => Ok(Some(Duration::from_millis(600))),
        Some("modelled") => Ok(None),
        Some(_) => duration(flags, "sim_start"),
    }
}

/// Returns the faults of this server. A fault with a share (`KIND@P`) affects this share of all servers, chosen by `draw`, a hash of the
/// server's settings and the seed.
pub(super) fn faults(
    flags: &Flags,
    environment: &dyn Fn(&str) -> Option<String>,
    draw: u64,
) -> Result<Vec<Fault>, Refusal> {
    let mut words = flags.texts("sim_fault");
    let more = environment("VSWEEP_SIM_FAULT").unwrap_or_default();
    words.extend(more.split(',').filter(|word| !word.is_empty()).map(str::to_owned));
    let mut faults = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let refuse = |error| Refusal::argument("sim_fault", error);
        let (fault, share) = Fault::parse_with_share(word).map_err(refuse)?;
        if uniform(draw, index as u64) < share {
            faults.push(fault);
        }
    }
    Ok(faults)
}
