//! Where a comparison stands: a fold over the starts that have all their results. Nothing but the journal decides which start comes
//! next, so one that was interrupted goes on as it would have.

use super::compared::{Asked, Compared, Entrant};
use super::state::{RunRecord, State};
use vsweep_plan::cause::Outcome as RunOutcome;
use vsweep_plan::ids::ServerId;
use vsweep_plan::validity::Validity;
use vsweep_strategy::selection::{
    Arm, Ask, Axis, Bisected, Ending, Located, Outcome, Paired, Placement, Probe, Seen, Settings, Told,
};
use vsweep_strategy::stats::Start;

/// How far a comparison is.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A start is to be measured next.
    Start {
        /// Of which entrant, by its place.
        entrant: usize,
        /// Which of its starts.
        slot: u32,
    },
    /// It has ended.
    Ended(Conclusion),
}

/// What a comparison has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// What was found.
    pub found: Found,
    /// Starts used, failed ones included.
    pub starts: usize,
    /// Whether it ended because its time is spent.
    pub is_out_of_time: bool,
}

/// What two arms or an axis have shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// Of two arms.
    Pairs(Outcome),
    /// Of an axis; without a place where the time was spent before the ends were compared.
    Axis(Option<Located>),
}

/// The two kinds.
enum Selection {
    Pairs(Paired),
    Axis(Bisected),
}

impl Compared {
    /// Where it stands. A failed start of which `retries` holds is to be measured again.
    pub fn progress(&self, state: &State, retries: &dyn Fn(&ServerId, u32) -> bool) -> Progress {
        let mut selection = self.selection();
        let mut slots = vec![0; self.entrants.len()];
        let (mut starts, mut seconds) = (0, 0.0);
        loop {
            let entrant = match selection.ask() {
                Ok(entrant) => entrant,
                Err(found) => {
                    return Progress::Ended(Conclusion {
                        found,
                        starts,
                        is_out_of_time: false,
                    });
                }
            };
            let slot = slots[entrant];
            let Some(told) = self.told(entrant, slot, state, retries) else {
                return match self.max_seconds.is_some_and(|most| seconds >= most) {
                    true => Progress::Ended(Conclusion {
                        found: selection.found_so_far(starts),
                        starts,
                        is_out_of_time: true,
                    }),
                    false => Progress::Start { entrant, slot },
                };
            };
            seconds += self.seconds(entrant, slot, state);
            selection.tell(entrant, told);
            slots[entrant] += 1;
            starts += 1;
        }
    }

    fn selection(&self) -> Selection {
        let family = self.family.iter().map(|asked| asked.member).collect();
        match self.is_axis() {
            true => Selection::Axis(Bisected::new(Axis {
                entries: self.entrants.len(),
                max_starts: self.max_starts,
            })),
            false => {
                let settings = Settings {
                    max_starts: self.max_starts,
                    placement: Placement::InTurn,
                    ..Settings::new(family)
                };
                Selection::Pairs(Paired::new(settings))
            }
        }
    }

    /// What a start showed, once it has all its results: for each member the mean logarithm of its runs.
    fn told(
        &self,
        entrant: usize,
        slot: u32,
        state: &State,
        retries: &dyn Fn(&ServerId, u32) -> bool,
    ) -> Option<Vec<Option<f64>>> {
        let Entrant { server, points, .. } = &self.entrants[entrant];
        let has_failed = |outcome| outcome == RunOutcome::Failed;
        for point in points {
            for run in 0..self.runs {
                let outcome = state.outcome(point, slot, run)?;
                if has_failed(outcome) && retries(server, slot) {
                    return None;
                }
            }
        }
        let log = |asked: &Asked| {
            let runs = (0..self.runs).filter_map(|run| state.run(&points[asked.load], slot, run));
            let is_measured = |run: &&RunRecord| {
                matches!(run.outcome, RunOutcome::Ok | RunOutcome::Suspect) && run.validity != Validity::Invalid
            };
            let values = runs
                .filter(is_measured)
                .filter_map(|run| run.figures.get(&asked.metric).copied());
            Some(Start::of(&values.collect::<Vec<f64>>())?.mean())
        };
        Some(self.family.iter().map(log).collect())
    }

    /// The time that a start took until it was ready, and its runs.
    fn seconds(&self, entrant: usize, slot: u32, state: &State) -> f64 {
        let Entrant { server, points, .. } = &self.entrants[entrant];
        let starts = state.servers.get(server).into_iter().flat_map(|record| &record.starts);
        let ready = starts
            .filter(|start| start.slot == slot)
            .filter_map(|start| start.ready_seconds);
        let runs = points
            .iter()
            .flat_map(|point| (0..self.runs).map(move |run| (point, run)));
        let runs = runs
            .filter_map(|(point, run)| state.run(point, slot, run))
            .map(|run| run.seconds);
        ready.chain(runs).sum()
    }
}

impl Selection {
    /// What is known where no further start may begin.
    fn found_so_far(self, starts: usize) -> Found {
        match self {
            Selection::Pairs(paired) => Found::Pairs(Outcome {
                findings: paired.findings(),
                ending: Ending::Spent,
                starts,
            }),
            Selection::Axis(bisected) => Found::Axis(bisected.stopped()),
        }
    }

    /// The entrant to start next, or what was found.
    fn ask(&self) -> Result<usize, Found> {
        match self {
            Selection::Pairs(paired) => match paired.ask(&[]) {
                Ask::Start(slot) => Ok(usize::from(slot.arm == Arm::New)),
                Ask::Done(outcome) => Err(Found::Pairs(outcome)),
                Ask::Wait => unreachable!("nothing is pending"),
            },
            Selection::Axis(bisected) => match bisected.ask() {
                Probe::Start(entry) => Ok(entry),
                Probe::Done(located) => Err(Found::Axis(Some(located))),
            },
        }
    }

    /// Takes in what a start of the entrant that was asked for showed.
    fn tell(&mut self, entrant: usize, logs: Vec<Option<f64>>) {
        let has_failed = logs.iter().all(Option::is_none);
        match self {
            Selection::Pairs(paired) => {
                let Ask::Start(slot) = paired.ask(&[]) else {
                    unreachable!("only what was asked for is told");
                };
                let told = if has_failed { Told::Failed } else { Told::Measured(logs) };
                paired.tell(slot, told);
            }
            Selection::Axis(bisected) => {
                let log = logs.into_iter().next().flatten();
                bisected.tell(entrant, log.map_or(Seen::Failed, Seen::Measured));
            }
        }
    }
}
