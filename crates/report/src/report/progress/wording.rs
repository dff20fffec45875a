//! What each event is called in one line.

use super::Ahead;
use crate::report::words::show_number;
use std::time::Duration;
use vsweep_plan::cause::{NOT_TRIED, Outcome};
use vsweep_plan::ids::ServerId;
use vsweep_plan::units::{show_count, show_duration, show_many};
use vsweep_record::journal::{Event, RunFinished, SearchStarted, State};
use vsweep_strategy::search::{Answer, Basis, Found};

/// The line for an event; none for those that say nothing new.
pub fn describe(event: &Event, state: &State, ahead: &Ahead) -> Option<String> {
    let line = match event {
        Event::JournalCreated { .. }
        | Event::ServerDeclared { .. }
        | Event::RunStarted { .. }
        | Event::SearchesPlanned { .. } => return None,
        Event::SessionStarted { servers, searches, .. } if *searches > 0 => {
            let left = state.searches_left();
            let (servers, searches) = (show_many(*servers, "server"), show_count(*searches));
            format!("{servers}, {searches} to search for the load; {left} left")
        }
        Event::SessionStarted {
            servers, points, runs, ..
        } => {
            let left = show_count(ahead.total());
            let (servers, points, runs) = (
                show_many(*servers, "server"),
                show_many(*points, "point"),
                show_many(*runs, "run"),
            );
            format!("{servers}, {points}, {runs}; {left} to do now")
        }
        Event::PointsDropped { points } => {
            let points = show_many(points.len() as u64, "recorded point");
            format!("{points} no longer in the plan, and out of the tables")
        }
        Event::PointsRestored { points } => {
            format!("{} in the plan again", show_many(points.len() as u64, "recorded point"))
        }
        Event::ServerStarting { server, .. } if is_attached(server, state) => {
            format!("server {}: connecting", server_name(server, state))
        }
        Event::ServerStarting { server, start } => match start {
            1 => format!("server {}: starting", server_name(server, state)),
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
            server, cause, detail, ..
        } => {
            let name = server_name(server, state);
            match cause {
                None if is_attached(server, state) => format!("server {name}: left running"),
                None => format!("server {name}: stopped"),
                Some(cause) => format!("server {name}: {cause}: {detail}; {}", cause.advice()),
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
        } => {
            let record = state.search(search)?;
            let name = search_name(&record.started, state);
            match cause {
                Some(cause) => format!("{name}: search given up: {cause}: {detail}; {}", cause.advice()),
                None if answers.is_empty() => format!("{name}: explored"),
                None => format!(
                    "{name}: {}",
                    answers.iter().map(answer_text).collect::<Vec<_>>().join("; ")
                ),
            }
        }
        Event::RunFinished(run) if run.search.is_some() => {
            let left = time_left(ahead).map_or(String::new(), |left| format!(", {left}"));
            format!("probe{left}: {}", outcome(run, state))
        }
        Event::RunFinished(run) => {
            let (done, total) = (ahead.done(), ahead.total());
            let left = time_left(ahead).map_or(String::new(), |left| format!(", {left}"));
            format!("run {done} of {total}{left}: {}", outcome(run, state))
        }
        Event::SessionEnded { reason } => reason.clone(),
    };
    Some(line)
}

/// A run's outcome with its settings: `tp=2, max_concurrency=8 #1 ok in 12.5 s`.
pub fn outcome(run: &RunFinished, state: &State) -> String {
    let names = [server_name(&run.server, state), run.name.clone()];
    let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let what = format!("{} #{}", names.join(", "), run.run);
    let seconds = show_seconds(run.seconds);
    match (run.outcome, run.cause) {
        (Outcome::Ok, _) => format!("{what} ok in {seconds}"),
        (Outcome::Cut, _) => format!("{what} {} after {seconds}", run.detail),
        (outcome, None) => format!("{what} {outcome} after {seconds}"),
        // What was seen has been said of the run that was tried.
        (outcome, Some(cause)) if run.detail.starts_with(NOT_TRIED) => {
            format!("{what} {outcome}: {cause}: {}", NOT_TRIED.trim_end_matches(": "))
        }
        (outcome, Some(cause)) => format!("{what} {outcome}: {cause}: {}; {}", run.detail, cause.advice()),
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

/// An answer in a few words: `chat 42`, `batch none`.
fn answer_text(answer: &Answer) -> String {
    let found = match answer.found {
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
    use std::collections::BTreeMap;
    use vsweep_plan::cause::Cause;
    use vsweep_plan::ids::PointId;
    use vsweep_plan::plan::Params;
    use vsweep_record::journal::Entry;

    #[test]
    fn every_event_has_its_words() {
        let server = ServerId("s1".into());
        let run = |run, outcome, cause: Option<Cause>| {
            Event::RunFinished(Box::new(RunFinished {
                point: PointId("p".into()),
                server: ServerId("s1".into()),
                run,
                name: "max_concurrency=8".into(),
                params: Params::new(),
                combo: None,
                outcome,
                cause,
                detail: cause.map_or(String::new(), |_| "CUDA out of memory".into()),
                seconds: 12.5,
                file: None,
                search: None,
            }))
        };
        let events = [
            Event::SessionStarted {
                vsweep: "0.1.0".into(),
                pid: 1,
                plan_sha256: String::new(),
                servers: 1,
                points: 2,
                runs: 4,
                searches: 0,
            },
            Event::ServerDeclared {
                server: server.clone(),
                name: "fp8 tp=2".into(),
                argv: vec!["vllm".into()],
                env: BTreeMap::new(),
                params: Params::new(),
                combo: None,
            },
            Event::ServerStarting {
                server: server.clone(),
                start: 1,
            },
            Event::ServerReady {
                server: server.clone(),
                start: 1,
                seconds: 95.0,
                model: "m".into(),
                version: None,
                simulated: false,
            },
            run(0, Outcome::Ok, None),
            run(1, Outcome::Failed, Some(Cause::OomUnderLoad)),
            Event::ServerExited {
                server,
                start: 1,
                cause: Some(Cause::OomUnderLoad),
                detail: "exit status 1".into(),
            },
            Event::SessionEnded {
                reason: "interrupted".into(),
            },
        ];
        let mut state = State::default();
        let mut ahead = Ahead::default();
        ahead.add_runs(&ServerId("s1".into()), "max_concurrency=8", 4);
        let mut lines = Vec::new();
        for (seq, event) in events.into_iter().enumerate() {
            let entry = Entry {
                seq: seq as u64,
                at: "2026-11-20T10:15:30.123Z".into(),
                event,
            };
            state.apply(&entry);
            ahead.note(&entry);
            lines.extend(describe(&entry.event, &state, &ahead));
        }
        insta::assert_snapshot!(lines.join("\n"));
        assert_eq!(time_of_day("2026-11-20T10:15:30.123Z"), "10:15:30");
        assert_eq!(time_of_day("soon"), "soon");
    }
}
