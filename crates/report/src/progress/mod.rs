//! Shows a sweep while it runs: a live display on a terminal, otherwise one line per event, for people or for scripts.
//!
//! The driver of the sweep passes the events that it has recorded. This module does not know how a sweep is driven. A display that cannot
//! be written to never disturbs a sweep.

mod eta;
mod line;
mod live;
mod name;
mod wording;

pub use eta::Eta;
pub use wording::run_name;

use crate::sentences::Best;
use line::{Headword, Line, Names};
use live::Live;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use vsweep_base::ids::ServerId;
use vsweep_base::printable::printable_json;
use vsweep_base::threads;
use vsweep_record::journal::{Entry, State, now};

/// Kind of progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A live display if standard error is a terminal, plain lines otherwise.
    Auto,
    /// One line per event, on standard error.
    Plain,
    /// The journal's own line for each event, on standard output.
    Json,
    /// No output.
    Quiet,
}

/// Phase of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunPhase {
    /// Its requests are being generated.
    #[default]
    Preparing,
    /// The server is being warmed up.
    WarmingUp,
    /// Requests are sent.
    Measuring,
}

/// Counters of the run in progress.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RequestsSoFar {
    /// Phase of the run.
    pub phase: RunPhase,
    /// Requests to be sent; 0 if not known.
    pub planned: u64,
    /// Requests that ended, successfully or not.
    pub finished: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Output tokens per second of the requests that succeeded; `None` if they are not counted.
    pub tokens_per_s: Option<f64>,
    /// Mean time to first token of these requests, in milliseconds.
    pub ttft_ms: Option<f64>,
}

/// The figures of a run so far: as many as fit a line of the terminal after `indent` columns.
pub fn so_far(requests: &RequestsSoFar, elapsed: Duration, indent: usize) -> String {
    line::fit(
        &Names::default(),
        &live::figures(requests, &live::clock(elapsed)),
        indent,
    )
}

/// Activity of a server. The functions in it are called a few times a second while a live display is shown.
pub enum ServerActivity {
    /// A step between its runs.
    Step(&'static str),
    /// It starts. The function returns the phase of the start, or an empty text if the phase is unknown.
    Starting(Box<dyn Fn() -> &'static str + Send>),
    /// It answers the requests of a run.
    Running(Counter),
}

/// Reads the counters of the run in progress.
pub type Counter = Box<dyn Fn() -> RequestsSoFar + Send>;

/// The display of one sweep. A live display leaves the screen when it is dropped.
pub struct Progress {
    mode: Mode,
    live: Option<Live>,
    eta: Eta,
    /// The config that was shown as the best one.
    best: String,
}

impl Progress {
    /// A display of the remaining work.
    pub fn new(mode: Mode, eta: Eta) -> Progress {
        // Where threads are not allowed, nothing could draw a live display.
        let is_live = mode == Mode::Auto && std::io::stderr().is_terminal() && threads::is_allowed();
        let live = is_live.then(Live::new);
        Progress {
            mode,
            live,
            eta,
            best: String::new(),
        }
    }

    /// Remaining work, for updates during the sweep.
    pub fn eta(&mut self) -> &mut Eta {
        &mut self.eta
    }

    /// Shows an event that was just recorded and that `state` includes. `seconds_left` is the time that the remaining work will take.
    pub fn event(&mut self, entry: &Entry, state: &State, seconds_left: Option<f64>) {
        self.eta.seconds_left = seconds_left;
        self.eta.note(entry, state);
        match (&mut self.live, self.mode) {
            (Some(live), _) => live.event(entry, state, &self.eta),
            (None, Mode::Auto | Mode::Plain) => {
                if let Some(line) = wording::describe(entry, state, &self.eta) {
                    print_error(&line.paint(Some(wording::time_of_day(&entry.at))));
                }
            }
            (None, Mode::Json) => print(&printable_json(&entry.to_text())),
            (None, Mode::Quiet) => {}
        }
    }

    /// Sets the current activity of a server.
    pub fn doing(&mut self, server: &ServerId, doing: ServerActivity, state: &State) {
        let is_shown = !self.eta.without_server || !matches!(doing, ServerActivity::Step(_));
        if let Some(live) = self.live.as_ref().filter(|_| is_shown) {
            live.doing(server, doing, state);
        }
    }

    /// Shows a sentence once.
    pub fn note(&mut self, note: &str) {
        self.show(Headword::NOTE, "note", note);
    }

    /// Shows the best server so far: always at the foot of a terminal, else as a line when it differs from the previous one.
    pub fn best(&mut self, best: &Best, state: &State) {
        let is_known = std::mem::replace(&mut self.best, best.config.clone()) == best.config;
        match &mut self.live {
            Some(live) => {
                let names = Names::of_server(&ServerId(best.config.as_str().into()), state);
                live.show_result(names.within(&format!("Best, {}: {}: {}", best.sure, best.reached, best.times), ""));
            }
            None if is_known => {}
            None => self.show(Headword::BEST, "best", &format!("{} ({})", best.text, best.sure)),
        }
    }

    /// Shows the pairs of a comparison so far, at the foot of a terminal or as a line.
    pub fn pairs(&mut self, so_far: &str) {
        match &mut self.live {
            Some(live) => live.show_result(Names(vec![so_far.to_owned()])),
            None => self.note(so_far),
        }
    }

    fn show(&mut self, headword: Headword, key: &str, text: &str) {
        match (&mut self.live, self.mode) {
            (Some(live), _) => live.print(Some(Line::new(headword, text))),
            (None, Mode::Auto | Mode::Plain) => {
                // The time of day is in UTC, as for events.
                let at = now().to_string();
                print_error(&Line::new(headword, text).paint(Some(wording::time_of_day(&at))));
            }
            (None, Mode::Json) => print(&printable_json(&serde_json::json!({ key: text }).to_string())),
            (None, Mode::Quiet) => {}
        }
    }
}

// A reader that went away must not end the sweep, so errors are ignored.
fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
