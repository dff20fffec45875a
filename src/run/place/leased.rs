//! A place beside other workers on the same directory: what would begin next is leased first, and what others have is left to them.

use super::Place;
use crate::agenda::Start;
use crate::error::Result;
use crate::journal::Recorder;
use crate::run::gate::Gate;
use crate::run::lease::{BEAT, Leases};
use crate::run::node::Seat;
use crate::run::writer::SessionWriter;
use crate::run::{Sweep, Writer};
use std::future::pending;
use std::rc::Rc;
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
    /// Whether a start is wanted, and this session neither has nor had it.
    pub(in crate::run) fn wants(&self, start: &Start) -> bool {
        let name = group_name(false, start);
        self.group.as_ref().is_none_or(|only| *only == name) && !self.leases.had(&name)
    }
}

/// What leases, command lines and scripts call a start: `<server>-<slot>`, or the whole comparison.
pub fn group_name(is_compared: bool, start: &Start) -> String {
    match is_compared {
        true => COMPARISON.to_owned(),
        false => format!("{}-{}", start.server.id, start.slot),
    }
}

/// Another place, of which only what can be leased is taken.
pub struct Leased<'a, P> {
    pub sweep: &'a Sweep<'a>,
    /// It offers what is open, and the same again when it is asked again after it offered nothing.
    pub host: P,
    pub share: &'a Share,
}

impl<P> Leased<'_, P> {
    /// Whether others are at something that may yet come to this worker.
    fn is_left(&self, writer: &SessionWriter<'_>) -> bool {
        let schedule = self.sweep.schedule();
        if self.sweep.plan.compare.is_some() {
            return writer.look(|state| !schedule.asked(state, &[]).is_empty());
        }
        let finals: Vec<Start> = writer.look(|state| schedule.finals(state).collect());
        let mut all = schedule.starts().chain(finals);
        all.any(|start| self.share.wants(&start) && writer.look(|state| schedule.group(&start, state).is_some()))
    }
}

impl<P: Place> Place for Leased<'_, P> {
    async fn next(&self, under_way: &[Rc<Seat>], writer: &SessionWriter<'_>) -> Result<Option<(Start, Seat)>> {
        let schedule = self.sweep.schedule();
        let is_compared = self.sweep.plan.compare.is_some();
        loop {
            writer.with(Recorder::refresh)?;
            // What a worker that was killed leaves is free at once; its servers hold their GPUs until their guards have ended them.
            self.sweep.clear_away(self.sweep.patience(), writer).await?;
            if let Some((start, seat)) = self.host.next(under_way, writer).await? {
                let lease = match writer.look(|state| schedule.group(&start, state).is_some()) {
                    true => self.share.leases.take(&group_name(is_compared, &start))?,
                    false => None,
                };
                if lease.is_some() {
                    return Ok(Some((start, Seat { lease, ..seat })));
                }
                if !is_compared {
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
        self.host.gate()
    }
}
