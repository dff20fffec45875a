//! The faults that can be simulated: one closed list, with a word for each. This file only declares and parses them; other modules cause
//! their effects.

use super::driver::TimedFault;
use std::str::FromStr;
use std::time::Duration;
use vsweep_base::units::parse_duration;

/// Declares the faults, each with its effect, its word and, if it takes an argument, the meaning of the argument and the function that
/// parses it.
macro_rules! faults {
    ($($(#[$doc:meta])+ $fault:ident $(($kind:ty))? = $word:literal $(: $meaning:literal $read:ident)?;)+) => {
        /// One fault, as `--sim-fault KIND[:ARG][@P]` or in `VSWEEP_SIM_FAULT` (separated by commas).
        #[derive(Debug, Clone, PartialEq)]
        pub enum Fault {
            $($(#[$doc])+ $fault $(($kind))?,)+
            /// A fault that occurs at the end of the first step after this many requests were admitted.
            AfterRequests(TimedFault, u64),
            /// A fault that occurs this long after the server is ready.
            AfterTime(TimedFault, Duration),
        }

        /// The word of every fault that is not timed, with the meaning of its argument; the meaning is empty if the fault takes no
        /// argument.
        const UNTIMED: &[(&str, &str)] = &[$(($word, concat!($($meaning)?))),+];

        /// Returns the fault with this word, which is not timed, if its argument can be parsed.
        fn untimed(word: &str, argument: &str) -> Option<Fault> {
            Some(match word {
                $($word => Fault::$fault $(($read(argument)?))?,)+
                _ => return None,
            })
        }
    };
}

faults! {
    /// A traceback while the engine initialises, exit code 1.
    CrashAtStart = "crash-at-start";
    /// Ends with this exit code while starting.
    BadExit(u8) = "bad-exit": "CODE" number;
    /// Starts, logs, and never listens.
    NeverReady = "never-ready";
    /// Takes this long to become ready.
    SlowStart(Duration) = "slow-start": "SECONDS" seconds;
    /// Behaves as if another program held the port.
    PortTaken = "port-taken";
    /// Out of GPU memory while loading the weights.
    OomAtLoad = "oom-at-load";
    /// Out of GPU memory while a batch of the largest size is tried.
    OomAtProfile = "oom-at-profile";
    /// Too little memory left for one request of the longest length.
    KvTooSmall = "kv-too-small";
    /// Serves a model of another name.
    WrongModel = "wrong-model";
    /// Accepts this flag, but behaves as if it had not been given.
    IgnoreFlag(String) = "ignore-flag": "NAME" flag;
    /// SIGTERM and SIGINT do nothing.
    IgnoreTerm = "ignore-term";
    /// On SIGTERM with a stream in flight, stops the engine and then waits for ever, as vLLM may.
    HangOnTerm = "hang-on-term";
    /// Starts a process in a session of its own that ignores SIGTERM and outlives the server.
    LeakChild = "leak-child";
    /// The simulated GPU memory stays in use this long after the engine has ended.
    LateRelease(Duration) = "late-release": "SECONDS" seconds;
    /// This share of requests is answered with 500.
    ErrorRate(f64) = "error-rate": "P" share;
    /// This share of requests is answered with 429.
    RejectRate(f64) = "reject-rate": "P" share;
    /// This share of streams is cut in the middle, without `[DONE]`.
    TruncateRate(f64) = "truncate-rate": "P" share;
    /// This share of answers reports more tokens than the answer has.
    WrongCounts(f64) = "wrong-counts": "P" share;
    /// This share of the tokens of an answer differs from those of a sound server.
    WrongTokens(f64) = "wrong-tokens": "P" share;
    /// This share of the tokens of an answer repeats the previous one.
    RepeatedTokens(f64) = "repeated-tokens": "P" share;
    /// No answer has more than N tokens, whatever is asked for.
    CutAnswers(u64) = "cut-answers": "N" number;
    /// Only the last N tokens of a prompt are read; all of them are counted.
    TruncatedPrompts(u64) = "truncated-prompts": "N" number;
    /// Log probabilities change at random, by up to this much, in the answer to a request that comes while others are in flight.
    BatchNoise(f64) = "batch-noise": "NATS" share;
    /// The first N resets of the prefix cache are refused.
    ResetRefused(u64) = "reset-refused": "N" number;
    /// Writes a thousand log lines with every request.
    LogFlood = "log-flood";
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.trim_end_matches('s').parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn share(text: &str) -> Option<f64> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share))
}

fn flag(text: &str) -> Option<String> {
    Some(text.trim_start_matches('-').replace('-', "_"))
}

fn timed(fault: TimedFault, after: &str) -> Option<Fault> {
    match after.parse() {
        Ok(requests) => Some(Fault::AfterRequests(fault, requests)),
        Err(_) => Some(Fault::AfterTime(fault, parse_duration(after).ok()?)),
    }
}

/// The word of every fault, with the meaning of its argument.
fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    UNTIMED.iter().copied().chain(TIMED.map(|(word, _)| (word, "N")))
}

/// The words of faults that occur at a certain moment.
const TIMED: [(&str, TimedFault); 6] = [
    ("crash-after", TimedFault::Crash),
    ("oom-after", TimedFault::OutOfMemory),
    ("engine-death-after", TimedFault::EngineDeath),
    ("engine-lost-after", TimedFault::EngineLost),
    ("hang-after", TimedFault::Hang),
    ("mute-after", TimedFault::Mute),
];

impl Fault {
    /// Parses one fault and the share of servers that have it, which is 1 unless `@P` follows.
    pub fn parse_with_share(text: &str) -> Result<(Fault, f64), String> {
        let Some((fault, share)) = text.split_once('@') else {
            return Ok((Fault::parse(text)?, 1.0));
        };
        let share =
            self::share(share).ok_or_else(|| format!("invalid fault '{text}': write the share of servers as @0.5"))?;
        Ok((Fault::parse(fault)?, share))
    }

    /// Parses one fault. The error lists what is accepted.
    pub fn parse(text: &str) -> Result<Fault, String> {
        let (kind, argument) = match text.split_once(':') {
            Some((kind, argument)) => (kind, Some(argument)),
            None => (text, None),
        };
        let Some((_, meaning)) = kinds().find(|(word, _)| *word == kind) else {
            return Err(format!("invalid fault '{text}': use one of {}", forms().join(", ")));
        };
        if meaning.is_empty() && argument.is_some() {
            return Err(format!("invalid fault '{text}': {kind} takes no argument"));
        }
        let argument = argument.or(meaning.is_empty().then_some(""));
        let fault = argument.and_then(|argument| match TIMED.iter().find(|(word, _)| *word == kind) {
            Some((_, fault)) => timed(*fault, argument),
            None => untimed(kind, argument),
        });
        fault.ok_or_else(|| format!("invalid fault '{text}': write {kind}:{meaning}"))
    }
}

/// Every fault with the meaning of its argument, as users write it: `never-ready`, `bad-exit:CODE`.
pub fn forms() -> Vec<String> {
    let form = |(word, meaning): (&str, &str)| match meaning {
        "" => word.to_owned(),
        _ => format!("{word}:{meaning}"),
    };
    kinds().map(form).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_only_those() {
        for (word, meaning) in kinds() {
            let text = match meaning {
                "" => word.to_owned(),
                _ => format!("{word}:1"),
            };
            Fault::parse(&text).expect(&text);
        }
        assert!(Fault::parse("log-flood:1").is_err() && Fault::parse("bad-exit").is_err());
        assert!(Fault::parse("oom").expect_err("unknown").contains("oom-at-load"));
        assert_eq!(
            Fault::parse("error-rate:2"),
            Err("invalid fault 'error-rate:2': write error-rate:P".into())
        );
    }

    #[test]
    fn a_fault_may_come_by_requests_by_time_or_by_chance() {
        assert_eq!(
            Fault::parse("hang-after:7"),
            Ok(Fault::AfterRequests(TimedFault::Hang, 7))
        );
        assert_eq!(
            Fault::parse("hang-after:1500ms"),
            Ok(Fault::AfterTime(TimedFault::Hang, Duration::from_millis(1500)))
        );
        assert!(
            Fault::parse("hang-after:200years").is_err(),
            "no clock represents such a time"
        );
        assert_eq!(
            Fault::parse_with_share("oom-at-load@0.25"),
            Ok((Fault::OomAtLoad, 0.25))
        );
        assert_eq!(Fault::parse_with_share("log-flood"), Ok((Fault::LogFlood, 1.0)));
        assert!(Fault::parse_with_share("log-flood@2").is_err());
    }
}
