//! Sharing an experiment between sessions: a plan that is recorded for them, and starts that they divide by leases.

use super::lease::Leases;
use super::writer::SessionWriter;
use super::{Changes, Sweep, Update, Writer, facts};
use crate::agenda::Start;
use crate::error::Result;
use crate::journal::{Event, FIRST_SLOT, Recorder, State};
use crate::matrix::ServerConfig;
use crate::plan::Plan;
use std::iter;

/// End of a session that only recorded a plan.
const SUBMITTED: &str = "submitted";
/// The name of the lease of a plan that chooses its starts by their results, as a comparison or an optimisation does: all of them are one
/// worker's, since each depends on those before.
pub fn chosen_group(plan: &Plan) -> Option<&'static str> {
    match (&plan.compare, &plan.optimize) {
        (Some(_), _) => Some("compare"),
        (None, Some(_)) => Some("optimize"),
        (None, None) => None,
    }
}

/// The part of an experiment that a worker takes.
#[derive(Debug)]
pub struct Share {
    /// Leases of the groups.
    pub leases: Leases,
    /// The only group that is wanted; all of them if there is none.
    pub group: Option<String>,
}

impl Share {
    /// Returns true if a group is wanted, and this session neither has nor had it.
    fn wants(&self, group: &str) -> bool {
        self.group.as_ref().is_none_or(|only| only == group) && !self.leases.had(group)
    }
}

/// Name of a start in leases, command lines and scripts: `<server>-<slot>`, or one name for all starts that the plan chooses.
pub fn group_name(plan: &Plan, start: &Start) -> String {
    match chosen_group(plan) {
        Some(name) => name.to_owned(),
        None => format!("{}-{}", start.server.id, start.slot),
    }
}

impl Sweep<'_> {
    /// Records the plan for workers to come, unless it is the one that counts already. Nothing is started.
    pub async fn declare(&self, changes: Changes, recorder: &mut Recorder) -> Result<()> {
        if recorder.state().sessions().is_empty() || changes.is_any() || !recorder.gaps().is_empty() {
            facts::collect(self.plan).await.write(recorder.directory())?;
            let mut nobody = |_: Update<'_>, _: &Recorder| Ok(());
            let writer = SessionWriter::new(recorder, &mut nobody);
            self.begin(changes, None, &writer).await?;
            let reason = SUBMITTED.into();
            writer.record(Event::SessionEnded { reason }).await?;
        }
        Ok(())
    }

    /// The groups that are left, as leases and command lines call them, with the server of each; of a plan that chooses its starts it is one, with all.
    pub fn left(&self, state: &State) -> Vec<(String, Vec<ServerConfig>)> {
        let schedule = self.schedule();
        if let Some(name) = chosen_group(self.plan) {
            let all = || (name.to_owned(), self.wanted.servers().collect());
            let is_open = schedule.has_work(state);
            return is_open.then(all).into_iter().collect();
        }
        let open = schedule
            .foreseen(state)
            .filter(|start| schedule.has_group(start, state));
        open.map(|start| (group_name(self.plan, &start), vec![start.server]))
            .collect()
    }

    /// Returns true if other workers hold groups that may still come to this worker.
    pub(super) fn is_left_to(&self, share: &Share, state: &State) -> bool {
        self.left(state).iter().any(|(group, _)| share.wants(group))
    }

    /// The planned starts and the fresh ones of the finalists, of which other workers take what they can: what is open is offered again
    /// and again. Nothing comes once after each time that all were offered.
    pub(super) fn offers(&self, share: &Share, writer: &SessionWriter<'_>) -> impl Iterator<Item = Vec<Start>> {
        let schedule = self.schedule();
        let is_open = move |start: &Start| {
            share.wants(&group_name(self.plan, start)) && writer.look(|state| schedule.has_group(start, state))
        };
        let finals = self.wanted.starts();
        let mut slots = (FIRST_SLOT..=finals).map(Some).chain([None]).cycle();
        iter::from_fn(move || {
            loop {
                let starts: Vec<Start> = match slots.next()?? {
                    slot if slot == finals => self.finals(writer),
                    slot => schedule.starts_at(slot).collect(),
                };
                let open: Vec<Start> = starts.into_iter().filter(is_open).collect();
                if !open.is_empty() {
                    return Some(open);
                }
            }
        })
    }
}
