//! The phases of an engine's start, read from its log: the current one, and the duration of each. Of several workers the slowest counts,
//! because all wait for it.

use super::diagnose::read_log;
use crate::plan::Params;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Columns, each with the texts of the log before and after its seconds.
const PHASES: [(&str, &str, &str); 6] = [
    ("startup_weights_s", "Loading weights took ", " seconds"),
    ("startup_model_s", " GiB memory and ", " seconds"),
    ("startup_compile_s", "torch.compile took ", " s in total"),
    ("startup_compile_s", "(compilation: ", " s)"),
    ("startup_graphs_s", "Graph capturing finished in ", " secs"),
    (
        "startup_engine_s",
        "init engine (profile, create kv cache, warmup model) took ",
        " s",
    ),
];
/// Texts before and after the seconds of a part of the compilation, for logs that do not report the whole.
const COMPILATION: [(&str, &str); 2] = [
    ("Dynamo bytecode transform time: ", " s"),
    ("Compiling a graph for compile range ", " s"),
];

/// Texts of vLLM's log (the last three are SGLang's), each with the activity of the engine from then on.
const BEGINNINGS: [(&str, &str); 12] = [
    ("Initializing a V1 LLM engine", "starting its workers"),
    ("Starting to load model", "loading weights"),
    ("Model loading took ", "profiling memory"),
    ("Dynamo bytecode transform time: ", "compiling"),
    ("Compiling a graph for compile range ", "compiling"),
    ("torch.compile took ", "profiling memory"),
    ("KV cache size: ", "warming up"),
    ("Capturing CUDA graphs", "capturing graphs"),
    (
        "init engine (profile, create kv cache, warmup model) took ",
        "opening its port",
    ),
    ("Load weight begin", "loading weights"),
    ("Load weight end", "allocating its KV cache"),
    ("Capture cuda graph begin", "capturing graphs"),
];

/// Number of bytes that are read again, because they may have been the beginning of a line.
const READ_AGAIN: u64 = 256;

/// Returns a function that reads the new part of a log at each call, and returns the activity of the engine; empty while it is unknown.
pub fn follow(log: PathBuf) -> impl Fn() -> &'static str + Send + Sync {
    // Number of bytes read so far, and the activity.
    let read = Mutex::new((0, ""));
    move || {
        let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
        let length = log.metadata().map_or(0, |log| log.len());
        if length > read.0 {
            let begun = last_activity(&read_log(&log, read.0.saturating_sub(READ_AGAIN)));
            *read = (length, begun.unwrap_or(read.1));
        }
        read.1
    }
}

/// Returns the activity that begins last in a log.
fn last_activity(log: &str) -> Option<&'static str> {
    let of = |line: &str| BEGINNINGS.iter().find(|(words, _)| line.contains(words));
    log.lines().rev().find_map(of).map(|(_, doing)| *doing)
}

/// Returns the duration of every phase that a log reports, in seconds, by column.
pub fn phases(log: &str) -> Params {
    let mut figures = Params::new();
    for (column, before, after) in PHASES {
        let seconds = log.lines().filter_map(|line| seconds(line, before, after));
        if let Some(longest) = seconds.reduce(f64::max) {
            figures.insert(column.to_owned(), json!(longest));
        }
    }
    if !figures.contains_key("startup_compile_s") {
        let part = |(before, after): (&str, &str)| {
            let seconds = log.lines().filter_map(|line| {
                let line = line.split_once(before)?.1;
                let number = line.rsplit_once(" takes ").map_or(line, |(_, rest)| rest);
                number.split_once(after)?.0.parse::<f64>().ok()
            });
            seconds.reduce(f64::max)
        };
        let parts: Vec<f64> = COMPILATION.into_iter().filter_map(part).collect();
        if !parts.is_empty() {
            figures.insert("startup_compile_s".to_owned(), json!(parts.iter().sum::<f64>()));
        }
    }
    figures
}

fn seconds(line: &str, before: &str, after: &str) -> Option<f64> {
    line.split_once(before)?.1.split_once(after)?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn each_phase_is_that_of_the_slowest_worker() {
        let log = "\
(Worker_TP0 pid=1) INFO 11-20 10:00:00 [default_loader.py:502] Loading weights took 2.50 seconds
(Worker_TP1 pid=2) INFO 11-20 10:00:00 [default_loader.py:502] Loading weights took 3.25 seconds
(Worker_TP0 pid=1) INFO 11-20 10:00:01 [gpu_model_runner.py:5150] Model loading took 14.99 GiB memory and 4.123456 seconds
(Worker_TP0 pid=1) INFO 11-20 10:00:02 [backends.py:1167] Dynamo bytecode transform time: 1.50 s
(Worker_TP0 pid=1) INFO 11-20 10:00:03 [backends.py:399] Compiling a graph for compile range (1, 2048) takes 6.00 s
(Worker_TP0 pid=1) INFO 11-20 10:00:04 [gpu_model_runner.py:6582] Graph capturing finished in 7 secs, took 0.55 GiB
(EngineCore pid=3) INFO 11-20 10:00:05 [core.py:402] init engine (profile, create kv cache, warmup model) took 16.20 s
";
        let expected = json!({"startup_weights_s": 3.25, "startup_model_s": 4.123456, "startup_graphs_s": 7.0,
            "startup_engine_s": 16.2, "startup_compile_s": 7.5});
        assert_eq!(Value::from(phases(log)), expected);
        let so_far = |lines: usize| last_activity(&log.lines().take(lines).collect::<Vec<_>>().join("\n"));
        assert_eq!(
            [0, 2, 3, 5, 7].map(so_far),
            [
                None,
                None,
                Some("profiling memory"),
                Some("compiling"),
                Some("opening its port")
            ]
        );
        let whole = format!("{log}[monitor.py:48] torch.compile took 9.00 s in total\n");
        assert_eq!(phases(&whole)["startup_compile_s"], json!(9.0));
        assert_eq!(phases("nothing of the kind"), Params::new());
    }

    #[test]
    fn a_log_is_followed_as_it_grows() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let log = folder.path().join("log");
        let phase = follow(log.clone());
        assert_eq!(phase(), "");
        std::fs::write(&log, "INFO Starting to lo").expect("written");
        assert_eq!(phase(), "");
        std::fs::write(&log, "INFO Starting to load model m...\n").expect("written");
        assert_eq!((phase(), phase()), ("loading weights", "loading weights"));
        let more = "INFO Starting to load model m...\nINFO something else\nINFO GPU KV cache size: 4 tokens\n";
        std::fs::write(&log, more).expect("written");
        assert_eq!(phase(), "warming up");
    }
}
