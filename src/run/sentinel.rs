//! The sentinel: the same point of the same server, measured on each node before its first server start. How far its figures scatter
//! is what the nodes alone make of a measurement. The report says so; nothing here judges.

use super::place::ThisHost;
use super::writer::SessionWriter;
use super::{Interrupt, Sweep, Writer};
use crate::agenda::{Ending, Start};
use crate::error::Result;
use crate::journal::Recorder;
use std::iter;

impl Sweep<'_> {
    /// Measures what the plan's sentinel lacks on this node. Another worker that is at it here spares this one.
    pub(super) async fn work_on_sentinel(
        &self,
        node: &str,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Ending> {
        let schedule = self.schedule();
        writer.with(Recorder::refresh)?;
        // Its point is that of this node alone.
        let is_open = |start: &Start| writer.look(|state| schedule.group(start, state).is_some());
        let Some(start) = schedule.sentinel(node).filter(is_open) else {
            return Ok(Ending::Finished);
        };
        // Held until the sentinel is measured.
        let lease = match (self.share, &start.sentinel) {
            (Some(share), Some(point)) => match share.leases.take(&format!("sentinel-{}", point.id))? {
                None => return Ok(Ending::Finished),
                lease => lease,
            },
            _ => None,
        };
        writer.note(&format!(
            "the sentinel comes first, since {node} has not measured it yet"
        ))?;
        let place = ThisHost::now(self, None, None, Box::new(iter::once(vec![start]))).await;
        let ending = self.work_at(&place, writer, interrupt).await;
        drop(lease);
        ending
    }
}
