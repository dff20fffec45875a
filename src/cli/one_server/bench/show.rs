//! The output of `vsweep bench` while it runs and at its end. A closed or full standard output ends nothing.

use crate::bench::Counters;
use crate::bench::result::console;
use crate::cli::output::{self, inform};
use crate::cli::sweep::run::counter;
use crate::plan::Params;
use crate::report::progress::so_far;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde_json::Value;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);
/// Columns of the bar, before what is said.
const BAR: usize = 17;

/// Shows notes as they come, and how the requests fare.
pub async fn progress(counters: Arc<Counters>, quiet: bool, as_json: bool) {
    let began = Instant::now();
    let bar = match quiet {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(0).with_finish(ProgressFinish::AndClear),
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:16.cyan} {msg}") {
        bar.set_style(style.progress_chars("━╸─"));
    }
    let read = counter(&counters);
    loop {
        bar.suspend(|| notes(&counters, as_json));
        let requests = read();
        bar.set_length(requests.planned.max(1));
        bar.set_message(so_far(&requests, began.elapsed(), BAR));
        bar.set_position(requests.finished);
        tokio::time::sleep(BETWEEN_DRAWINGS).await;
    }
}

/// Prints the new sentences. With JSON on standard output, only those for standard error.
pub fn notes(counters: &Counters, as_json: bool) {
    for note in counters.take_notes().into_iter().filter(|_| !as_json) {
        let _ = writeln!(output::text(), "{note}");
    }
    counters.take_cautions().iter().for_each(inform);
}

/// The block of `vllm bench serve`, after the commonest errors.
pub fn block(result: &Params) -> io::Result<()> {
    let mut out = output::text();
    let reasons = result.get("failure_reasons").and_then(Value::as_object);
    if let Some(reasons) = reasons {
        writeln!(out, "Failed requests during benchmark run detected (capping to 10):")?;
        for (i, (reason, count)) in reasons.iter().take(10).enumerate() {
            let times = if *count == 1 { "time" } else { "times" };
            writeln!(out, "Error {i}: {reason} ({count} {times})")?;
        }
    }
    write!(out, "{}", console::console(result))?;
    out.flush()
}
