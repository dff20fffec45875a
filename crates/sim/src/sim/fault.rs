//! Faults that the simulator can be told to have: one closed list, one word each. Where each one strikes is written at
//! the place it strikes; this file only says what there is.

use super::driver::Strike;
use std::fmt;
use std::time::Duration;

/// When a fault under load strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// After so many admitted requests, once a step was done.
    Requests(u64),
    /// So long after the server became ready.
    Time(Duration),
}

/// One fault, as `--sim-fault KIND[:ARG][@P]` or in `VSWEEP_SIM_FAULT` (separated by commas).
#[derive(Debug, Clone, PartialEq)]
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
    /// `oom-at-profile`: out of GPU memory while a batch of the largest size is tried.
    OomAtProfile,
    /// `kv-too-small`: too little memory left for one request of the longest length.
    KvTooSmall,
    /// `wrong-model`: serves a model of another name.
    WrongModel,
    /// `ignore-flag:NAME`: takes the flag and does as if it had not been given.
    IgnoreFlag(String),
    /// `…-after:N` and `…-after:TIME`: a strike under load.
    Strikes(Strike, After),
    /// `ignore-term`: SIGTERM and SIGINT do nothing.
    IgnoreTerm,
    /// `hang-on-term`: told to stop with a stream in flight, stops the engine and then waits for ever, as vLLM may.
    HangOnTerm,
    /// `leak-child`: starts a process in a session of its own that ignores SIGTERM and outlives the server.
    LeakChild,
    /// `late-release:SECONDS`: the simulated GPU memory stays taken this long after the engine is gone.
    LateRelease(Duration),
    /// `error-rate:P`: this share of requests is answered with 500.
    ErrorRate(f64),
    /// `reject-rate:P`: this share of requests is answered with 429.
    RejectRate(f64),
    /// `truncate-rate:P`: this share of streams is cut in the middle, without `[DONE]`.
    TruncateRate(f64),
    /// `wrong-counts:P`: this share of answers counts more tokens than it has.
    WrongCounts(f64),
    /// `wrong-tokens:P`: this share of the tokens of an answer is another than the most probable one.
    WrongTokens(f64),
    /// `repeated-tokens:P`: this share of the tokens of an answer is the one before again.
    RepeatedTokens(f64),
    /// `cut-answers:N`: no answer has more than N tokens, whatever is asked for.
    CutAnswers(u64),
    /// `truncated-prompts:N`: only the last N tokens of a prompt are read; all of them are counted.
    TruncatedPrompts(u64),
    /// `batch-noise:NATS`: log probabilities move by this much, at random, in an answer that is not given alone.
    BatchNoise(f64),
    /// `reset-refused:N`: the first N resets of the prefix cache are refused.
    ResetRefused(u64),
    /// `log-flood`: writes a thousand log lines with every request.
    LogFlood,
}

/// Every fault by its word, with the meaning of its argument, if it has one.
pub const KINDS: [(&str, Option<&str>); 31] = [
    ("crash-at-start", None),
    ("bad-exit", Some("CODE")),
    ("never-ready", None),
    ("slow-start", Some("SECONDS")),
    ("port-taken", None),
    ("oom-at-load", None),
    ("oom-at-profile", None),
    ("kv-too-small", None),
    ("wrong-model", None),
    ("ignore-flag", Some("NAME")),
    ("crash-after", Some("N")),
    ("oom-after", Some("N")),
    ("engine-death-after", Some("N")),
    ("engine-lost-after", Some("N")),
    ("hang-after", Some("N")),
    ("mute-after", Some("N")),
    ("ignore-term", None),
    ("hang-on-term", None),
    ("leak-child", None),
    ("late-release", Some("SECONDS")),
    ("error-rate", Some("P")),
    ("reject-rate", Some("P")),
    ("truncate-rate", Some("P")),
    ("wrong-counts", Some("P")),
    ("wrong-tokens", Some("P")),
    ("repeated-tokens", Some("P")),
    ("cut-answers", Some("N")),
    ("truncated-prompts", Some("N")),
    ("batch-noise", Some("NATS")),
    ("reset-refused", Some("N")),
    ("log-flood", None),
];

/// What can strike under load.
const STRIKES: [(&str, Strike); 6] = [
    ("crash-after", Strike::Crash),
    ("oom-after", Strike::OutOfMemory),
    ("engine-death-after", Strike::EngineDeath),
    ("engine-lost-after", Strike::EngineLost),
    ("hang-after", Strike::Hang),
    ("mute-after", Strike::Mute),
];

impl Fault {
    /// Reads one fault and the share of servers that have it, 1 unless `@P` follows.
    pub fn parse_with_share(text: &str) -> Result<(Fault, f64), String> {
        let Some((fault, share)) = text.split_once('@') else {
            return Ok((Fault::parse(text)?, 1.0));
        };
        let share = share.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        let share = share.ok_or_else(|| format!("invalid fault '{text}': write the share of servers as @0.5"))?;
        Ok((Fault::parse(fault)?, share))
    }

    /// Reads one fault; the error says what is accepted.
    pub fn parse(text: &str) -> Result<Fault, String> {
        let (kind, argument) = match text.split_once(':') {
            Some((kind, argument)) => (kind, Some(argument)),
            None => (text, None),
        };
        let Some((_, meaning)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            return Err(format!("invalid fault '{text}': use one of {Kinds}"));
        };
        let argument = match (meaning, argument) {
            (None, None) => "",
            (Some(_), Some(argument)) => argument,
            (Some(meaning), None) => return Err(format!("invalid fault '{text}': write {kind}:{meaning}")),
            (None, Some(_)) => return Err(format!("invalid fault '{text}': {kind} takes no argument")),
        };
        let invalid = || format!("invalid fault '{text}': write {kind}:{}", meaning.unwrap_or_default());
        let count = || argument.parse::<u64>().map_err(|_| invalid());
        let seconds = || {
            let seconds = argument.trim_end_matches('s').parse::<f64>().map_err(|_| invalid())?;
            Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
        };
        let share = || {
            argument
                .parse::<f64>()
                .ok()
                .filter(|p| (0.0..=1.0).contains(p))
                .ok_or_else(invalid)
        };
        let after = || match argument.parse::<u64>() {
            Ok(requests) => Ok(After::Requests(requests)),
            Err(_) => humantime::parse_duration(argument)
                .map(After::Time)
                .map_err(|_| invalid()),
        };
        if let Some((_, strike)) = STRIKES.iter().find(|(name, _)| *name == kind) {
            return Ok(Fault::Strikes(*strike, after()?));
        }
        Ok(match kind {
            "crash-at-start" => Fault::CrashAtStart,
            "bad-exit" => Fault::BadExit(argument.parse().map_err(|_| invalid())?),
            "never-ready" => Fault::NeverReady,
            "slow-start" => Fault::SlowStart(seconds()?),
            "port-taken" => Fault::PortTaken,
            "oom-at-load" => Fault::OomAtLoad,
            "oom-at-profile" => Fault::OomAtProfile,
            "kv-too-small" => Fault::KvTooSmall,
            "wrong-model" => Fault::WrongModel,
            "ignore-flag" => Fault::IgnoreFlag(argument.trim_start_matches('-').replace('-', "_")),
            "ignore-term" => Fault::IgnoreTerm,
            "hang-on-term" => Fault::HangOnTerm,
            "leak-child" => Fault::LeakChild,
            "late-release" => Fault::LateRelease(seconds()?),
            "error-rate" => Fault::ErrorRate(share()?),
            "reject-rate" => Fault::RejectRate(share()?),
            "truncate-rate" => Fault::TruncateRate(share()?),
            "wrong-counts" => Fault::WrongCounts(share()?),
            "wrong-tokens" => Fault::WrongTokens(share()?),
            "repeated-tokens" => Fault::RepeatedTokens(share()?),
            "cut-answers" => Fault::CutAnswers(count()?),
            "truncated-prompts" => Fault::TruncatedPrompts(count()?),
            "batch-noise" => Fault::BatchNoise(share()?),
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

    #[test]
    fn a_fault_may_come_by_requests_by_time_or_by_chance() {
        let hang = |after| Ok(Fault::Strikes(Strike::Hang, after));
        assert_eq!(Fault::parse("hang-after:7"), hang(After::Requests(7)));
        assert_eq!(
            Fault::parse("hang-after:1500ms"),
            hang(After::Time(Duration::from_millis(1500)))
        );
        assert_eq!(
            Fault::parse_with_share("oom-at-load@0.25"),
            Ok((Fault::OomAtLoad, 0.25))
        );
        assert_eq!(Fault::parse_with_share("log-flood"), Ok((Fault::LogFlood, 1.0)));
        assert!(Fault::parse_with_share("log-flood@2").is_err());
    }
}
