//! The live display: one line for each server that is up and what it does, one for the runs, drawn again a few times a second. Each
//! fits the terminal: what comes last in a line is what a narrow one cuts.

use super::wording::{describe, outcome, server_name, time_left};
use super::{Ahead, Counter, Requests};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vsweep_plan::cause::Outcome;
use vsweep_plan::ids::ServerId;
use vsweep_plan::printable::printable;
use vsweep_record::journal::{Entry, Event, State, number};

/// Time between two drawings.
const REDRAW: Duration = Duration::from_millis(200);

/// The counter of a run in progress, read by the thread that draws.
type Watched = Arc<Mutex<Option<Counter>>>;

/// The lines at the foot of a terminal.
pub struct Live {
    screen: MultiProgress,
    /// Those that are up, and what is said while there is none.
    servers: BTreeMap<ServerId, Line>,
    nobody: Line,
    runs: ProgressBar,
}

/// The line of a server.
struct Line {
    bar: ProgressBar,
    watched: Watched,
    /// The GPUs that it has, in words.
    on: String,
}

impl Live {
    /// Two empty lines.
    pub fn new() -> Live {
        let screen = MultiProgress::new();
        let nobody = Line::new();
        screen.add(nobody.bar.clone());
        let runs = screen.add(ProgressBar::new(0));
        let line = "{bar:16} {pos} of {len} runs, {elapsed} so far{wide_msg}";
        runs.set_style(style(line).progress_chars("━╸─"));
        Live {
            screen,
            servers: BTreeMap::new(),
            nobody,
            runs,
        }
    }

    /// Shows an event; what went wrong stays on the screen above the lines.
    pub fn event(&mut self, entry: &Entry, state: &State, ahead: &Ahead) {
        match &entry.event {
            Event::SessionStarted { .. } => {
                self.nobody.bar.enable_steady_tick(REDRAW);
                self.runs.enable_steady_tick(REDRAW);
            }
            Event::ServerStarting { server, gpus, .. } => {
                self.begin(server, gpus);
                self.show(server, state, "starting");
            }
            Event::ServerReady { server, .. } => self.show(server, state, "ready"),
            Event::ServerExited { server, cause, .. } => {
                self.end(server);
                if cause.is_some() {
                    self.print(describe(entry, state, ahead));
                }
            }
            Event::RunStarted(run) => {
                let what = format!("{} #{}", run.name, number(run.slot, run.run));
                self.show(&run.server, state, &what);
            }
            Event::RunFinished(_) => {
                let run = state.run_of(entry);
                if let Some(line) = run.and_then(|run| self.servers.get(&run.server)) {
                    line.watch(None);
                }
                if let Some(run) = run.filter(|run| run.outcome != Outcome::Ok) {
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

    /// Shows the requests of another run on a server.
    pub fn watch(&mut self, server: &ServerId, counter: Counter) {
        if let Some(line) = self.servers.get(server) {
            line.watch(Some(counter));
        }
    }

    /// Prints a sentence above the display.
    pub fn note(&mut self, note: &str) {
        self.print(Some(note.to_owned()));
    }

    fn begin(&mut self, server: &ServerId, gpus: &[u32]) {
        let mut line = Line::new();
        self.screen.insert_before(&self.runs, line.bar.clone());
        line.bar.enable_steady_tick(REDRAW);
        line.on = describe_gpus(gpus);
        self.screen.remove(&self.nobody.bar);
        if let Some(before) = self.servers.insert(server.clone(), line) {
            self.screen.remove(&before.bar);
        }
    }

    fn end(&mut self, server: &ServerId) {
        if let Some(line) = self.servers.remove(server) {
            line.bar.finish_and_clear();
            self.screen.remove(&line.bar);
        }
        if self.servers.is_empty() {
            self.nobody = Line::new();
            self.screen.insert_before(&self.runs, self.nobody.bar.clone());
            self.nobody.bar.set_message("no server");
        }
    }

    fn show(&self, server: &ServerId, state: &State, doing: &str) {
        if let Some(line) = self.servers.get(server) {
            let message = format!("{}{}: {doing}", line.on, server_name(server, state));
            line.bar.set_message(printable(&message).into_owned());
        }
    }

    fn print(&self, line: Option<String>) {
        // A terminal that went away must not end the sweep.
        let _ = line.map_or(Ok(()), |line| self.screen.println(printable(&line)));
    }
}

impl Line {
    fn new() -> Line {
        let watched = Watched::default();
        let shown = Arc::clone(&watched);
        let requests = move |_: &ProgressState, out: &mut dyn Write| {
            let counter = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // A display that cannot be written has nobody to tell.
            let _ = counter.map_or(Ok(()), |counter| show_requests(counter(), out));
        };
        let bar = ProgressBar::new_spinner();
        bar.set_style(style("{spinner} {requests}{wide_msg}").with_key("requests", requests));
        Line {
            bar,
            watched,
            on: String::new(),
        }
    }

    fn watch(&self, counter: Option<Counter>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = counter;
    }
}

/// `GPU 3: `, `GPUs 0-3: `; nothing for none.
fn describe_gpus(gpus: &[u32]) -> String {
    match gpus {
        [] => String::new(),
        [gpu] => format!("GPU {gpu}: "),
        gpus => {
            let numbers: Vec<String> = gpus.iter().map(u32::to_string).collect();
            format!("GPUs {}: ", numbers.join(","))
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.servers.values().for_each(|line| line.bar.finish_and_clear());
        self.nobody.bar.finish_and_clear();
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
