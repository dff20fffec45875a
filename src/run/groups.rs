//! Runs the groups concurrently, until the scheduler has no further start or the sweep must end.

use super::drive::SignalSource;
use super::lease::Lease;
use super::live::Live;
use super::node::Allocation;
use super::scheduler::Scheduler;
use super::writer::SessionWriter;
use super::{Interrupt, Sweep, Writer, drive};
use crate::agenda::{Agenda, Ending, Hint, Hints, Signal, Start, first_point};
use crate::bench;
use crate::error::Result;
use crate::journal::Recorder;
use crate::matrix::LoadSearch;
use crate::plan::BenchRunner;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::pending;
use std::rc::Rc;
use tokio::sync::watch;

impl Sweep<'_> {
    pub(super) async fn run_groups(
        &self,
        scheduler: &Scheduler<'_>,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Ending> {
        let (end, ends) = watch::channel(false);
        let mut allocations: Vec<Rc<Allocation>> = Vec::new();
        let mut under_way = FuturesUnordered::new();
        // Nothing new begins once there is an ending.
        let mut ending: Option<Result<Ending>> = None;
        loop {
            let ended = tokio::select! {
                biased;
                Some((allocation, ended)) = under_way.next() => {
                    allocations.retain(|other| !Rc::ptr_eq(other, &allocation));
                    ended
                }
                next = scheduler.next(&allocations, writer), if ending.is_none() => match next {
                    Ok(Some((start, allocation))) => {
                        let allocation = Rc::new(allocation);
                        allocations.push(Rc::clone(&allocation));
                        let signals = GroupSignals {
                            interrupt: interrupt.clone(),
                            ends: ends.clone(),
                            lease: allocation.lease.clone(),
                            is_draining: false,
                        };
                        under_way.push(async {
                            let ended = self.perform_group(start, &allocation, scheduler, writer, signals).await;
                            // Another worker continues the lost work.
                            let is_lost = allocation.lease.as_ref().is_some_and(|lease| lease.is_lost());
                            let ended = ended.map(|ending| match ending {
                                Ending::Interrupted if is_lost => Ending::Finished,
                                ending => ending,
                            });
                            (allocation, ended)
                        });
                        continue;
                    }
                    Ok(None) => {
                        ending = Some(Ok(Ending::Finished));
                        continue;
                    }
                    Err(error) => Err(error),
                },
                () = interrupt.requested(), if allocations.is_empty() && ending.is_none() => Ok(Ending::Interrupted),
                else => {
                    let ending = ending.expect("the last group has ended")?;
                    // The user's request to end counts more than an ending by the plan.
                    return Ok(if interrupt.is_requested() && ending != Ending::Finished { Ending::Interrupted } else { ending });
                }
            };
            // Other groups of a sweep that must end finish their current run.
            end.send_replace(!matches!(ended, Ok(Ending::Finished | Ending::Superseded)) || *end.borrow());
            // An earlier ending stays, unless everything was finished until then, or an error follows.
            ending = match (ending, ended) {
                (before, Ok(Ending::Finished)) | (before @ Some(Err(_)), _) => before,
                (None | Some(Ok(Ending::Finished)), ended) | (_, ended @ Err(_)) => Some(ended),
                (before, _) => before,
            };
        }
    }

    /// Works on a start of a server, and again whenever its results were retired because a changed server answers at the URL.
    async fn perform_group(
        &self,
        start: Start,
        allocation: &Allocation,
        scheduler: &Scheduler<'_>,
        writer: &SessionWriter<'_>,
        mut signals: GroupSignals,
    ) -> Result<Ending> {
        if self.share.is_some() {
            // The worker that had this group may just have been killed: its lease is free at once, but its server may not have ended yet.
            tokio::select! {
                cleared = self.clear_away(self.patience(), writer) => cleared?,
                () = signals.interrupt.requested() => {}
            }
        }
        let retired = || writer.with(|recorder| recorder.state().retired_by(&start.server.id, recorder.nonce()));
        loop {
            writer.with(Recorder::refresh)?;
            if writer.with(|recorder| recorder.is_superseded()) {
                return Ok(Ending::Superseded);
            }
            let Some(group) = writer.look(|state| self.schedule().group(&start, state)) else {
                return Ok(Ending::Finished);
            };
            let before = retired();
            // Each agenda gets every signal so far.
            let mut signals = signals.clone();
            let hints = group.searches.iter();
            let hints: Hints = hints.map(|search| (search.id.clone(), self.hint(search))).collect();
            let mut stage = Live::new(self.plan, group.server.clone(), allocation, scheduler, writer);
            let agenda = writer.look(|state| Agenda::new(self.schedule(), group, hints, state));
            let mut agenda = agenda.on(allocation.gpus.clone());
            let ending = drive(&mut agenda, &mut stage, writer, &mut signals).await;
            stage.clear(&mut signals.interrupt).await;
            let ending = ending?;
            if ending != Ending::Finished || retired() == before {
                return Ok(ending);
            }
        }
    }

    /// Returns the forecast of a search, and the mean lengths of its requests, as far as they are known.
    fn hint(&self, search: &LoadSearch) -> Hint {
        let point = first_point(self.wanted, search);
        let params = match (&self.plan.bench.runner, &point.argv) {
            (BenchRunner::Native, _) => Some(point.params),
            (BenchRunner::Command(_), Some(argv)) => bench::params_of(argv),
            _ => None,
        };
        Hint {
            forecast: self.forecasts.get(&search.id).cloned(),
            lengths: params.and_then(|params| bench::native::mean_lengths(&params)),
        }
    }
}

/// Signals for one group: those of the user, the end of the sweep because of another group, and the loss of the group to another worker.
#[derive(Clone)]
struct GroupSignals {
    /// Signals of the user.
    interrupt: Interrupt,
    /// True once the sweep must end.
    ends: watch::Receiver<bool>,
    /// The lease that another worker may take over.
    lease: Option<Rc<Lease>>,
    /// True if the group was already asked to end.
    is_draining: bool,
}

impl SignalSource for GroupSignals {
    async fn next(&mut self) -> Signal {
        let lost = async {
            match &self.lease {
                Some(lease) => lease.lost().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            signal = self.interrupt.next() => return signal,
            // If the sender is gone, the pattern does not match and the branch is disabled.
            Ok(_) = self.ends.wait_for(|ends| *ends), if !self.is_draining => {}
            () = lost, if !self.is_draining => {}
        }
        self.is_draining = true;
        Signal::Drain
    }
}
