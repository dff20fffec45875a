//! Finds measured runs in the plan's own experiment and in others in the same folder, and fits a twin to them. The twin is fitted again
//! only after the record has grown by half, or to four times its size while a sweep is at work.

use super::{Measurements, Twin};
use crate::journal::{self, Check, Directory, State};
use crate::plan::{self, Format, Plan, World};
use crate::rehearse::learn::has_result;
use crate::rehearse::{Budget, Limits, Options, Unknown};
use crate::sim::engine::cost::CostModel;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Once this many runs are known, no further experiment is read.
const ENOUGH: usize = 16;
/// Maximum number of other experiments that are considered, beginning with the one that changed last.
const MOST_EXPERIMENTS: usize = 20;
/// Largest size of the journals of another experiment that is read, in bytes.
const MOST_BYTES: u64 = 1 << 25;

/// Most tokens that a fit may play.
const MOST_TOKENS: u64 = 80_000_000;
/// Longest time that a fit may take.
const LONGEST: Duration = Duration::from_secs(10);

/// Factor by which the number of recorded runs must grow before a twin is fitted again.
const GROWTH: f64 = 1.5;
/// Like [`GROWTH`], while a sweep is at work.
const GROWTH_AT_WORK: f64 = 4.0;

/// The experiments from which a forecast may learn, and the twin that was fitted last.
#[derive(Debug, Default)]
pub struct TwinSource {
    own: Option<Directory>,
    fitted: Mutex<Option<TwinFit>>,
}

#[derive(Debug)]
struct TwinFit {
    /// Number of measured runs in the plan's own record when the twin was fitted.
    runs: usize,
    twin: Result<Option<Arc<Twin>>, Unknown>,
}

impl TwinSource {
    /// Returns the experiment in a directory, which need not exist, and its neighbours in the folder.
    pub fn at(own: Directory) -> TwinSource {
        TwinSource {
            own: Some(own),
            ..TwinSource::default()
        }
    }

    /// Returns the twin of servers like this one; `None` if no such server was measured. Fits it if the record has grown enough since the
    /// last fit.
    ///
    /// # Errors
    ///
    /// The fit fails, for example because it takes too much computing.
    pub fn twin(
        &self,
        record: &State,
        plan: &Plan,
        like: &CostModel,
        options: &Options,
    ) -> Result<Option<Arc<Twin>>, Unknown> {
        let Some(own) = self.own.as_ref() else {
            return Ok(None);
        };
        let runs = record.runs().filter(has_result).count();
        let growth = if options.at_work { GROWTH_AT_WORK } else { GROWTH };
        let mut fitted = self.fitted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = fitted.as_ref()
            && (runs as f64) < (growth * last.runs as f64).max(1.0)
        {
            return last.twin.clone();
        }
        let mut measured = Measurements::default();
        measured.gather((record, own), plan, like, options);
        for other in neighbours(own) {
            if measured.cases.len() >= ENOUGH {
                break;
            }
            gather_other(&mut measured, &other, like, options);
        }
        let budget = Budget::new(&Limits {
            tokens: Some(MOST_TOKENS),
            time: Some(LONGEST),
            is_cancelled: Arc::clone(&options.limits.is_cancelled),
        });
        let twin = match measured.cases.is_empty() {
            true => Ok(None),
            false => Twin::fitted(like, &measured, &budget).map(|twin| Some(Arc::new(twin))),
        };
        *fitted = Some(TwinFit {
            runs,
            twin: twin.clone(),
        });
        twin
    }
}

/// Returns the other experiments in the folder of an experiment, beginning with the one that changed last.
fn neighbours(own: &Directory) -> Vec<Directory> {
    let whole = std::path::absolute(own.root()).unwrap_or_default();
    let all = whole.parent().map(Directory::all_in).unwrap_or_default().into_iter();
    all.filter(|directory| directory.root() != whole)
        .take(MOST_EXPERIMENTS)
        .collect()
}

fn gather_other(into: &mut Measurements, directory: &Directory, like: &CostModel, options: &Options) {
    if !directory.is_experiment() || directory.journal_bytes() > MOST_BYTES {
        return;
    }
    let Ok(state) = journal::load(directory, Check::Lengths) else {
        return;
    };
    let Some((_, _, text)) = state.plan_that_counts() else {
        return;
    };
    // A plan that depends on the environment of its time cannot be read again, so its runs are left out.
    if let Ok(plan) = plan::parse(text, Format::of_text(text), Path::new("plan"), &World::empty()) {
        into.gather((&state, directory), &plan, like, options);
    }
}
