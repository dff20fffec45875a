//! The record of a rehearsal. Each event is added to the forecast, and to a state in memory, as if it were in the journal.

use super::budget::Steps;
use super::{Forecast, Loss, PredictedAnswer, Unknown};
use crate::cause::Failure;
use crate::journal::{BenchmarkResult, Entry, Event, State};
use crate::run::Writer;
use std::cell::{Cell, RefCell};

/// The record of a rehearsal.
pub struct RehearsalRecord<'a> {
    state: RefCell<&'a mut State>,
    forecast: &'a RefCell<Forecast>,
    steps: &'a Steps<'a>,
    /// True if the last run that began belongs to the plan's grid, and not to a search or an exploration.
    is_of_grid: Cell<bool>,
    /// True if runs of the grid are added to the state.
    keeps_runs: bool,
}

impl Writer for RehearsalRecord<'_> {
    type Error = Unknown;

    fn look<T>(&self, view: impl FnOnce(&State) -> T) -> T {
        view(&self.state.borrow())
    }

    async fn write(&self, event: Event, _: Option<BenchmarkResult>) -> Result<Entry, Unknown> {
        self.steps.take()?;
        self.note_event(&event);
        if let Event::RunStarted(started) = &event {
            self.is_of_grid.set(started.search.is_none());
        }
        let mut state = self.state.borrow_mut();
        Ok(match &event {
            // The grid may have a million runs, so they are not kept.
            Event::RunStarted(_) | Event::RunFinished(_) if self.is_of_grid.get() && !self.keeps_runs => {
                state.next_entry(event)
            }
            _ => state.apply_hypothetical(event),
        })
    }

    fn note(&self, _: &str) -> Result<(), Unknown> {
        Ok(())
    }
}

impl<'a> RehearsalRecord<'a> {
    /// Returns a record that adds to `state` and `forecast`, and takes one of `steps` for each event. Runs of the plan's grid are added to
    /// the state only if `keeps_runs`, for callers that read them again.
    pub fn new(
        state: &'a mut State,
        forecast: &'a RefCell<Forecast>,
        steps: &'a Steps<'a>,
        keeps_runs: bool,
    ) -> RehearsalRecord<'a> {
        RehearsalRecord {
            state: RefCell::new(state),
            forecast,
            steps,
            is_of_grid: Cell::new(false),
            keeps_runs,
        }
    }

    /// Adds the consequences of an event to the forecast.
    fn note_event(&self, event: &Event) {
        let mut forecast = self.forecast.borrow_mut();
        match event {
            Event::GroupGivenUp(given_up) => {
                forecast.runs += given_up.runs();
                // Adds the failure of a server that was never started. A failed start has already reported its own.
                if given_up.blamed.is_none() && forecast.failure.is_none() {
                    forecast.failure = Some(given_up.failure());
                }
            }
            Event::SearchFinished {
                cause: Some(cause),
                detail,
                search,
                ..
            } if forecast.unknown_runs == 0 => {
                let state = self.state.borrow();
                let name = state.latest_search(search).map(|record| record.started.name.clone());
                forecast.losses.push(Loss {
                    point: name.unwrap_or_default(),
                    failure: Failure::new(*cause, format!("the search would be given up: {detail}")),
                });
            }
            Event::SearchFinished { answers, search, .. } => {
                let state = self.state.borrow();
                let record = state.latest_search(search);
                let workload = record.map_or("", |record| record.started.workload());
                let found = answers.iter().map(|answer| PredictedAnswer {
                    search: search.clone(),
                    target: answer.target.clone(),
                    workload: workload.to_owned(),
                    found: answer.found,
                    limit: answer.is_coarse.then(|| answer.posterior.as_ref()?.median()).flatten(),
                });
                forecast.answers.extend(found);
            }
            _ => {}
        }
    }
}
