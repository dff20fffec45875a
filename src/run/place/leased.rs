//! Any of the other places beside other workers on the same directory: what it would begin next is leased first, and what others
//! have is left to them. When nothing else is left, it waits for them, so that what one of them leaves behind is done.

use super::Place;
use crate::agenda::{Schedule, Start};
use crate::error::Result;
use crate::journal::{Recorder, State};
use crate::run::Sweep;
use crate::run::drive::Writer;
use crate::run::gate::Gate;
use crate::run::lease::{BEAT, Leases};
use crate::run::seat::Seat;
use crate::run::writer::SessionWriter;
use crate::server::settle;
use std::future::pending;
use std::time::Duration;
use tokio::time::sleep;

/// The name of a comparison's lease: its starts are one worker's, since each depends on those before.
pub const COMPARISON: &str = "compare";

/// What a worker takes of an experiment.
#[derive(Debug)]
pub struct Share {
    /// Which groups others are at.
    pub leases: Leases,
    /// The only group that is wanted; all of them if there is none.
    pub group: Option<String>,
}

impl Share {
    /// Whether a group is wanted at all.
    pub fn wants(&self, group: &str) -> bool {
        self.group.as_ref().is_none_or(|only| only == group)
    }
}

/// What leases, command lines and scripts call a start: `<server>-<slot>`, or the whole comparison.
pub fn group_name(is_compared: bool, start: &Start) -> String {
    match is_compared {
        true => COMPARISON.to_owned(),
        false => format!("{}-{}", start.server.id, start.slot),
    }
}

/// A place of which only that is used which can be leased.
pub struct Leased<'a, P> {
    inner: P,
    share: &'a Share,
    schedule: Schedule<'a>,
    is_compared: bool,
    /// How long the guards of a killed worker may take to end its servers.
    patience: Duration,
}

impl<'a, P: Place> Leased<'a, P> {
    /// `inner` offers what is open, and the same again when it is asked again after it offered nothing.
    pub fn new(inner: P, sweep: &'a Sweep<'_>, share: &'a Share) -> Leased<'a, P> {
        Leased {
            inner,
            share,
            schedule: sweep.schedule(),
            is_compared: sweep.plan.compare.is_some(),
            patience: sweep.patience(),
        }
    }

    /// What a worker that was killed leaves is free at once; its servers hold their GPUs until their guards have ended them.
    async fn clear_away(&self, writer: &SessionWriter<'_>) -> Result<()> {
        let killed = writer.look(State::killed_sessions);
        let cleared = settle::clear_away(&killed, self.patience).await;
        cleared.describe().map_or(Ok(()), |note| Writer::note(writer, &note))
    }

    /// Whether others are at something that may yet come to this worker.
    fn is_left(&self, writer: &SessionWriter<'_>) -> bool {
        let is_open = |start: &Start| writer.look(|state| self.schedule.group(start, state).is_some());
        if self.is_compared {
            return writer.look(|state| !self.schedule.asked(state, &[]).is_empty());
        }
        let finals: Vec<Start> = writer.look(|state| self.schedule.finals(state).collect());
        let mut all = self.schedule.starts().chain(finals);
        all.any(|start| {
            let name = group_name(false, &start);
            self.share.wants(&name) && !self.share.leases.had(&name) && is_open(&start)
        })
    }
}

impl<P: Place> Place for Leased<'_, P> {
    async fn next(&self, under_way: &[Seat], writer: &SessionWriter<'_>) -> Result<Option<(Start, Seat)>> {
        loop {
            writer.with(Recorder::refresh)?;
            self.clear_away(writer).await?;
            if let Some((start, seat)) = self.inner.next(under_way, writer).await? {
                let name = group_name(self.is_compared, &start);
                let lease = match writer.look(|state| self.schedule.group(&start, state).is_some()) {
                    true => self.share.leases.take(&name)?,
                    false => None,
                };
                if lease.is_some() {
                    return Ok(Some((start, Seat { lease, ..seat })));
                }
                if !self.is_compared {
                    continue;
                }
            } else if !under_way.is_empty() {
                return pending().await;
            } else if writer.with(|recorder| recorder.is_superseded()) || !self.is_left(writer) {
                return Ok(None);
            }
            sleep(BEAT).await;
        }
    }

    fn gate(&self) -> &Gate {
        self.inner.gate()
    }
}
