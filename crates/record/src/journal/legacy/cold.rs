//! Which runs of vsweep 1.x were made on a cold server: it warmed nothing up unless the plan said so, and the first run of a load
//! on a start of its server then is slower than those after it.

use crate::journal::directory::Directory;
use crate::journal::event::RunStarted;
use std::collections::HashSet;
use vsweep_plan::ids::{PointId, ServerId};
use vsweep_plan::matrix::is_unwarmed;
use vsweep_plan::plan::{self, BenchRunner, Warmup};
use vsweep_plan::validity::{Code, Doubt};

/// What was measured on which start, as far as it was read.
pub(super) struct Cold {
    /// Whether the plan in the directory lets our load generator measure without a warm-up.
    is_planned: bool,
    seen: HashSet<(ServerId, u32, PointId)>,
}

impl Cold {
    pub(super) fn of(directory: &Directory) -> Cold {
        let plans = [false, true].map(|json| directory.plan(json));
        let plan = plans.iter().find_map(|path| plan::draft(path, &[]).ok());
        let bench = plan.map(|draft| draft.plan.bench);
        // Without a word in the plan, 1.x did not warm up.
        let is_planned = bench.is_some_and(|bench| {
            bench.runner == BenchRunner::Native && matches!(bench.warmup, Warmup::Automatic | Warmup::Requests(0))
        });
        Cold {
            is_planned,
            seen: HashSet::new(),
        }
    }

    /// Whether a run is the first one of its point on a start and nothing went before it. What another program does before
    /// it measures is not known.
    pub(super) fn is_first(&mut self, run: &RunStarted) -> bool {
        // An edited plan says nothing of earlier points, but their identity does where no dataset is part of it.
        let is_unwarmed = self.is_planned || is_unwarmed(&run.point, &run.server, &run.params);
        let key = (run.server.clone(), run.launch, run.point.clone());
        run.launch > 0 && is_unwarmed && self.seen.insert(key)
    }

    pub(super) fn doubt() -> Doubt {
        Doubt::new(
            Code::ColdServer,
            "the first run of this load on this start of the server, by a vsweep that did not warm up",
        )
    }
}
