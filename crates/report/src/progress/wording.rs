//! Describes each event in one line.

use super::Eta;
use super::line::{Headword, Line};
use crate::findings::failures::log_of;
use crate::output::sla::name_on_any_start;
use crate::texts::words::{server_name, short_label, short_name, show_number, with_short_names};
use itertools::Itertools;
use std::time::Duration;
use vsweep_base::cause::{Cause, Failure, Outcome};
use vsweep_base::ids::{SearchId, ServerId};
use vsweep_base::units::{show_count, show_duration, show_many};
use vsweep_base::validity::Validity;
use vsweep_record::journal::{
    Directory, Entry, Event, GroupGivenUp, Launch, RunRecord, SearchStarted, SessionStarted, State, number,
};
use vsweep_strategy::search::{Answer, Found, SeedBasis};

/// The line for an event; `None` for an event that says nothing new.
pub fn describe(entry: &Entry, state: &State, eta: &Eta) -> Option<Line> {
    Some(match &entry.event {
        Event::RunStarted(run) if eta.without_server => {
            let name = run_name(&run.server, &run.name, &number(run.slot, run.run), state);
            Line::new(Headword::RUN, name)
        }
        Event::ServerStarting { .. } | Event::ServerReady(_) if eta.without_server => return None,
        Event::ServerExited(exited) if eta.without_server && exited.cause.is_none() => return None,
        Event::JournalCreated { .. } | Event::GroupBegun(_) | Event::RunStarted(_) => return None,
        Event::SessionStarted(session) => Line::new(Headword::SWEEP, begin(session, state, eta)),
        Event::ResultsRetired { server, reason } => {
            let name = server_name(server, state);
            Line::new(
                Headword::RETIRED,
                format!("{name}: earlier results leave the tables: {reason}"),
            )
        }
        Event::GroupGivenUp(given_up) => Line::new(Headword::FAILED, lost(given_up, state)),
        Event::ServerStarting { server, .. } => Line::new(Headword::START, starting(server, state)),
        Event::ServerReady(ready) => {
            let name = server_name(&ready.server, state);
            Line::new(Headword::READY, format!("{name} after {}", show_seconds(ready.seconds)))
        }
        Event::ServerExited(exited) => {
            let server = &exited.server;
            let name = server_name(server, state);
            let session = entry.rank.line.journal;
            let n = exited.launch;
            let launch = Launch { session, n };
            let mut launches = state.launches_of(server).iter();
            let launched = launches.find(|own| own.launch == launch)?;
            match exited.cause {
                None if is_attached(server, state) => Line::new(Headword::STOP, format!("{name}, left running")),
                None => Line::new(Headword::STOP, name),
                // The next event, about lost work or another try, states the reason.
                Some(_) if eta.is_running(server, launched.slot) || launched.ready.is_none() => return None,
                Some(cause) => {
                    let log = Directory::server_log_file(server, launch);
                    let log = (!is_attached(server, state)).then_some(log.as_str());
                    failed(&name, cause, &exited.detail, &cause.advice_with(log))
                }
            }
        }
        Event::SearchStarted(started) => Line::new(Headword::SEARCH, search_for(started, state)),
        Event::SearchFinished {
            search,
            answers,
            cause,
            detail,
            ..
        } => {
            let record = state.latest_search(search)?;
            let name = name_on_any_start(&record.started, state);
            match cause {
                Some(cause) => {
                    let log = log_of(&record.started.server, state);
                    let advice = cause.advice_with(log.as_deref());
                    failed(&format!("{name}: search given up"), *cause, detail, &advice)
                }
                None if answers.is_empty() => Line::new(Headword::FOUND, format!("{name}: explored")),
                None => {
                    let answers: Vec<String> = answers.iter().map(answer_text).collect();
                    Line::new(Headword::FOUND, format!("{name}: {}", answers.join("; ")))
                }
            }
        }
        Event::RunFinished(_) => {
            let run = state.run_of(entry)?;
            let mut line = outcome(run, state);
            let place = match &run.search {
                Some(search) => bracket(search, state).unwrap_or_else(|| "probe".into()),
                None => place(state, eta, 0),
            };
            let place: Vec<String> = [place].into_iter().chain(time_left(eta)).collect();
            line.text += &format!(" ({})", place.join(", "));
            line
        }
        Event::SessionEnded { reason } => {
            let words = match reason.as_str() {
                "out_of_time" => "stopped at its time limit",
                reason => reason,
            };
            Line::new(Headword::SWEEP, words)
        }
    })
}

/// The number of a run among all, if `under_way` runs have begun and not ended: `run 5 of 24`.
pub fn place(state: &State, eta: &Eta, under_way: u64) -> String {
    let number = eta.done + under_way;
    match state.compared() {
        _ if eta.is_open_ended => format!("run {number}"),
        Some(compared) => {
            let number = state.runs().count() as u64 + under_way;
            format!("run {number} of at most {}", compared.most_runs())
        }
        None => format!("run {number} of {}", eta.to_measure().max(number)),
    }
}

/// Describes the work of a session.
fn begin(session: &SessionStarted, state: &State, eta: &Eta) -> String {
    let servers = show_many(session.servers, eta.noun());
    if session.optimize.is_some() {
        let begun = show_many(state.proposals().len() as u64, "start");
        return format!("{servers} to choose from; {begun} so far");
    }
    if session.searches > 0 {
        let (searches, left) = (show_count(session.searches), state.searches_left());
        return format!("{servers}, {searches} to search for the load; {left} left");
    }
    let (points, runs) = (show_many(session.points, "point"), show_many(session.runs, "run"));
    format!("{servers}, {points}, {runs}; {} to do now", show_count(eta.total))
}

fn starting(server: &ServerId, state: &State) -> String {
    let name = server_name(server, state);
    match state.launches_of(server).len() {
        _ if is_attached(server, state) => format!("{name}, connecting"),
        0 | 1 => name,
        again => format!("{name} (start {again})"),
    }
}

/// Describes the work that is lost with a server, and the cause. The detail and the advice follow, unless they were just shown.
fn lost(given_up: &GroupGivenUp, state: &State) -> String {
    let (name, cause) = (server_name(&given_up.server, state), given_up.cause);
    // The run under which the server died was reported before, so the runs counted here are "more".
    let more = if given_up.blamed.is_some() { "more " } else { "" };
    let lost = [(given_up.runs(), "run"), (given_up.searches.len() as u64, "search")];
    let lost = lost.iter().filter(|(count, _)| *count > 0);
    let lost = lost.map(|(count, noun)| show_many(*count, &format!("{more}{noun}")));
    let lost = format!(
        "{name}: {} lost: {}",
        lost.collect::<Vec<_>>().join(" and "),
        cause.in_words()
    );
    match given_up.blamed {
        None => {
            let advice = cause.advice_with(log_of(&given_up.server, state).as_deref());
            let Failure { detail, ruled_out, .. } = given_up.failure();
            let detail = ruled_out.map_or(detail, |ruled_out| with_short_names(&ruled_out).to_string());
            format!("{lost}: {}; {advice}", detail.trim_end_matches('.'))
        }
        Some(_) => lost,
    }
}

fn search_for(started: &SearchStarted, state: &State) -> String {
    let names: Vec<&str> = started.targets.iter().map(|target| target.name.as_str()).collect();
    let name = name_on_any_start(started, state);
    if names.is_empty() {
        return format!("{name}: exploring, from one request at a time to saturation");
    }
    let (vary, seed) = (short_name(started.vary.name()), started.seed);
    let near = show_number(seed.value);
    let from = match seed.basis {
        SeedBasis::Neighbour => format!(", first guess {near} (another server's answer)"),
        SeedBasis::Forecast => format!(", first guess {near} (predicted)"),
        SeedBasis::KvCapacity => format!(", first guess {near} (its KV cache holds as many)"),
        SeedBasis::Nothing => String::new(),
    };
    format!("{name}: searching the highest {vary} for {}{from}", names.join(", "))
}

/// The highest load that met the target of a search, and the lowest that failed it: `chat passed at 41, failed at 48`.
pub fn bracket(search: &SearchId, state: &State) -> Option<String> {
    let record = state.latest_search(search)?;
    let slot = record.started.slot;
    let asked = &state.probes(search, slot).last()?.question.target;
    let target = record.started.targets.iter().find(|target| target.name == *asked)?;
    let (mut met, mut missed) = (f64::NEG_INFINITY, f64::INFINITY);
    for probe in state.probes(search, slot) {
        let value = probe.question.value;
        match target.is_met_by(&[probe]) {
            Some(true) => met = met.max(value),
            Some(false) => missed = missed.min(value),
            None => {}
        }
    }
    let seen = [("passed", met), ("failed", missed)].into_iter();
    let seen = seen.filter(|(_, load)| load.is_finite());
    let seen = seen
        .map(|(word, load)| format!("{word} at {}", show_number(load)))
        .join(", ");
    (!seen.is_empty()).then(|| format!("{asked} {seen}"))
}

/// Name of a run: `TP 2, concurrency 8 #1`.
pub fn run_name(server: &ServerId, load: &str, number: &str, state: &State) -> String {
    let names = [server_name(server, state), short_label(load)];
    let says = |name: &String| !matches!(name.as_str(), "" | "default");
    let names: Vec<String> = names.into_iter().filter(says).collect();
    match names.is_empty() {
        true => format!("default #{number}"),
        false => format!("{} #{number}", names.join(", ")),
    }
}

/// A run's outcome with its settings: `TP 2, concurrency 8 #1 in 12.5 s`.
pub fn outcome(run: &RunRecord, state: &State) -> Line {
    let what = run_name(&run.server, &run.name, &run.number(), state);
    let seconds = show_seconds(run.seconds);
    match (run.outcome, run.failure()) {
        (Outcome::Ok, _) => Line::new(Headword::OK, format!("{what} in {seconds}")),
        (Outcome::Cut, _) => Line::new(Headword::CUT, format!("{what}: {} after {seconds}", run.detail)),
        (Outcome::Suspect, _) => {
            let doubts = run.doubts.iter();
            let doubts = doubts
                .map(|doubt| format!("{}: {}", doubt.code.in_words(), doubt.detail))
                .join("; ");
            let status = match run.validity {
                Validity::Invalid => Headword::INVALID,
                _ => Headword::SUSPECT,
            };
            Line::new(status, format!("{what} in {seconds}: {doubts}"))
        }
        (Outcome::Failed, None) => Line::new(Headword::FAILED, format!("{what} after {seconds}")),
        (Outcome::Failed, Some(failure)) => {
            let advice = failure.advice_with(log_of(&run.server, state).as_deref());
            failed(&what, failure.cause, &failure.detail, &advice)
        }
    }
}

fn failed(what: &str, cause: Cause, detail: &str, advice: &str) -> Line {
    Line::new(
        Headword::FAILED,
        format!("{what}: {}: {detail}; {advice}", cause.in_words()),
    )
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

/// The remaining time in words: `about 5m 20s left`; `None` while it is unknown.
pub fn time_left(eta: &Eta) -> Option<String> {
    let seconds = eta.seconds_left.filter(|seconds| *seconds > 0.0)?;
    Some(format!("about {} left", show_seconds(seconds)))
}

/// Returns true if vsweep only measures the server and neither starts nor stops it.
fn is_attached(server: &ServerId, state: &State) -> bool {
    state.servers.get(server).is_some_and(|record| record.argv.is_empty())
}

/// `10:15:30` of an RFC 3339 time.
pub fn time_of_day(at: &str) -> &str {
    at.get(11..19).unwrap_or(at)
}

/// Formats a duration that is given in seconds.
pub fn show_seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "an unknown time".into(), show_duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_base::ids::PointId;
    use vsweep_plan::Params;
    use vsweep_record::journal::{
        FIRST_SLOT, GroupBegun, LoadNames, ReadPositions, RecordedPlan, RunFinished, RunStarted, ServerDescription,
        ServerExited, ServerReady, Untried,
    };

    #[test]
    fn every_event_has_its_words() {
        let server = ServerId("s1".into());
        let (slot, launch) = (FIRST_SLOT, 1);
        let mut state = State::default();
        let mut eta = Eta::default();
        eta.add_runs(&server, slot, 4);
        let mut lines = Vec::new();
        let mut say = |event: Event| {
            let mut entry = state.apply_hypothetical(event);
            entry.at = "2026-11-20T10:15:30.123Z".into();
            eta.note(&entry, &state);
            eta.seconds_left = Some(12.5 * (eta.total - eta.done) as f64);
            lines.extend(describe(&entry, &state, &eta).map(|line| line.paint(None)));
            entry.rank.line.seq
        };
        let plan = RecordedPlan::new("p", String::new(), &[], &[]);
        say(Event::SessionStarted(Box::new(SessionStarted {
            optimize: None,
            renamed: LoadNames::default(),
            host: "h".into(),
            boot: String::new(),
            pid: 1,
            started: 1,
            machine: None,
            joined: false,
            plan,
            servers: 1,
            points: 2,
            starts: 1,
            runs: 4,
            searches: 0,
            compare: None,
            noise: Vec::new(),
            seen: ReadPositions::new(),
        })));
        let config = ServerDescription {
            name: "fp8 tp=2".into(),
            argv: vec!["vllm".into()],
            ..ServerDescription::default()
        };
        say(Event::GroupBegun(Box::new(GroupBegun {
            proposed: None,
            server: server.clone(),
            slot,
            config,
            seen: ReadPositions::new(),
        })));
        say(Event::ServerStarting {
            server: server.clone(),
            slot,
            launch,
            gpus: Vec::new(),
        });
        say(Event::ServerReady(Box::new(ServerReady {
            server: server.clone(),
            launch,
            seconds: 95.0,
            ..ServerReady::default()
        })));
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
                ..RunFinished::default()
            })));
        }
        let given_up = |blamed: Option<u64>| GroupGivenUp {
            server: server.clone(),
            slot,
            cause: Cause::OomUnderLoad,
            detail: "CUDA out of memory".into(),
            ruled_out: None,
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
            unlisted: Vec::new(),
            searches: Vec::new(),
        };
        say(Event::GroupGivenUp(Box::new(given_up(Some(7)))));
        say(Event::GroupGivenUp(Box::new(given_up(None))));
        say(Event::ServerExited(Box::new(ServerExited {
            server: server.clone(),
            launch,
            cause: Some(Cause::OomUnderLoad),
            detail: "exit status 1".into(),
            ..ServerExited::default()
        })));
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
