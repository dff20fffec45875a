//! How long the phases of an engine's start took, as vLLM's log tells. Of several workers the slowest counts, since all wait for it.

use crate::plan::Params;
use serde_json::json;

/// A column, the words before its seconds and those after them.
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
/// Parts of a compilation, for logs that do not tell of it as a whole.
const COMPILATION: [(&str, &str); 2] = [
    ("Dynamo bytecode transform time: ", " s"),
    ("Compiling a graph for compile range ", " s"),
];

/// Every phase that a log tells of, in seconds.
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
        let whole = format!("{log}[monitor.py:48] torch.compile took 9.00 s in total\n");
        assert_eq!(phases(&whole)["startup_compile_s"], json!(9.0));
        assert_eq!(phases("nothing of the kind"), Params::new());
    }
}
