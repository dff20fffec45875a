//! What `vsweep bench` prints while it runs and at its end. A closed or full standard output ends nothing.

use crate::bench::Counters;
use crate::bench::result::console;
use crate::cli::output::{self, tell};
use crate::metrics::RunResult;
use crate::plan::Params;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Shows notes as they come, and how many requests have ended.
pub async fn progress(counters: Arc<Counters>, quiet: bool) {
    let bar = ProgressBar::hidden();
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} [{elapsed} < {eta}, {per_sec}]") {
        bar.set_style(style);
    }
    let mut is_wanted = !quiet && std::io::stderr().is_terminal();
    loop {
        bar.suspend(|| notes(&counters));
        let planned = counters.planned.load(Relaxed);
        if is_wanted && planned > 0 {
            bar.set_length(planned);
            bar.reset();
            bar.set_draw_target(ProgressDrawTarget::stderr());
            is_wanted = false;
        }
        bar.set_position(counters.finished.load(Relaxed));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The sentences that came since the last time.
pub fn notes(counters: &Counters) {
    for note in counters.take_notes() {
        let _ = writeln!(output::text(), "{note}");
    }
    counters.take_cautions().iter().for_each(tell);
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

/// The result's own warnings; why it must be read with care is among them.
pub fn warnings(result: &RunResult) {
    let warnings = result.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten() {
        tell(warning.as_str().unwrap_or_default());
    }
}
