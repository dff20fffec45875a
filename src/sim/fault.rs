//! Faults that the simulator can be told to have: one closed list, one word each. Where each one strikes is written at
//! the place it strikes; this file only says what there is.

use std::fmt;
use std::time::Duration;

/// One fault, as `--sim-fault KIND[:ARG]` or in `VSWEEP_SIM_FAULT` (separated by commas).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// `crash-at-start`: a traceback while the engine initialises, exit code 1.
    CrashAtStart,
    /// `bad-exit:CODE`: ends with this exit code while starting.
    BadExit(u8),
    /// `never-ready`: starts, logs, and never listens.
    NeverReady,
    /// `slow-start:SECONDS`: takes this long to become ready.
    SlowStart(Duration),
    /// `port-taken`: behaves as if another program held the port.
    PortTaken,
    /// `oom-at-load`: out of GPU memory while loading the weights.
    OomAtLoad,
    /// `kv-too-small`: too little memory left for one request of the longest length.
    KvTooSmall,
    /// `wrong-model`: serves a model of another name.
    WrongModel,
    /// `crash-after:N`: the whole server dies during the first step after N requests were admitted.
    CrashAfter(u64),
    /// `oom-after:N`: the engine runs out of GPU memory then, and dies as in `engine-death-after`.
    OomAfter(u64),
    /// `engine-death-after:N`: the engine process is killed then; the API server lives on for some seconds.
    EngineDeathAfter(u64),
    /// `hang-after:N`: healthy, accepts requests, produces nothing once N requests were admitted.
    HangAfter(u64),
    /// `ignore-term`: SIGTERM and SIGINT do nothing.
    IgnoreTerm,
    /// `hang-on-term`: told to stop with a stream in flight, stops the engine and then waits for ever, as vLLM may.
    HangOnTerm,
    /// `leak-child`: starts a process in a session of its own that ignores SIGTERM and outlives the server.
    LeakChild,
    /// `error-rate:P`: this share of requests is answered with 500.
    ErrorRate(f64),
    /// `reject-rate:P`: this share of requests is answered with 429.
    RejectRate(f64),
    /// `truncate-rate:P`: this share of streams is cut in the middle, without `[DONE]`.
    TruncateRate(f64),
    /// `reset-refused:N`: the first N resets of the prefix cache are refused.
    ResetRefused(u64),
    /// `log-flood`: writes a thousand log lines with every request.
    LogFlood,
}

/// Every fault by its word, with the meaning of its argument, if it has one.
pub const KINDS: [(&str, Option<&str>); 20] = [
    ("crash-at-start", None),
    ("bad-exit", Some("CODE")),
    ("never-ready", None),
    ("slow-start", Some("SECONDS")),
    ("port-taken", None),
    ("oom-at-load", None),
    ("kv-too-small", None),
    ("wrong-model", None),
    ("crash-after", Some("N")),
    ("oom-after", Some("N")),
    ("engine-death-after", Some("N")),
    ("hang-after", Some("N")),
    ("ignore-term", None),
    ("hang-on-term", None),
    ("leak-child", None),
    ("error-rate", Some("P")),
    ("reject-rate", Some("P")),
    ("truncate-rate", Some("P")),
    ("reset-refused", Some("N")),
    ("log-flood", None),
];

impl Fault {
    /// Reads one fault; the error says what is accepted.
    pub fn parse(text: &str) -> Result<Fault, String> {
        let (kind, argument) = match text.split_once(':') {
            Some((kind, argument)) => (kind, Some(argument)),
            None => (text, None),
        };
        let Some((_, meaning)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            return Err(format!("invalid fault '{text}': use one of {}", Kinds));
        };
        let argument = match (meaning, argument) {
            (None, None) => "",
            (Some(_), Some(argument)) => argument,
            (Some(meaning), None) => return Err(format!("invalid fault '{text}': write {kind}:{meaning}")),
            (None, Some(_)) => return Err(format!("invalid fault '{text}': {kind} takes no argument")),
        };
        let invalid = || format!("invalid fault '{text}': write {kind}:{}", meaning.unwrap_or_default());
        let count = || argument.parse::<u64>().map_err(|_| invalid());
        let share = || {
            argument
                .parse::<f64>()
                .ok()
                .filter(|p| (0.0..=1.0).contains(p))
                .ok_or_else(invalid)
        };
        Ok(match kind {
            "crash-at-start" => Fault::CrashAtStart,
            "bad-exit" => Fault::BadExit(argument.parse().map_err(|_| invalid())?),
            "never-ready" => Fault::NeverReady,
            "slow-start" => {
                let seconds = argument.trim_end_matches('s').parse::<f64>().map_err(|_| invalid())?;
                Fault::SlowStart(Duration::try_from_secs_f64(seconds).map_err(|_| invalid())?)
            }
            "port-taken" => Fault::PortTaken,
            "oom-at-load" => Fault::OomAtLoad,
            "kv-too-small" => Fault::KvTooSmall,
            "wrong-model" => Fault::WrongModel,
            "crash-after" => Fault::CrashAfter(count()?),
            "oom-after" => Fault::OomAfter(count()?),
            "engine-death-after" => Fault::EngineDeathAfter(count()?),
            "hang-after" => Fault::HangAfter(count()?),
            "ignore-term" => Fault::IgnoreTerm,
            "hang-on-term" => Fault::HangOnTerm,
            "leak-child" => Fault::LeakChild,
            "error-rate" => Fault::ErrorRate(share()?),
            "reject-rate" => Fault::RejectRate(share()?),
            "truncate-rate" => Fault::TruncateRate(share()?),
            "reset-refused" => Fault::ResetRefused(count()?),
            _ => Fault::LogFlood,
        })
    }
}

/// Prints the list of faults.
pub struct Kinds;

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, argument)) in KINDS.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
            if let Some(argument) = argument {
                write!(f, ":{argument}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_only_those() {
        for (name, argument) in KINDS {
            let text = argument.map_or(name.to_string(), |_| format!("{name}:1"));
            let fault = Fault::parse(&text).expect(&text);
            assert!(name == "log-flood" || fault != Fault::LogFlood, "{name} is not matched");
        }
        assert!(Fault::parse("oom").expect_err("unknown").contains("oom-at-load"));
        assert_eq!(
            Fault::parse("error-rate:2"),
            Err("invalid fault 'error-rate:2': write error-rate:P".into())
        );
    }
}
