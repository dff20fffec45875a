//! Real logs and their diagnoses.

use super::*;
use proptest::prelude::*;
use serde_json::Value;
use std::io::Write;

/// A log of tests/data/logs with its known cause and its family.
struct SampleLog {
    name: String,
    /// Logs of one family show one failure of one program. A pattern that only they match would not exist without them.
    family: String,
    phase: Phase,
    exit: Option<Exit>,
    cause: Cause,
    text: String,
}

fn recorded() -> Vec<SampleLog> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/logs");
    let index = std::fs::read_to_string(folder.join("index.json")).expect("the index of the logs");
    let index: Vec<Value> = serde_json::from_str(&index).expect("a list");
    let read = |entry: &Value| {
        let text = |key: &str| {
            entry[key]
                .as_str()
                .unwrap_or_else(|| panic!("{key} of {entry}"))
                .to_owned()
        };
        assert!(!text("source").is_empty());
        let exit = match &entry["exit"] {
            Value::Null => None,
            Value::Number(code) => Some(Exit::Code(code.as_i64().expect("a code") as i32)),
            signal => Some(Exit::Signal(
                signal
                    .as_str()
                    .and_then(|text| text.strip_prefix("signal ")?.parse().ok())
                    .expect("a signal"),
            )),
        };
        SampleLog {
            phase: match &*text("phase") {
                "starting" => Phase::Starting,
                _ => Phase::Serving,
            },
            exit,
            cause: serde_json::from_value(entry["cause"].clone()).expect("a cause"),
            text: read_log(&folder.join(format!("{}.log", text("log"))), 0),
            family: text("family"),
            name: text("log"),
        }
    };
    index.iter().map(read).collect()
}

fn log(name: &str) -> String {
    recorded()
        .into_iter()
        .find(|log| log.name == name)
        .expect("in the index")
        .text
}

/// Diagnoses a log with these patterns only.
fn judged<'a>(patterns: impl IntoIterator<Item = &'a Pattern>, log: &SampleLog) -> Option<Cause> {
    let usage = diagnose(log.phase, log.exit, &log.text);
    match (usage.cause, recognise(patterns, log.phase, &log.text)) {
        // A bad flag is recognised by the exit code, not by words.
        (Cause::BadFlag, _) => Some(Cause::BadFlag),
        (_, known) => known.map(|failure| failure.cause),
    }
}

#[test]
fn every_log_has_its_cause() {
    for log in recorded() {
        let found = diagnose(log.phase, log.exit, &log.text);
        assert_eq!(found.cause, log.cause, "{}: {found}", log.name);
        assert!(!found.detail.is_empty());
    }
}

#[test]
fn a_family_that_was_never_seen_is_not_taken_for_another() {
    let logs = recorded();
    let is_unknown = |cause: Cause| matches!(cause, Cause::CrashedStarting | Cause::CrashedUnderLoad);
    // For a lack of memory of an unknown kind, another kind of it is the best guess.
    let lacks_memory = |cause: Cause| matches!(cause, Cause::OomAtLoad | Cause::GpuMemoryHeld);
    let (mut judged_in_all, mut unknown, mut listing) = (0, 0, String::new());
    for log in logs.iter().filter(|log| !is_unknown(log.cause)) {
        // Without this family, its own patterns would not exist.
        let others = || logs.iter().filter(|other| other.family != log.family);
        let is_known =
            |pattern: &&Pattern| others().any(|other| recognise([*pattern], other.phase, &other.text).is_some());
        let found = judged(PATTERNS.iter().filter(is_known), log);
        let shown = found.map_or_else(
            || format!("unknown ({})", clean(&last_lines(&log.text))),
            |cause| cause.name().to_owned(),
        );
        listing += &format!("{:<24} {:<22} {shown}\n", log.family, log.name);
        assert!(
            found.is_none_or(|cause| cause == log.cause || lacks_memory(cause) && lacks_memory(log.cause)),
            "{} is taken for {shown}",
            log.name
        );
        judged_in_all += 1;
        unknown += usize::from(found.is_none());
    }
    listing += &format!("{unknown} of {judged_in_all} unknown\n");
    std::io::stdout()
        .write_all(listing.as_bytes())
        .expect("somebody listens");
    assert!(unknown * 5 <= judged_in_all, "{unknown} of {judged_in_all} are unknown");
}

#[test]
fn every_pattern_is_of_a_real_log() {
    let logs = recorded();
    for pattern in PATTERNS
        .iter()
        .filter(|pattern| pattern.words != ["vsweep: cannot execute"])
    {
        let is_seen =
            |log: &SampleLog| recognise([pattern], log.phase, &log.text).is_some_and(|found| found.cause == log.cause);
        assert!(
            logs.iter().any(is_seen),
            "no log shows {:?}: add one to tests/data/logs with its line in index.json",
            pattern.words
        );
    }
}

#[test]
fn the_line_that_tells_is_shown() {
    for (name, detail) in [
        ("bad_flag", "vllm: error: unrecognized arguments: --no-such-flag 3"),
        (
            "model_not_found",
            "huggingface_hub.errors.HFValidationError: Repo id must",
        ),
        (
            "gated_model",
            "huggingface_hub.errors.GatedRepoError: 401 Client Error.",
        ),
        ("port_taken", "OSError: [Errno 98] Address already in use"),
        (
            "context_too_long",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig; Value error, User-specified max_model_len (999999) is",
        ),
        (
            "pydantic_field",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig; max_num_seqs; Input should be greater",
        ),
        ("oom_at_load", "torch.OutOfMemoryError: CUDA out of memory. Tried"),
        ("kv_cache_small", "ValueError: To serve at least one request"),
    ] {
        let entry = recorded()
            .into_iter()
            .find(|log| log.name == name)
            .expect("in the index");
        let found = diagnose(entry.phase, entry.exit, &entry.text);
        assert!(found.detail.starts_with(detail), "{name}: {}", found.detail);
    }
}

#[test]
fn what_nobody_knows_is_shown_as_it_ended() {
    let at_start = |code: i32, log: &str| diagnose(Phase::Starting, Some(Exit::Code(code)), log);
    let named = at_start(1, "NameError: name 'x' is not defined\nbye");
    assert_eq!(
        (named.cause, &*named.detail),
        (
            Cause::CrashedStarting,
            "exit code 1; NameError: name 'x' is not defined"
        )
    );
    assert_eq!(at_start(3, "").detail, "exit code 3; it wrote nothing");
    assert_eq!(at_start(3, "a\nb\n\nc\nd\n").detail, "exit code 3; b | c | d");
    assert_eq!(
        at_start(127, "vsweep: cannot execute ./x: No such file").cause,
        Cause::CommandNotFound
    );
    let killed = diagnose(
        Phase::Serving,
        Some(Exit::Signal(9)),
        "INFO:     127.0.0.1:1 - \"GET /health HTTP/1.1\" 200 OK\n",
    );
    assert_eq!(killed.cause, Cause::CrashedUnderLoad);
    assert!(killed.detail.starts_with("killed by SIGKILL, perhaps"), "{killed}");
    assert!(
        killed.detail.ends_with("; it wrote of nothing but requests"),
        "a request that was answered explains no end: {killed}"
    );
}

#[test]
fn a_line_that_only_tells_or_warns_accuses_nobody() {
    for line in [
        "(APIServer pid=1) WARNING 11-22 21:44:17 [system_utils.py:255] This can cause `OSError: [Errno 24] Too many open files`.",
        "INFO:     CUDA out of memory",
        "W1122 21:49:45.013000 15322 torch/x.py:29] out of memory",
        "[rank0]:[W106 12:41:43.884747188 ProcessGroupNCCL.cpp:1553] Warning: NCCL error",
        "[TensorRT-LLM][WARNING] out of memory",
    ] {
        assert!(is_informative(line), "{line}");
        assert_eq!(diagnose(Phase::Starting, None, line).cause, Cause::CrashedStarting);
    }
    let healthy = diagnose(Phase::Serving, Some(Exit::Code(0)), &log("stopping_with_a_stream"));
    assert_eq!(healthy.cause, Cause::CrashedUnderLoad);
}

#[test]
fn prefixes_and_colours_are_cut() {
    let plain = without_colours("\u{1b}[0;36m(Bench pid=1)\u{1b}[0m \u{1b}[32mINFO\u{1b}[0m x");
    assert_eq!(plain, "(Bench pid=1) INFO x");
    assert_eq!(
        without_prefix("(APIServer pid=1) ERROR 11-20 10:09:11 [a.py:9] boom"),
        "boom"
    );
    assert_eq!(without_prefix("ERROR 11-20 10:09:11 [a.py:9] boom"), "boom");
    assert_eq!(without_prefix("(none) INFO more"), "(none) INFO more");
}

proptest! {
    #[test]
    fn any_log_is_survived(log in "(?s).{0,400}", code in any::<i32>()) {
        for phase in [Phase::Starting, Phase::Serving] {
            let failure = diagnose(phase, Some(Exit::Code(code)), &without_colours(&log));
            prop_assert!(!failure.detail.contains('\n'));
            prop_assert!(failure.detail.chars().count() <= DETAIL + 100);
        }
    }
}
