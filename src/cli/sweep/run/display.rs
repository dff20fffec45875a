//! The display of a sweep in progress: passes the sweep's updates to the progress lines, the countdown and the tables.

use super::tables::Tables;
use super::words;
use crate::agenda::Start;
use crate::bench::Counters;
use crate::cli::forecast::{self, Countdown};
use crate::error::Result;
use crate::journal::{Entry, Event, Launch, Recorder, State};
use crate::rehearse::Options;
use crate::report::comparison_so_far;
use crate::report::progress::{Counter, Eta, Progress, RequestsSoFar, RunPhase, ServerActivity};
use crate::report::texts::words::short_label;
use crate::run::{Sweep, Update};
use crate::server::startup;
use itertools::Itertools;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shows a sweep while it runs.
pub struct Display<'a> {
    pub sweep: Sweep<'a>,
    pub progress: Progress,
    pub countdown: Option<Countdown>,
    pub tables: Option<Tables>,
    /// Number of measured pairs in the last message about a comparison.
    pub pairs: usize,
}

impl Display<'_> {
    /// Shows an update.
    pub fn show(&mut self, update: Update<'_>, recorder: &Recorder) -> Result<()> {
        let state = recorder.state();
        // Before the update, because the tables do not have it yet.
        if let Some(best) = self.tables.as_ref().and_then(Tables::best) {
            self.progress.best(&best, state);
        }
        match update {
            Update::Recorded(entry) => self.show_event(entry, recorder)?,
            Update::Running(server, counters) => {
                let activity = ServerActivity::Running(counter(counters));
                self.progress.doing(server, activity, state);
            }
            Update::Acting(server, action) => {
                if let Some(what) = words::doing(action) {
                    self.progress.doing(server, ServerActivity::Step(what), state);
                }
            }
            Update::Note(note) => self.progress.note(&with_short_names(note, state)),
        }
        Ok(())
    }

    /// Waits until the tables have everything that was recorded.
    pub fn end(&mut self) -> Result<()> {
        self.tables.as_mut().map_or(Ok(()), Tables::end)
    }

    fn show_event(&mut self, entry: &Entry, recorder: &Recorder) -> Result<()> {
        let state = recorder.state();
        let countdown = self.countdown.as_mut();
        let left = countdown.and_then(|countdown| countdown.seconds_left(entry, state));
        // Finalists are unknown until the first start of the finals begins, and proposed servers until their start begins. Their work is
        // added then.
        if let Event::GroupBegun(begun) = &entry.event
            && (begun.slot >= self.sweep.plan.starts || begun.proposed.is_some())
            && !self.progress.eta().knows(&begun.server, begun.slot)
        {
            let schedule = self.sweep.schedule();
            match begun.proposed {
                Some(_) => {
                    let start = schedule.start_of(&begun.server, begun.slot);
                    add_work(self.progress.eta(), &self.sweep, start, state);
                }
                None => add_work(self.progress.eta(), &self.sweep, schedule.finals(state), state),
            }
        }
        self.progress.event(entry, state, left);
        if let Event::ServerStarting { server, launch, .. } = &entry.event {
            let (session, n) = (entry.rank.line.journal, *launch);
            let log = recorder.directory().server_log(server, Launch { session, n });
            let activity = ServerActivity::Starting(Box::new(startup::follow(log)));
            self.progress.doing(server, activity, state);
        }
        if matches!(entry.event, Event::RunFinished(_))
            && let Some((pairs, text)) = comparison_so_far(state).filter(|(pairs, _)| *pairs > self.pairs)
        {
            self.progress.pairs(&text);
            self.pairs = pairs;
        }
        match (&entry.event, &mut self.tables) {
            (
                Event::RunFinished(_)
                | Event::SearchFinished { .. }
                | Event::GroupGivenUp(_)
                | Event::ResultsRetired { .. },
                Some(tables),
            ) => tables.renew(),
            _ => Ok(()),
        }
    }
}

/// Returns a note with the servers' names as short as in other lines.
fn with_short_names(note: &str, state: &State) -> String {
    let names = state.servers.values().map(|server| server.name.as_str());
    let named = names.filter(|name| name.contains('=') && note.contains(*name));
    // A name may be the beginning of a longer one.
    let named = named.sorted_by_key(|name| Reverse(name.len()));
    named.fold(note.to_owned(), |note, name| note.replace(name, &short_label(name)))
}

/// Returns the work of this invocation, from which the display computes the progress.
pub fn eta(sweep: &Sweep<'_>, state: &State, options: &Options) -> Eta {
    let mut eta = Eta::default();
    eta.is_open_ended = sweep.plan.optimize.is_some();
    let schedule = sweep.schedule();
    match eta.is_open_ended {
        true => add_work(&mut eta, sweep, schedule.wanted_starts(state, &[]), state),
        false => add_work(&mut eta, sweep, schedule.foreseen(state), state),
    }
    eta.without_server = sweep.plan.bench.runner.offline().is_some();
    eta.predicted_start = forecast::first_start(sweep.wanted, options);
    eta
}

/// Adds the runs that these starts still need in any case, and their unfinished searches.
fn add_work(eta: &mut Eta, sweep: &Sweep<'_>, starts: impl IntoIterator<Item = Start>, state: &State) {
    let schedule = sweep.schedule();
    for start in starts {
        let (server, slot) = (&start.server.id, start.slot);
        let runs = schedule.sure_runs(&start, state);
        if runs > 0 {
            eta.add_runs(server, slot, runs);
        }
        for search in schedule.searches(&start, state) {
            eta.add_search(server, slot, &search.id);
        }
    }
}

/// Returns a function that reads the progress of a run for the display.
pub fn counter(counters: &Arc<Counters>) -> Counter {
    let counters = Arc::clone(counters);
    Box::new(move || {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (finished, failed, tokens) = (read(&counters.finished), read(&counters.failed), read(&counters.tokens));
        let good = finished.saturating_sub(failed) as f64;
        let since = counters.sending.get();
        let seconds = since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        RequestsSoFar {
            phase: match since {
                Some(_) => RunPhase::Measuring,
                None if counters.is_warming_up() => RunPhase::WarmingUp,
                None => RunPhase::Preparing,
            },
            planned: read(&counters.planned),
            finished,
            failed,
            tokens_per_s: (tokens > 0).then(|| tokens as f64 / seconds),
            ttft_ms: (tokens > 0).then(|| read(&counters.ttft_ns) as f64 / good / 1e6),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ServerId;
    use crate::journal::ServerRecord;

    #[test]
    fn a_note_has_short_names() {
        let mut state = State::default();
        for seqs in ["1", "16"] {
            let mut record = ServerRecord::default();
            record.config.name = format!("max_num_seqs={seqs}");
            state.servers.insert(ServerId(seqs.into()), record);
        }
        let note = with_short_names("max_num_seqs=16: trying again after hung", &state);
        assert_eq!(note, "seqs 16: trying again after hung");
    }
}
