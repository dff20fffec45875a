//! What several sessions share: a plan that is recorded for them, and starts of which each takes what the others leave.

use super::place::{COMPARISON, Leased, Packed, Share, ThisHost, group_name};
use super::writer::SessionWriter;
use super::{Changes, Interrupt, Sweep, Update, facts, record};
use crate::agenda::{Ending, Start};
use crate::error::Result;
use crate::journal::{Event, FIRST_SLOT, Recorder, State};
use crate::matrix::ServerConfig;
use crate::run::drive::Writer;
use std::iter;

/// How a session ends that only recorded a plan.
const SUBMITTED: &str = "submitted";

impl Sweep<'_> {
    /// Records the plan for workers to come, unless it is the one that counts already. Nothing is started.
    pub async fn declare(&self, changes: Changes, recorder: &mut Recorder) -> Result<()> {
        if recorder.state().sessions().is_empty() || changes.is_any() || !recorder.gaps().is_empty() {
            facts::collect(self.plan).await.write(recorder.directory())?;
            let mut nobody = |_: Update<'_>, _: &Recorder| Ok(());
            self.begin(changes, None, recorder, &mut nobody)?;
            let reason = SUBMITTED.into();
            record(recorder, &mut nobody, Event::SessionEnded { reason })?;
        }
        Ok(())
    }

    /// The groups that are left, as leases and command lines call them, with the server of each; of a comparison it is one, with all.
    pub fn left(&self, state: &State) -> Vec<(String, Vec<ServerConfig>)> {
        let schedule = self.schedule();
        if self.plan.compare.is_some() {
            let all = || (COMPARISON.to_owned(), self.wanted.servers().collect());
            let is_open = !schedule.asked(state, &[]).is_empty();
            return is_open.then(all).into_iter().collect();
        }
        let open = schedule
            .foreseen(state)
            .filter(|start| schedule.group(start, state).is_some());
        open.map(|start| (group_name(false, &start), vec![start.server]))
            .collect()
    }

    /// The same, of which other workers take what they can: what is open is offered again and again.
    pub(super) async fn work_beside_others(
        &self,
        share: &Share,
        asked: impl Iterator<Item = Vec<Start>>,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Ending> {
        let schedule = self.schedule();
        if self.plan.compare.is_some() {
            let Some(node) = self.node else {
                let place = Leased::new(ThisHost::now(asked.flatten()).await, self, share);
                return self.work_at(&place, writer, interrupt).await;
            };
            let needs = |starts: Vec<Start>| writer.look(|state| self.needs(node, starts.into_iter(), state));
            let place = Packed::now(node, self.plan, self.sets(node), asked.map(needs)).await;
            let place = Leased::new(place, self, share);
            return self.work_at(&place, writer, interrupt).await;
        }
        let is_open = |start: &Start| {
            let name = group_name(false, start);
            let is_ours = share.wants(&name) && !share.leases.had(&name);
            is_ours && writer.look(|state| schedule.group(start, state).is_some())
        };
        let last = self.wanted.starts();
        let mut slot = FIRST_SLOT;
        // Nothing comes once after each time that all were offered.
        let mut rounds = iter::from_fn(move || {
            while slot <= last {
                let starts = match slot < last {
                    true => schedule.starts_at(slot).collect(),
                    false => self.finals(writer),
                };
                slot += 1;
                let open: Vec<Start> = starts.into_iter().filter(is_open).collect();
                if !open.is_empty() {
                    return Some(open);
                }
            }
            slot = FIRST_SLOT;
            None
        });
        match self.node {
            None => {
                let mut round = Vec::new().into_iter();
                let starts = iter::from_fn(move || {
                    loop {
                        if let Some(start) = round.next() {
                            return Some(start);
                        }
                        round = rounds.next()?.into_iter();
                    }
                });
                let place = Leased::new(ThisHost::now(starts).await, self, share);
                self.work_at(&place, writer, interrupt).await
            }
            Some(node) => {
                let needs = |starts: Vec<Start>| writer.look(|state| self.needs(node, starts.into_iter(), state));
                let place = Packed::now(node, self.plan, self.sets(node), rounds.map(needs)).await;
                let place = Leased::new(place, self, share);
                self.work_at(&place, writer, interrupt).await
            }
        }
    }
}
