//! The live display: one line for the server and what it does, one for the runs, drawn again a few times a second. Both fit
//! the terminal: what comes last in a line is what a narrow one cuts.

use super::wording::{describe, outcome, server_name, time_left};
use super::{Ahead, Counter, Requests};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vsweep_plan::cause::Outcome;
use vsweep_plan::printable::printable;
use vsweep_record::journal::{Entry, Event, State, number};

/// Time between two drawings.
const REDRAW: Duration = Duration::from_millis(200);

/// The counter of the run in progress, read by the thread that draws.
type Watched = Arc<Mutex<Option<Counter>>>;

/// Two lines at the foot of a terminal.
pub struct Live {
    screen: MultiProgress,
    server: ProgressBar,
    runs: ProgressBar,
    watched: Watched,
    server_name: String,
}

impl Live {
    /// Two empty lines.
    pub fn new() -> Live {
        let screen = MultiProgress::new();
        let server = screen.add(ProgressBar::new_spinner());
        let runs = screen.add(ProgressBar::new(0));
        let watched = Watched::default();
        let shown = Arc::clone(&watched);
        let requests = move |_: &ProgressState, out: &mut dyn Write| {
            let counter = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // A display that cannot be written has nobody to tell.
            let _ = counter.map_or(Ok(()), |counter| show_requests(counter(), out));
        };
        server.set_style(style("{spinner} {requests}{wide_msg}").with_key("requests", requests));
        let line = "{bar:16} {pos} of {len} runs, {elapsed} so far{wide_msg}";
        runs.set_style(style(line).progress_chars("━╸─"));
        Live {
            screen,
            server,
            runs,
            watched,
            server_name: String::new(),
        }
    }

    /// Shows an event; what went wrong stays on the screen above the two lines.
    pub fn event(&mut self, entry: &Entry, state: &State, ahead: &Ahead) {
        match &entry.event {
            Event::SessionStarted { .. } => {
                self.server.enable_steady_tick(REDRAW);
                self.runs.enable_steady_tick(REDRAW);
            }
            Event::ServerStarting { server, .. } => {
                self.server_name = server_name(server, state);
                self.show_server("starting");
            }
            Event::ServerReady { .. } => self.show_server("ready"),
            Event::ServerExited { cause, .. } => {
                self.forget();
                self.server.set_message("no server");
                if cause.is_some() {
                    self.print(describe(entry, state, ahead));
                }
            }
            Event::RunStarted(run) => {
                self.show_server(&format!("{} #{}", run.name, number(run.slot, run.run)));
            }
            Event::RunFinished(_) => {
                self.forget();
                if let Some(run) = state.run_of(entry).filter(|run| run.outcome != Outcome::Ok) {
                    self.print(Some(outcome(run, state)));
                }
            }
            Event::SearchStarted(_)
            | Event::SearchFinished { .. }
            | Event::GroupGivenUp(_)
            | Event::ResultsRetired { .. } => self.print(describe(entry, state, ahead)),
            Event::JournalCreated { .. } | Event::GroupBegun(_) | Event::SessionEnded { .. } => {}
        }
        let failed = state.runs().filter(|run| run.outcome == Outcome::Failed).count();
        let left = time_left(ahead);
        let failed = (failed > 0).then(|| format!("{failed} failed"));
        let rest: String = left.into_iter().chain(failed).map(|part| format!(", {part}")).collect();
        self.runs.set_message(rest);
        // Where searches decide on their runs, nobody knows how many there will be.
        let (total, done) = match ahead.total() {
            0 => (state.planned_runs(), state.runs().count() as u64),
            total => (total, ahead.done()),
        };
        self.runs.set_length(total);
        self.runs.set_position(done);
    }

    /// Shows the requests of another run.
    pub fn watch(&mut self, counter: Counter) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(counter);
    }

    /// Prints a sentence above the display.
    pub fn note(&mut self, note: &str) {
        self.print(Some(note.to_owned()));
    }

    fn show_server(&self, doing: &str) {
        let message = format!("{}: {doing}", self.server_name);
        self.server.set_message(printable(&message).into_owned());
    }

    fn forget(&mut self) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn print(&self, line: Option<String>) {
        // A terminal that went away must not end the sweep.
        let _ = line.map_or(Ok(()), |line| self.screen.println(printable(&line)));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.server.finish_and_clear();
        self.runs.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are part of the program")
}

fn show_requests(requests: Requests, out: &mut dyn Write) -> std::fmt::Result {
    let Requests {
        planned,
        finished,
        failed,
    } = requests;
    match planned {
        0 => write!(out, "{finished} requests")?,
        _ => write!(out, "{finished} of {planned} requests")?,
    }
    if failed > 0 {
        write!(out, ", {failed} failed")?;
    }
    write!(out, "; ")
}
