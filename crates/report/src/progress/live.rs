//! The live display: one line for each running server and its activity, one for the runs, redrawn a few times a second. Problems stay on
//! the screen above them.

use super::line::{Line, Names, fit};
use super::name::describe_gpus;
use super::wording::{bracket, describe, outcome, place, show_seconds, time_left};
use super::{Counter, Eta, RequestsSoFar, RunPhase, ServerActivity};
use crate::texts::terminal::width;
use crate::texts::words::show_number;
use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::stdin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vsweep_base::cause::Outcome;
use vsweep_base::ids::ServerId;
use vsweep_base::printable::printable;
use vsweep_base::units::{show_count, show_duration, show_many};
use vsweep_base::validity::Code;
use vsweep_record::journal::{ComparisonDesign, Entry, Event, State, number};

/// Time between two drawings.
const REDRAW: Duration = Duration::from_millis(200);
/// Columns of the spinner before the text of a line.
const SPINNER: usize = 2;
/// Columns of the bar of the runs, with the space after it.
const BAR: usize = 17;
/// Columns of this bar in a narrow terminal, with the space after it.
const SHORT_BAR: usize = 7;
/// Columns below which a terminal is narrow.
const WIDE: usize = 80;

/// The lines at the foot of a terminal.
pub struct Live {
    /// Restores the terminal when it is dropped, after the lines are cleared.
    _quiet: Option<QuietControls>,
    screen: MultiProgress,
    servers: BTreeMap<ServerId, LiveLine>,
    runs: LiveLine,
    /// The answer so far, below the runs once there is one.
    result: Option<LiveLine>,
    /// The doubts that were printed. Further runs with only these doubts are counted, but not printed.
    doubts: BTreeSet<Code>,
    /// True once a server was reported that is not started for its memory. Further ones are only counted, as skipped runs.
    has_ruled_out: bool,
}

/// A line that is redrawn, and its content.
struct LiveLine {
    bar: ProgressBar,
    shown: Arc<Mutex<LineContent>>,
    /// The GPUs of its server, in words.
    gpus: String,
}

/// Activity of a server, or progress of the runs.
struct LineContent {
    /// Names of its subject, if it has one.
    names: Names,
    /// Parts of the text after the name, the most important first.
    parts: Vec<String>,
    /// Beginning of the activity, for its clock.
    since: Instant,
    /// Names of the run that has begun, and further text about it. They are shown once requests are sent, for example after a reset.
    run: Option<(Names, Vec<String>)>,
    /// Writes the progress of its run or start, given the duration so far; `None` if only the duration is known.
    so_far: Option<Box<dyn Fn(String) -> Vec<String> + Send>>,
    /// True if the parts come before the progress.
    leads: bool,
}

impl Live {
    /// Begins the display with the line of the runs.
    pub fn new() -> Live {
        let screen = MultiProgress::new();
        let is_narrow = width(&Term::stderr()).is_some_and(|columns| columns < WIDE);
        let (template, indent) = match is_narrow {
            true => ("{bar:6.cyan} {line}", SHORT_BAR),
            false => ("{bar:16.cyan} {line}", BAR),
        };
        let runs = LiveLine::new(ProgressBar::new(0), template, indent, total_line);
        runs.bar.set_style(runs.bar.style().progress_chars("━╸─"));
        screen.add(runs.bar.clone());
        Live {
            _quiet: QuietControls::begin(),
            screen,
            servers: BTreeMap::new(),
            runs,
            result: None,
            doubts: BTreeSet::new(),
            has_ruled_out: false,
        }
    }

    /// Shows an event. Failures and doubts stay on the screen above the lines.
    pub fn event(&mut self, entry: &Entry, state: &State, eta: &Eta) {
        match &entry.event {
            Event::SessionStarted { .. } => self.runs.bar.enable_steady_tick(REDRAW),
            Event::ServerStarting { server, gpus, .. } => {
                self.begin(server, gpus);
                let expected = eta.expected_start(state).filter(|_| !eta.without_server);
                let expected = expected.map(|(how, seconds)| format!("{how} {}", show_seconds(seconds)));
                let what = match eta.without_server {
                    true => "waiting for free GPUs",
                    false => "starting",
                };
                self.show(server, what, expected.unwrap_or_default(), state);
            }
            Event::ServerReady(_) if eta.without_server => {}
            Event::ServerReady(ready) => self.show(&ready.server, "ready", String::new(), state),
            Event::ServerExited(exited) => {
                if let Some(line) = self.servers.remove(&exited.server) {
                    self.screen.remove(&line.bar);
                }
                if exited.cause.is_some() {
                    self.print_short(describe(entry, state, eta), &Names::of_server(&exited.server, state));
                }
            }
            Event::RunStarted(run) => {
                let names = Names::of_run(&run.server, &run.name, &number(run.slot, run.run), state);
                let place = match &run.search {
                    Some(probe) => bracket(&probe.id, state).unwrap_or_default(),
                    None => place(state, eta, eta.under_way()),
                };
                if let Some(line) = self.servers.get(&run.server) {
                    let place = printable(&place).into_owned();
                    line.lock().run = Some((names.within(&line.gpus, ""), vec![place]));
                }
            }
            Event::RunFinished(_) => {
                let Some(run) = state.run_of(entry) else { return };
                self.show(&run.server, "between runs", String::new(), state);
                let mut codes = run.doubts.iter().map(|doubt| doubt.code);
                let is_known = run.outcome == Outcome::Suspect && codes.all(|code| self.doubts.contains(&code));
                self.doubts.extend(run.doubts.iter().map(|doubt| doubt.code));
                if run.outcome != Outcome::Ok && !is_known {
                    let names = Names::of_run(&run.server, &run.name, &run.number(), state);
                    self.print_short(Some(outcome(run, state)), &names);
                }
            }
            Event::GroupGivenUp(given_up) if given_up.ruled_out.is_some() && self.has_ruled_out => {}
            Event::GroupGivenUp(given_up) => {
                self.has_ruled_out |= given_up.ruled_out.is_some();
                let names = Names::of_server(&given_up.server, state);
                self.print_short(describe(entry, state, eta), &names);
            }
            Event::SearchStarted(_) | Event::SearchFinished { .. } | Event::ResultsRetired { .. } => {
                self.print(describe(entry, state, eta))
            }
            Event::JournalCreated { .. } | Event::GroupBegun(_) | Event::SessionEnded { .. } => {}
        }
        self.count(state, eta);
    }

    /// Shows the progress of the sweep.
    fn count(&self, state: &State, eta: &Eta) {
        let count = |outcome| state.runs().filter(|run| run.outcome == outcome).count() as u64;
        let skipped = state.skipped_runs();
        let failed = (count(Outcome::Failed) + state.unlisted_runs()).saturating_sub(skipped);
        let suspect = count(Outcome::Suspect);
        let (server, servers) = eta.servers();
        let compared = state.compared();
        // If searches choose their runs, the total number is unknown.
        let (done, total, what) = match (eta.done, eta.total) {
            (_, 0) => {
                let probes = show_many(state.runs().count() as u64, "probe");
                (server.saturating_sub(1), servers, probes)
            }
            _ if compared.is_some() => {
                let most = compared.map_or(0, ComparisonDesign::most_runs);
                let done = state.runs().count() as u64;
                let runs = format!("{} of at most {} runs", show_count(done), show_count(most));
                (done, most, runs)
            }
            (done, _) if eta.is_open_ended => (done, eta.to_measure(), show_many(done, "run")),
            (done, _) => {
                let total = eta.to_measure();
                let runs = format!("{} of {} runs", show_count(done), show_count(total));
                (done, total, runs)
            }
        };
        let failed = (failed > 0).then(|| format!("{failed} failed"));
        let skipped = (skipped > 0).then(|| format!("{skipped} skipped"));
        let suspect = (suspect > 0).then(|| format!("{suspect} suspect"));
        let server = match compared {
            Some(compared) => Some(format!(
                "start {} of at most {}",
                state.launches().count(),
                compared.max_starts
            )),
            None if eta.is_open_ended => Some(format!("{} {server}", eta.noun())),
            None => (servers > 1).then(|| format!("{} {server} of {servers}", eta.noun())),
        };
        self.runs.bar.set_length(total);
        self.runs.bar.set_position(done);
        let parts = [Some(what), time_left(eta), failed, skipped, suspect, server];
        self.runs.lock().parts = parts.into_iter().flatten().collect();
    }

    /// Shows the current activity of a server.
    pub fn doing(&self, server: &ServerId, doing: ServerActivity, state: &State) {
        let Some(line) = self.servers.get(server) else { return };
        match doing {
            ServerActivity::Step(what) => self.show(server, what, String::new(), state),
            ServerActivity::Starting(phase) => {
                line.lock().so_far = Some(Box::new(move |time| vec![time, phase().to_owned()]))
            }
            ServerActivity::Running(counter) => line.watch(counter),
        }
    }

    /// Shows the answer so far as the last line, in its longest form that fits.
    pub fn show_result(&mut self, forms: Names) {
        let screen = &self.screen;
        let line = self.result.get_or_insert_with(|| {
            let line = LiveLine::new(ProgressBar::new(0), "{line}", 0, |shown| shown.parts.clone());
            screen.insert_after(&self.runs.bar, line.bar.clone());
            line
        });
        line.lock().parts = forms
            .longest()
            .map(|form| printable(&form).into_owned())
            .into_iter()
            .collect();
        line.bar.tick();
    }

    fn begin(&mut self, server: &ServerId, gpus: &[u32]) {
        let mut line = LiveLine::new(ProgressBar::new_spinner(), "{spinner} {line}", SPINNER, server_line);
        self.screen.insert_before(&self.runs.bar, line.bar.clone());
        line.bar.enable_steady_tick(REDRAW);
        line.gpus = describe_gpus(gpus);
        if let Some(before) = self.servers.insert(server.clone(), line) {
            self.screen.remove(&before.bar);
        }
    }

    fn show(&self, server: &ServerId, what: &str, more: String, state: &State) {
        if let Some(line) = self.servers.get(server) {
            let names = Names::of_server(server, state).within(&line.gpus, &format!(": {what}"));
            line.set(names, vec![printable(&more).into_owned()]);
        }
    }

    fn print_short(&self, line: Option<Line>, names: &Names) {
        let _ = line.map_or(Ok(()), |line| self.screen.println(line.paint_short(names)));
    }

    /// Prints a line above the display.
    pub fn print(&self, line: Option<Line>) {
        // A terminal that went away must not end the sweep, so the error is ignored.
        let _ = line.map_or(Ok(()), |line| self.screen.println(line.paint(None)));
    }
}

impl LiveLine {
    fn new(bar: ProgressBar, template: &str, indent: usize, line: fn(&LineContent) -> Vec<String>) -> LiveLine {
        let shown = Arc::new(Mutex::new(LineContent {
            names: Names::default(),
            parts: Vec::new(),
            since: Instant::now(),
            run: None,
            so_far: None,
            leads: false,
        }));
        let drawn = Arc::clone(&shown);
        let draw = move |_: &ProgressState, out: &mut dyn Write| {
            let shown = drawn.lock().unwrap_or_else(PoisonError::into_inner);
            let parts = line(&shown);
            // An error means that the terminal is gone, which must not end the sweep.
            let _ = out.write_str(&fit(&shown.names, &parts, indent));
        };
        let style = ProgressStyle::with_template(template).expect("the templates are part of the program");
        bar.set_style(style.with_key("line", draw));
        LiveLine {
            bar,
            shown,
            gpus: String::new(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LineContent> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows another activity, with a new clock. This function must not use the bar, because the drawing thread holds the bar while it
    /// waits for `shown`.
    fn set(&self, names: Names, parts: Vec<String>) {
        let mut shown = self.lock();
        shown.names = names;
        shown.parts = parts;
        shown.since = Instant::now();
        shown.so_far = None;
        shown.leads = false;
    }

    /// Shows the run that has begun, and its requests. The line keeps its name if a run is measured once more.
    fn watch(&self, counter: Counter) {
        let begun = self.lock().run.take();
        if let Some((names, parts)) = begun {
            self.set(names, parts);
        }
        let mut shown = self.lock();
        shown.so_far = Some(Box::new(move |time| figures(&counter(), &time)));
        // The bounds of a search, or the number of the run, say more than the figures of one run.
        shown.leads = true;
    }
}

/// Progress and duration of the runs.
fn total_line(shown: &LineContent) -> Vec<String> {
    let mut parts = shown.parts.clone();
    parts.push(format!("{} so far", clock(shown.since.elapsed())));
    parts
}

/// Activity of a server, and the figures of its run so far, or its duration until there are any.
fn server_line(shown: &LineContent) -> Vec<String> {
    let time = clock(shown.since.elapsed());
    let so_far = match &shown.so_far {
        Some(so_far) => so_far(time),
        None => vec![time],
    };
    match shown.leads {
        true => [shown.parts.clone(), so_far].concat(),
        false => [so_far, shown.parts.clone()].concat(),
    }
}

/// Figures of a run in progress; its duration until there are any.
pub fn figures(requests: &RequestsSoFar, time: &str) -> Vec<String> {
    let RequestsSoFar { planned, finished, .. } = *requests;
    let count = match (requests.phase, planned) {
        (RunPhase::Preparing, _) => return vec![format!("preparing {time}")],
        (RunPhase::WarmingUp, _) => return vec![format!("warming up {time}")],
        (RunPhase::Measuring, 0) if finished == 0 => return vec![time.to_owned()],
        (RunPhase::Measuring, 0) => show_many(finished, "request"),
        (RunPhase::Measuring, _) => format!("{finished} of {planned} requests"),
    };
    let failed = (requests.failed > 0).then(|| format!("{} failed", requests.failed));
    let rate = requests
        .tokens_per_s
        .map(|rate| format!("{} tokens/s", show_number(rate)));
    let ttft = requests.ttft_ms.map(|ttft| format!("TTFT {} ms", show_number(ttft)));
    [Some(count), failed, rate, ttft].into_iter().flatten().collect()
}

/// Formats a duration: `12s`, `3m 05s`.
pub fn clock(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..60 => format!("{seconds}s"),
        _ => show_duration(time),
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.servers.values().for_each(|line| line.bar.finish_and_clear());
        self.result.iter().for_each(|line| line.bar.finish_and_clear());
        self.runs.bar.finish_and_clear();
    }
}

/// Hides `^C`, which would break the lines that are drawn. Holds the terminal's former settings, and restores them when it is dropped.
struct QuietControls(Termios);

impl QuietControls {
    /// Hides `^C`. Returns `None` in the background, where changing the settings would stop this process.
    fn begin() -> Option<QuietControls> {
        QuietControls::is_in_foreground().then_some(())?;
        let before = tcgetattr(stdin()).ok()?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHOCTL);
        tcsetattr(stdin(), SetArg::TCSANOW, &quiet).ok()?;
        Some(QuietControls(before))
    }

    fn is_in_foreground() -> bool {
        tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
    }
}

impl Drop for QuietControls {
    fn drop(&mut self) {
        if QuietControls::is_in_foreground() {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_run_is_named_while_its_requests_are_counted() {
        let line = LiveLine::new(ProgressBar::hidden(), "{line}", 0, server_line);
        line.lock().run = Some((Names(vec!["TP 1 #0".to_owned()]), vec!["chat passed at 4".to_owned()]));
        line.set(Names(vec!["TP 1: resetting its caches".to_owned()]), Vec::new());
        line.watch(Box::new(RequestsSoFar::default));
        assert_eq!(line.lock().names.0, ["TP 1 #0"]);
        assert_eq!(server_line(&line.lock())[0], "chat passed at 4", "before the figures");
    }

    #[test]
    fn a_line_can_change_while_it_is_drawn() {
        let line = LiveLine::new(ProgressBar::hidden(), "{line}", 0, server_line);
        let (done, is_done) = channel();
        std::thread::scope(|threads| {
            // The bar is locked during the update, as it is while it is drawn.
            line.bar.update(|_| {
                threads.spawn(|| {
                    line.set(Names::default(), vec!["ready".to_owned()]);
                    done.send(()).expect("somebody waits");
                });
                let done = is_done.recv_timeout(Duration::from_secs(60));
                assert!(
                    done.is_ok(),
                    "`set` waits for the drawing thread, which waits for `shown`"
                );
            });
        });
    }
}
