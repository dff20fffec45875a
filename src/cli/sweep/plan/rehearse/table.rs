//! Formats a rehearsal for people: a summary, assumptions, and a table of servers.

use crate::cause::Failure;
use crate::journal::State;
use crate::plan::Plan;
use crate::rehearse::{Forecast, Loss, Rehearsal, TimeInterval};
use crate::report::texts::align::{align, fitting};
use crate::report::texts::words::{brief_labels, short_label, show_number};
use crate::selection::packed::Capacity;
use crate::units::{show_count, show_duration, show_many};
use itertools::Itertools;
use std::time::Duration;

/// Formats a rehearsal so that it fits the terminal, if possible, with `first` as its first line. Several workloads are named above the rows,
/// because every server runs them all.
pub fn table(rehearsal: &Rehearsal, first: String, recorded: usize, workloads: &[String]) -> String {
    if rehearsal.servers.is_empty() {
        let recorded = show_many(recorded as u64, "run");
        return format!("nothing left to do: {recorded} recorded; --fresh predicts the whole plan\n");
    }
    // Servers that will not be started are counted above the rows.
    let listed = rehearsal.servers.iter().enumerate();
    let is_ruled_out = |failure: &Failure| failure.ruled_out.is_some();
    let listed = listed.filter(|(_, server)| !server.failure.as_ref().is_some_and(is_ruled_out));
    let listed = listed.collect_vec();
    let forms = [(true, false), (true, true), (false, true)].into_iter();
    let forms = forms.map(|(has_interval, is_brief)| align(&rows(rehearsal, &listed, has_interval, is_brief)));
    let table = fitting(forms, |table| table.lines().collect()).unwrap_or_default();
    let mut lines = vec![first];
    lines.extend(failures_in_words(&failing(rehearsal)));
    if recorded > 0 {
        lines.push(format!(
            "already recorded: {}; this predicts the rest",
            show_many(recorded as u64, "run")
        ));
    }
    lines.push(format!("disk: about {:.0} MB", rehearsal.disk_bytes as f64 / 1e6));
    let assumptions = rehearsal.assumptions.iter();
    lines.extend(assumptions.map(|assumed| format!("assumed: {assumed}")));
    let twin = rehearsal.twin.as_ref();
    lines.extend(twin.map(|twin| format!("calibrated {}", twin.in_words())));
    if !rehearsal.learned_from.is_empty() {
        lines.push(format!("learned from {}", rehearsal.learned_from.join(" and ")));
    }
    lines.push("prediction only, with a simulated engine: nothing was measured".to_owned());
    if workloads.len() > 1 {
        let count = show_many(workloads.len() as u64, "workload");
        lines.push(format!("{count}: {}", workloads.join("; ")));
    }
    lines.push(String::new());
    for (line, row) in table.lines().enumerate() {
        lines.push(row.to_owned());
        // The first row has the headings.
        if let Some(index) = line.checked_sub(1) {
            lines.extend(remarks(listed[index].1));
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the heading, and a row for each server with its name at the end. In a brief form, the heading has the names of the settings.
fn rows(rehearsal: &Rehearsal, listed: &[(usize, &Forecast)], has_interval: bool, is_brief: bool) -> Vec<Vec<String>> {
    let packed = rehearsal.packed.as_ref();
    let labels = listed.iter().map(|(_, server)| server.name.as_str()).collect_vec();
    let (heading, names) = brief_labels(&labels).filter(|_| is_brief).unwrap_or_else(|| {
        let name = |(_, server): &(usize, &Forecast)| match server.name.is_empty() {
            true => server.server.to_string(),
            false => short_label(&server.name),
        };
        ("server".to_owned(), listed.iter().map(name).collect())
    });
    let row = |((index, server), name): (&(usize, &Forecast), String)| {
        let TimeInterval { low, likely, high } = server.total.interval();
        let mut row = vec![server.starts.to_string(), show_count(server.runs)];
        row.extend(match has_interval {
            true => vec![show(low), show(likely), show(high)],
            false => vec![show(likely)],
        });
        row.extend(packed.map(|packed| match packed.begins[*index] {
            0.0 => "at once".to_owned(),
            seconds => format!("+{}", show(seconds)),
        }));
        row.push(name);
        row
    };
    let times: &[&str] = match has_interval {
        true => &["low", "likely", "high"],
        false => &["likely"],
    };
    let heading_row = ["starts", "runs"].iter().chain(times).copied();
    let heading_row = heading_row.chain(packed.map(|_| "begins")).chain([heading.as_str()]);
    let mut rows = vec![heading_row.map(str::to_owned).collect()];
    rows.extend(listed.iter().zip(names).map(row));
    rows
}

/// Returns the lines below the row of a server: its failures, answers and unknown runs.
fn remarks(server: &Forecast) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(failure) = &server.failure {
        remarks.push(format!("  will likely fail: {}", failure.cause.in_words()));
    }
    for Loss { point, failure } in server.losses.iter().unique_by(|loss| loss.failure.to_string()) {
        let alike = server.losses.iter().filter(|other| other.failure == *failure).count();
        let (point, more) = (short_label(point), and_more(alike - 1));
        let (cause, detail) = (failure.cause.in_words(), &failure.detail);
        remarks.push(format!("  {point}{more}: will likely fail: {cause}: {detail}"));
    }
    for answer in &server.answers {
        let load = answer.found.value();
        let load = load.map_or_else(|| answer.found.word().to_owned(), |load| load.to_string());
        remarks.push(format!("  predicted answer for {}: {load}", answer.name()));
    }
    if server.unknown_runs > 0 {
        remarks.push(format!(
            "  {} that cannot be predicted",
            show_many(server.unknown_runs, "run")
        ));
    }
    remarks
}

/// Returns the servers that will likely fail, with the failures.
pub fn failing(rehearsal: &Rehearsal) -> Vec<(String, Failure)> {
    let servers = rehearsal.servers.iter();
    let failing = servers.filter_map(|server| Some((server.name.clone(), server.failure.clone()?)));
    failing.collect()
}

/// Describes servers that will likely fail, in a sentence for each failure.
pub fn failures_in_words(failing: &[(String, Failure)]) -> Vec<String> {
    let (ruled_out, others): (Vec<_>, Vec<_>) = failing.iter().partition(|(_, failure)| failure.ruled_out.is_some());
    let describe = |(name, failure): &(String, Failure)| {
        let alike = others.iter().filter(|(_, other)| other == failure).count();
        let (name, more) = (short_label(name), and_more(alike - 1));
        format!("server {name}{more}: will likely fail: {failure}")
    };
    let kinds = others.iter().unique_by(|(_, failure)| failure.to_string());
    let mut lines: Vec<String> = kinds.map(|one| describe(one)).collect();
    if let count @ 1.. = ruled_out.len() as u64 {
        let servers = show_many(count, "server");
        let need = if count == 1 { "needs" } else { "need" };
        lines.push(format!(
            "{servers} that {need} at least as much memory will not be started"
        ));
    }
    lines
}

/// Returns the suffix of the first of several: ` and 2 more`.
fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// Describes a forecast in a sentence. For an optimisation, which does not start every server, the sentence has this condition.
pub fn sentence(plan: &Plan, state: &State, rehearsal: &Rehearsal) -> String {
    let of_grid = match state.optimization() {
        _ if plan.optimize.is_none() || rehearsal.binding_limit().is_some() => "",
        None => "if every server were started, ",
        Some(_) => "if every server left were started once, ",
    };
    format!("{of_grid}{}", summary(rehearsal))
}

/// Returns one line with the likely duration and cost.
fn summary(rehearsal: &Rehearsal) -> String {
    let TimeInterval { low, likely, high } = rehearsal.total.interval();
    let (failing, sound): (Vec<&Forecast>, Vec<&Forecast>) =
        rehearsal.servers.iter().partition(|server| server.failure.is_some());
    let lost: u64 = failing.iter().map(|server| server.runs).sum();
    let unknown: u64 = sound.iter().map(|server| server.unknown_runs).sum();
    let runs: u64 = sound.iter().map(|server| server.runs).sum();
    let known = runs.saturating_sub(unknown);
    let starts = show_many(rehearsal.starts(), "server start");
    let what = match known {
        0 if unknown + lost > 0 => starts,
        _ => format!("{starts} and {}", show_many(known, "run")),
    };
    let mut more = match unknown {
        0 => String::new(),
        unknown => format!(
            ", and the time of {} that cannot be predicted",
            show_many(unknown, "run")
        ),
    };
    if lost > 0 {
        more += &format!(", without {} of servers that will likely fail", show_many(lost, "run"));
    }
    let concurrency = match rehearsal.packed.as_ref().map(|packed| packed.capacity) {
        None => String::new(),
        Some(Capacity { gpus: 0, groups }) => format!(", {groups} servers at once"),
        Some(Capacity { gpus, .. }) => format!(", side by side on {}", show_many(u64::from(gpus), "GPU")),
    };
    let cost = rehearsal
        .cost
        .map_or(String::new(), |cost| format!(" (${})", show_number(cost)));
    let hours = rehearsal.gpu_hours.map_or(String::new(), |hours| {
        format!(", {} GPU-hours{cost}", show_number(hours))
    });
    let most = match rehearsal.binding_limit() {
        None => String::new(),
        Some(Duration::ZERO) => {
            "nothing, because the time limit is spent (raise --budget, or max_time or optimize.budget in the plan); everything that is \
             left: "
                .to_owned()
        }
        Some(left) => format!("{}, until the time limit; everything that is left: ", show_duration(left)),
    };
    format!(
        "predicted: {most}about {}{hours} (80 % interval: {} to {}) for {what}{concurrency}{more}",
        show(likely),
        show(low),
        show(high)
    )
}

fn show(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "unknown".to_owned(), show_duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{Cause, RuledOut};
    use crate::ids::{SearchId, ServerId};
    use crate::rehearse::{PredictedAnswer, Total};
    use crate::search::Found;

    fn server(name: &str, starts: u32, failure: Option<Failure>) -> Forecast {
        Forecast {
            server: ServerId(name.into()),
            name: name.to_owned(),
            starts,
            runs: 12,
            unknown_runs: 0,
            answers: Vec::new(),
            results: None,
            shared: None,
            failure,
            losses: Vec::new(),
            disk_bytes: 0,
            total: Total::default(),
        }
    }

    fn rehearsal(servers: Vec<Forecast>) -> Rehearsal {
        Rehearsal {
            servers,
            total: Total::default(),
            packed: None,
            disk_bytes: 0,
            assumptions: Vec::new(),
            learned_from: Vec::new(),
            twin: None,
            gpu_hours: None,
            cost: None,
            time_left: None,
        }
    }

    #[test]
    fn servers_that_will_not_start_are_counted_and_have_no_row() {
        let name = |seqs: u32, cache: &str| {
            format!("tensor_parallel_size=1, max_num_seqs={seqs}, max_num_batched_tokens=2048, kv_cache_dtype={cache}")
        };
        let why = "the weights need 132 GiB";
        let large = || Some(Failure::new(Cause::OomAtLoad, why));
        let hungry = RuledOut {
            settings: vec![("max_num_seqs".to_owned(), "256 > 32".to_owned())],
            by: name(32, "auto"),
            why: why.to_owned(),
        };
        let servers = vec![
            server(&name(32, "auto"), 1, large()),
            server(&name(32, "fp8"), 1, large()),
            server(
                &name(256, "auto"),
                0,
                Some(Failure::of_ruled_out(Cause::OomAtLoad, hungry)),
            ),
        ];
        let text = table(&rehearsal(servers), String::new(), 0, &[]);
        let (above, rows) = text.split_once("\n\n").expect("a beginning");
        assert!(
            rows.contains("TP 1, seqs 32, batched tokens 2048, KV cache fp8\n  will likely fail"),
            "{rows}"
        );
        assert_eq!(
            rows.matches("\n  will likely fail: out of memory while loading")
                .count(),
            2,
            "{rows}"
        );
        assert_eq!(text.matches(why).count(), 1, "{text}");
        let first = "server TP 1, seqs 32, batched tokens 2048, KV cache auto and 1 more: will likely fail: out of memory while loading: the weights";
        assert!(above.contains(&format!("\n{first}")), "{above}");
        assert!(
            above.contains("\n1 server that needs at least as much memory will not"),
            "{above}"
        );
        assert!(!rows.contains("seqs 256"), "{rows}");
    }

    #[test]
    fn one_recorded_run_is_counted_as_one() {
        let rehearsal = rehearsal(vec![server("max_num_seqs=4", 1, None)]);
        let text = table(&rehearsal, summary(&rehearsal), 1, &[]);
        assert!(
            text.contains("\nalready recorded: 1 run; this predicts the rest\n"),
            "{text}"
        );
    }

    #[test]
    fn narrow_rows_say_the_settings_once_and_leave_out_the_interval() {
        let rehearsal = rehearsal(vec![
            server("tensor_parallel_size=1, max_num_seqs=32", 1, None),
            server("tensor_parallel_size=2, max_num_seqs=32", 1, None),
        ]);
        let listed = rehearsal.servers.iter().enumerate().collect_vec();
        let narrow = rows(&rehearsal, &listed, false, true);
        assert_eq!(narrow[0], ["starts", "runs", "likely", "TP/seqs"]);
        assert_eq!(narrow[2], ["1", "12", "0 ms", "2/32"]);
    }

    #[test]
    fn servers_that_fail_alike_are_told_of_once() {
        let failure = |detail: &str| Failure::new(Cause::OomAtLoad, detail);
        let ruled_out = RuledOut {
            settings: vec![("max_num_seqs".to_owned(), "8 > 4".to_owned())],
            by: "max_num_seqs=4".to_owned(),
            why: "too large".to_owned(),
        };
        let ruled_out = Failure::of_ruled_out(Cause::OomAtLoad, ruled_out);
        let failing = [
            ("max_num_seqs=4".to_owned(), failure("too large")),
            ("max_num_seqs=8".to_owned(), ruled_out),
            ("max_num_seqs=4, dtype=half".to_owned(), failure("too large")),
        ];
        let lines = failures_in_words(&failing);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0]
                .starts_with("server seqs 4 and 1 more: will likely fail: out of memory while loading: too large; ")
        );
        assert!(lines[1].starts_with("1 server that needs at least as much memory will not"));
    }

    #[test]
    fn a_search_that_is_skipped_is_not_said_to_find_none() {
        let found = [Found::Met(40.0), Found::Skipped, Found::Undecided, Found::None];
        let mut searched = server("max_num_seqs=4", 1, None);
        searched.answers = found
            .map(|found| PredictedAnswer {
                search: SearchId("s".into()),
                target: "chat".to_owned(),
                workload: String::new(),
                found,
                limit: None,
            })
            .into();
        let words = ["40", "skipped", "undecided", "none"].map(|word| format!("  predicted answer for chat: {word}"));
        assert_eq!(remarks(&searched), words);
    }

    #[test]
    fn the_cost_stands_beside_the_duration() {
        let priced = Rehearsal {
            gpu_hours: Some(6.3),
            cost: Some(15.6),
            ..rehearsal(vec![server("max_num_seqs=4", 1, None)])
        };
        let text = summary(&priced);
        assert!(text.contains(", 6.3 GPU-hours ($15.6) (80 % interval: "), "{text}");
    }

    #[test]
    fn what_a_budget_does_not_allow_is_not_predicted() {
        let said = |left| {
            let mut own = rehearsal(vec![server("max_num_seqs=4", 1, None)]);
            own.total.runs.likely = 3600.0;
            own.time_left = Some(Duration::from_secs(left));
            summary(&own)
        };
        let text = said(60);
        assert!(
            text.starts_with("predicted: 1m 00s, until the time limit; everything that is left: about 1h 00m"),
            "{text}"
        );
        let text = said(0);
        assert!(
            text.starts_with("predicted: nothing, because the time limit is spent (raise --budget, or max_time"),
            "{text}"
        );
        assert!(said(7200).starts_with("predicted: about 1h 00m"));
    }

    #[test]
    fn runs_of_servers_that_will_fail_are_not_counted_as_predicted() {
        let failure = Failure::new(Cause::OomAtLoad, "too large");
        let failing = server("max_num_seqs=8", 1, Some(failure));
        let text = summary(&rehearsal(vec![server("max_num_seqs=4", 1, None), failing]));
        let end = "for 2 server starts and 12 runs, without 12 runs of servers that will likely fail";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn what_cannot_be_predicted_is_not_counted_as_predicted() {
        let mut unknown = server("max_num_seqs=4", 2, None);
        unknown.unknown_runs = 12;
        let text = summary(&rehearsal(vec![unknown.clone()]));
        assert!(
            text.ends_with("for 2 server starts, and the time of 12 runs that cannot be predicted"),
            "{text}"
        );
        let text = summary(&rehearsal(vec![unknown, server("max_num_seqs=8", 1, None)]));
        assert!(
            text.contains("for 3 server starts and 12 runs, and the time of 12 runs that"),
            "{text}"
        );
    }
}
