//! One exploration in virtual time, with the questions of the real one.

use super::{Outcomes, Rehearsed, judge};
use crate::matrix::LoadExploration;
use crate::rehearse::Unknown;
use crate::run::figures;
use crate::search::{Exploration, Level};

impl Rehearsed<'_> {
    pub(super) fn explore(&mut self, planned: &LoadExploration) -> Result<(), Unknown> {
        let mut exploration = Exploration::new(planned.settings.clone());
        self.state.levels(&planned.id).for_each(|level| exploration.tell(level));
        let mut run = 0;
        while let Some(load) = exploration.ask() {
            let point = self.company.matrix.point_at(planned, &load);
            self.ensure_up();
            let Some(played) = self.play(&point, run, None)? else {
                return Ok(());
            };
            run += 1;
            let seconds = self.limited(&point, played.seconds);
            self.note(&point, seconds, &played);
            let figures = match judge(played.measurement) {
                Outcomes::Measured(measurement) => figures(&load, &measurement),
                Outcomes::Failed(failure) => {
                    self.lose(&point, failure);
                    None
                }
            };
            exploration.tell(&Level { load, figures });
        }
        Ok(())
    }
}
