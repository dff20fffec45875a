//! What ran beside a run on the same machine, for whoever doubts its figures: other servers of the sweep, and which of them were
//! starting, which costs the host most. Runs are repeated alone and beside others; what that says is judged by the record.

use super::Live;
use super::measure::Purpose;
use crate::agenda::{ActionOutcome, Ran, Run};
use crate::error::Result;
use crate::journal::{Nonce, StartRecord};
use crate::plan::{Parallel, Params};
use crate::run::drive::Writer;
use crate::run::floor::{Doing, Leave};
use crate::server::claim::Presence;
use crate::validity::Validity;
use jiff::{SignedDuration, Timestamp};

/// Latencies, the first of which a result has is compared.
const LATENCIES: [&str; 4] = ["mean_e2el_ms", "mean_tpot_ms", "mean_itl_ms", "mean_ttft_ms"];

impl Live<'_, '_> {
    /// Lets other sessions know that a server is up here.
    pub(super) fn show_presence(&mut self) {
        self.presence = Presence::of(&self.session(), &self.config.id.0);
    }

    /// Servers of other sessions that are up on this machine.
    pub(super) fn others_up(&self) -> usize {
        Presence::of_others(&self.session())
    }

    fn session(&self) -> String {
        self.writer.with(|recorder| recorder.nonce()).to_string()
    }

    /// Measures a run once more, alone or beside others, and keeps nothing of it but its latency.
    pub(super) async fn check(&mut self, run: &Run, is_alone: bool) -> Result<ActionOutcome> {
        let doing = if is_alone { Doing::Alone } else { Doing::Beside };
        let Some(leave) = self.enter(doing).await else {
            return Ok(ActionOutcome::Needless);
        };
        // Other sessions do not wait for a run that is to be alone, and are no part of what servers of this one do to each other.
        if self.others_up() > 0 {
            return Ok(ActionOutcome::Needless);
        }
        if is_alone && self.writer.look(|state| !state.interference().servers.is_open()) {
            return Ok(ActionOutcome::Needless);
        }
        let measured = self.measure(run, Purpose::Check).await?;
        Ok(match measured {
            ActionOutcome::Ran { .. } if self.others_up() > 0 => ActionOutcome::Needless,
            ActionOutcome::Ran { result, seconds } => ActionOutcome::Checked {
                latency_ms: result.ok().and_then(|ran| latency(&ran)),
                beside: leave.beside(),
                seconds,
            },
            other => other,
        })
    }

    /// Adds to a run what went on beside it.
    pub(super) fn note_company(&self, outcome: &mut ActionOutcome, leave: Option<Leave<'_>>) {
        let leave = leave.filter(|_| self.plan.exec.parallel != Parallel::No);
        if let (ActionOutcome::Ran { result: Ok(ran), .. }, Some(leave)) = (outcome, leave) {
            ran.beside = Some(leave.beside());
        }
    }

    /// How many other servers of this session were up, and how many starting, at any time since then; nothing where servers run one
    /// after the other.
    pub(super) fn beside(&self, since: &str) -> Params {
        let Some(since) = since
            .parse::<Timestamp>()
            .ok()
            .filter(|_| self.plan.exec.parallel != Parallel::No)
        else {
            return Params::new();
        };
        let session = self.writer.with(|recorder| recorder.nonce());
        let (servers, starts) = self.writer.look(|state| {
            let others = state.servers.iter().filter(|(id, _)| **id != self.config.id);
            let starts = others.flat_map(|(_, server)| &server.starts);
            let beside: Vec<&StartRecord> = starts.filter(|start| is_beside(start, session, since)).collect();
            let starting = beside.iter().filter(|start| was_starting(start, since));
            (beside.len(), starting.count())
        });
        [("servers_beside", servers), ("starts_beside", starts)]
            .map(|(name, count)| (name.to_owned(), count.into()))
            .into_iter()
            .collect()
    }
}

/// That of a run whose figures mean something.
fn latency(ran: &Ran) -> Option<f64> {
    let validity = Validity::of(ran.doubts.iter().map(|doubt| doubt.code));
    let values = &ran.measured.as_ref()?.result.values;
    let latency = LATENCIES.iter().find_map(|name| values.get(*name)?.as_f64())?;
    (ran.failure.is_none() && validity != Validity::Invalid && latency.is_finite()).then_some(latency)
}

fn is_beside(start: &StartRecord, session: Nonce, since: Timestamp) -> bool {
    let ended = start.exited_at.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
    start.launch.session == session && ended.is_none_or(|ended| ended >= since)
}

/// One that never got ready was starting until its end.
fn was_starting(start: &StartRecord, since: Timestamp) -> bool {
    let took = start
        .ready_seconds()
        .and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
    let launched = start.started_at.parse::<Timestamp>().ok();
    let ready = launched
        .zip(took)
        .and_then(|(launched, took)| launched.checked_add(took).ok());
    ready.is_none_or(|ready| ready >= since)
}
