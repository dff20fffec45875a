//! What each event is called in one line.

use super::Ahead;
use crate::report::failures::log_of;
use crate::report::words::show_number;
use std::time::Duration;
use vsweep_plan::cause::Outcome;
use vsweep_plan::ids::ServerId;
use vsweep_plan::units::{show_count, show_duration, show_many};
use vsweep_record::journal::{Directory, Entry, Event, Launch, RunRecord, SearchStarted, State};
use vsweep_strategy::search::{Answer, Basis, Found};

/// The line for an event; none for those that say nothing new.
pub fn describe(entry: &Entry, state: &State, ahead: &Ahead) -> Option<String> {
    let line = match &entry.event {
        Event::JournalCreated { .. } | Event::GroupBegun(_) | Event::RunStarted(_) => return None,
        Event::SessionStarted(session) if session.searches > 0 => {
            let left = state.searches_left();
            let (servers, searches) = (show_many(session.servers, "server"), show_count(session.searches));
            format!("{servers}, {searches} to search for the load; {left} left")
        }
        Event::SessionStarted(session) => {
            let left = show_count(ahead.total());
            let (servers, points, runs) = (
                show_many(session.servers, "server"),
                show_many(session.points, "point"),
                show_many(session.runs, "run"),
            );
            format!("{servers}, {points}, {runs}; {left} to do now")
        }
        Event::ResultsRetired { server, reason } => {
            let name = server_name(server, state);
            format!("server {name}: earlier results leave the tables: {reason}")
        }
        Event::GroupGivenUp(given_up) => {
            let runs: usize = given_up.points.iter().map(|point| point.runs.len()).sum();
            let (name, cause) = (server_name(&given_up.server, state), given_up.cause);
            let what = show_many(runs as u64, "run");
            match given_up.blamed {
                None => format!(
                    "server {name}: {what} failed: {cause}: {}; {}",
                    given_up.detail,
                    cause.advice_with(log_of(&given_up.server, state).as_deref())
                ),
                Some(_) => format!("server {name}: {what} not tried again: {cause}"),
            }
        }
        Event::ServerStarting { server, .. } if is_attached(server, state) => {
            format!("server {}: connecting", server_name(server, state))
        }
        Event::ServerStarting { server, .. } => match state.starts_of(server) {
            0 | 1 => format!("server {}: starting", server_name(server, state)),
            again => format!("server {}: starting (start {again})", server_name(server, state)),
        },
        Event::ServerReady { server, seconds, .. } => {
            format!(
                "server {}: ready after {}",
                server_name(server, state),
                show_seconds(*seconds)
            )
        }
        Event::ServerExited {
            server,
            launch,
            cause,
            detail,
        } => {
            let name = server_name(server, state);
            match cause {
                None if is_attached(server, state) => format!("server {name}: left running"),
                None => format!("server {name}: stopped"),
                Some(cause) => {
                    let session = entry.place.line.journal;
                    let log = Directory::server_log_file(server, Launch { session, n: *launch });
                    let log = (!is_attached(server, state)).then_some(log.as_str());
                    format!("server {name}: {cause}: {detail}; {}", cause.advice_with(log))
                }
            }
        }
        Event::SearchStarted(started) => {
            let names: Vec<&str> = started.targets.iter().map(|target| target.name.as_str()).collect();
            let name = search_name(started, state);
            if names.is_empty() {
                return Some(format!("{name}: exploring {}", started.vary.name()));
            }
            let (vary, seed) = (started.vary.name(), started.seed);
            let from = match seed.basis {
                Some(Basis::Neighbour) => format!(", starting near {} as on another server", show_number(seed.value)),
                Some(Basis::Forecast) => {
                    format!(", starting near {} as the simulator predicts", show_number(seed.value))
                }
                Some(Basis::KvCapacity) => {
                    format!(", starting near {}, which fill its KV cache", show_number(seed.value))
                }
                Some(Basis::Nothing) | None => String::new(),
            };
            format!("{name}: searching {vary} for {}{from}", names.join(", "))
        }
        Event::SearchFinished {
            search,
            answers,
            cause,
            detail,
            ..
        } => {
            let record = state.search(search)?;
            let name = search_name(&record.started, state);
            match cause {
                Some(cause) => {
                    let log = log_of(&record.started.server, state);
                    let advice = cause.advice_with(log.as_deref());
                    format!("{name}: search given up: {cause}: {detail}; {advice}")
                }
                None if answers.is_empty() => format!("{name}: explored"),
                None => format!(
                    "{name}: {}",
                    answers.iter().map(answer_text).collect::<Vec<_>>().join("; ")
                ),
            }
        }
        Event::RunFinished(_) => {
            let run = state.run_of(entry)?;
            let left = time_left(ahead).map_or(String::new(), |left| format!(", {left}"));
            match run.search {
                Some(_) => format!("probe{left}: {}", outcome(run, state)),
                None => {
                    let (done, total) = (ahead.done(), ahead.total());
                    format!("run {done} of {total}{left}: {}", outcome(run, state))
                }
            }
        }
        Event::SessionEnded { reason } => reason.clone(),
    };
    Some(line)
}

/// A run's outcome with its settings: `tp=2, max_concurrency=8 #1 ok in 12.5 s`.
pub fn outcome(run: &RunRecord, state: &State) -> String {
    let names = [server_name(&run.server, state), run.name.clone()];
    let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let what = format!("{} #{}", names.join(", "), run.number());
    let seconds = show_seconds(run.seconds);
    match (run.outcome, run.cause) {
        (Outcome::Ok, _) => format!("{what} ok in {seconds}"),
        (Outcome::Cut, _) => format!("{what} {} after {seconds}", run.detail),
        (Outcome::Suspect, _) => {
            let doubts = run
                .doubts
                .iter()
                .map(|doubt| format!("{}: {}", doubt.code, doubt.detail));
            format!(
                "{what} {} in {seconds}: {}",
                run.validity,
                doubts.collect::<Vec<_>>().join("; ")
            )
        }
        (outcome, None) => format!("{what} {outcome} after {seconds}"),
        (outcome, Some(cause)) => {
            let advice = cause.advice_with(log_of(&run.server, state).as_deref());
            format!("{what} {outcome}: {cause}: {}; {advice}", run.detail)
        }
    }
}

/// A search for people: its server, and its load unless that is the only one.
fn search_name(started: &SearchStarted, state: &State) -> String {
    let server = server_name(&started.server, state);
    match started.name.as_str() {
        "default" => server,
        load => format!("{server}, {load}"),
    }
}

/// An answer in a few words: `chat 42`, `chat 42 (met, within 14 %)`, `batch none`.
fn answer_text(answer: &Answer) -> String {
    let found = match answer.found {
        Found::Met(value) if answer.is_coarse => format!("{value} ({})", answer.words()),
        Found::Met(value) => value.to_string(),
        Found::Beyond(value) => format!("{value} and beyond"),
        other => other.word().to_owned(),
    };
    format!("{} {found}", answer.target)
}

/// `about 5m 20s left`; `None` while it cannot be known.
pub fn time_left(ahead: &Ahead) -> Option<String> {
    let seconds = ahead.seconds_left().filter(|seconds| *seconds > 0.0)?;
    Some(format!("about {} left", show_seconds(seconds)))
}

/// Whether vsweep only measures the server, so that it neither starts nor stops it.
fn is_attached(server: &ServerId, state: &State) -> bool {
    state.servers.get(server).is_some_and(|record| record.argv.is_empty())
}

/// The name of a server config for people.
pub fn server_name(server: &ServerId, state: &State) -> String {
    let name = state.servers.get(server).map(|record| record.name.clone());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| server.to_string())
}

/// `10:15:30` of an RFC 3339 time.
pub fn time_of_day(at: &str) -> &str {
    at.get(11..19).unwrap_or(at)
}

fn show_seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "an unknown time".into(), show_duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_plan::cause::Cause;
    use vsweep_plan::ids::PointId;
    use vsweep_plan::plan::Params;
    use vsweep_plan::validity::Validity;
    use vsweep_record::journal::{
        FIRST_SLOT, GroupBegun, GroupGivenUp, RecordedPlan, RunFinished, RunStarted, Seen, ServerDeclared,
        SessionStarted, Untried,
    };

    #[test]
    fn every_event_has_its_words() {
        let server = ServerId("s1".into());
        let (slot, launch) = (FIRST_SLOT, 1);
        let mut state = State::default();
        let mut ahead = Ahead::default();
        ahead.add_runs(&server, slot, "max_concurrency=8", 4);
        let mut lines = Vec::new();
        let mut say = |event: Event| {
            let mut entry = state.imagine(event);
            entry.at = "2026-11-20T10:15:30.123Z".into();
            ahead.note(&entry, &state);
            lines.extend(describe(&entry, &state, &ahead));
            entry.place.line.seq
        };
        let plan = RecordedPlan::new("p", String::new(), &[], &[]);
        say(Event::SessionStarted(Box::new(SessionStarted {
            host: "h".into(),
            boot: String::new(),
            pid: 1,
            started: 1,
            plan,
            servers: 1,
            points: 2,
            starts: 1,
            runs: 4,
            searches: 0,
            compare: None,
            seen: Seen::new(),
        })));
        let config = ServerDeclared {
            name: "fp8 tp=2".into(),
            argv: vec!["vllm".into()],
            ..ServerDeclared::default()
        };
        say(Event::GroupBegun(Box::new(GroupBegun {
            server: server.clone(),
            slot,
            config,
            seen: Seen::new(),
        })));
        say(Event::ServerStarting {
            server: server.clone(),
            slot,
            launch,
            gpus: Vec::new(),
        });
        say(Event::ServerReady {
            server: server.clone(),
            launch,
            seconds: 95.0,
            model: "m".into(),
            version: None,
            simulated: false,
            identity: None,
        });
        for (run, outcome, cause) in [(0, Outcome::Ok, None), (1, Outcome::Failed, Some(Cause::OomUnderLoad))] {
            let started = say(Event::RunStarted(Box::new(RunStarted {
                point: PointId("p".into()),
                server: server.clone(),
                slot,
                run,
                launch,
                name: "max_concurrency=8".into(),
                params: Params::new(),
                combo: None,
                search: None,
                anew: None,
            })));
            say(Event::RunFinished(Box::new(RunFinished {
                started,
                outcome,
                validity: Validity::Valid,
                doubts: Vec::new(),
                cause,
                detail: cause.map_or(String::new(), |_| "CUDA out of memory".into()),
                seconds: 12.5,
                file: None,
                learned: None,
            })));
        }
        let given_up = |blamed: Option<u64>| GroupGivenUp {
            server: server.clone(),
            slot,
            cause: Cause::OomUnderLoad,
            detail: "CUDA out of memory".into(),
            blamed,
            common: Params::new(),
            points: vec![Untried {
                point: PointId("p".into()),
                runs: vec![2, 3],
                name: "max_concurrency=8".into(),
                params: Params::new(),
                combo: None,
                search: None,
            }],
            searches: Vec::new(),
        };
        say(Event::GroupGivenUp(Box::new(given_up(Some(7)))));
        say(Event::GroupGivenUp(Box::new(given_up(None))));
        say(Event::ServerExited {
            server: server.clone(),
            launch,
            cause: Some(Cause::OomUnderLoad),
            detail: "exit status 1".into(),
        });
        say(Event::ResultsRetired {
            server: server.clone(),
            reason: "it serves another model now".into(),
        });
        say(Event::SessionEnded {
            reason: "interrupted".into(),
        });
        insta::assert_snapshot!(lines.join("\n"));
        assert_eq!(time_of_day("2026-11-20T10:15:30.123Z"), "10:15:30");
        assert_eq!(time_of_day("soon"), "soon");
    }
}
