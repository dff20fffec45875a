//! The only loop that performs an agenda: it asks for the next step, writes it or has a stage perform it, and reports the outcome and the
//! user's signals. A real run, a rehearsal and a replay differ only in their stage and in the destination of events.

use crate::agenda::{Action, ActionOutcome, Agenda, Ending, Signal, Step};
use crate::journal::{BenchmarkResult, Entry, Event, State};
use futures_util::FutureExt;
use std::pin::pin;

/// Performs actions on a server.
pub trait Stage {
    /// Error that ends the work; a failed server or run is an outcome, not an error.
    type Error;

    /// Performs an action. Dropping the future gives the action up; the server must then still be stopped.
    fn act(&mut self, action: Action) -> impl Future<Output = Result<ActionOutcome, Self::Error>>;
}

/// Destination of events.
pub trait Writer {
    /// Error of writing an event.
    type Error;

    /// Passes the state of everything that is recorded to `view`.
    fn look<T>(&self, view: impl FnOnce(&State) -> T) -> T;

    /// Writes an event durably. The figures of a measured run are written before its event.
    fn write(
        &self,
        event: Event,
        measured: Option<BenchmarkResult>,
    ) -> impl Future<Output = Result<Entry, Self::Error>>;

    /// Writes an event that has no figures.
    fn record(&self, event: Event) -> impl Future<Output = Result<Entry, Self::Error>> {
        self.write(event, None)
    }

    /// Shows a note to the user.
    fn note(&self, note: &str) -> Result<(), Self::Error>;
}

/// Source of the user's signals.
pub trait SignalSource {
    /// Resolves with the next signal, at once if it has already come. No signal is lost if the future is dropped.
    fn next(&mut self) -> impl Future<Output = Signal>;
}

/// A source without signals.
#[derive(Debug)]
pub struct NoSignals;

impl SignalSource for NoSignals {
    async fn next(&mut self) -> Signal {
        std::future::pending().await
    }
}

/// Performs the steps of an agenda until none is left. After an error the server may still be running.
pub async fn drive<E>(
    agenda: &mut Agenda<'_>,
    stage: &mut impl Stage<Error = E>,
    writer: &impl Writer<Error = E>,
    signals: &mut impl SignalSource,
) -> Result<Ending, E> {
    loop {
        while let Some(signal) = signals.next().now_or_never() {
            agenda.signal(signal);
        }
        match writer.look(|state| agenda.next(state)) {
            Step::Record(event, measured) => {
                let entry = writer.write(*event, measured.map(|measured| *measured)).await?;
                writer.look(|state| agenda.recorded(&entry, state));
            }
            Step::Note(note) => writer.note(&note)?,
            // An action that was decided before a signal arrived is not begun after it.
            Step::Act(_) if agenda.gives_up() => agenda.settle(ActionOutcome::Abandoned),
            Step::Act(action) => {
                let outcome = act(agenda, stage, action, signals).await?;
                agenda.settle(outcome);
            }
            Step::Done(ending) => return Ok(ending),
        }
    }
}

async fn act<E>(
    agenda: &mut Agenda<'_>,
    stage: &mut impl Stage<Error = E>,
    action: Action,
    signals: &mut impl SignalSource,
) -> Result<ActionOutcome, E> {
    let mut acting = pin!(stage.act(action));
    loop {
        tokio::select! {
            // A complete result counts, even if the user asks to end at the same moment.
            biased;
            outcome = &mut acting => return outcome,
            signal = signals.next() => if agenda.signal(signal) {
                return Ok(ActionOutcome::Abandoned);
            },
        }
    }
}
