//! Where measured runs are found: the plan's own experiment, and others in the same folder. A twin is fitted once and again when the record
//! has grown by half.

use super::{Measurements, Twin};
use crate::files;
use crate::journal::{self, Check, Directory, State};
use crate::plan::{self, Format, Plan, World};
use crate::rehearse::learn::is_good;
use crate::rehearse::{Budget, Limits, Options};
use crate::sim::engine::cost::CostModel;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Others are read until this many runs are known.
const ENOUGH: usize = 16;
/// Experiments that are looked at, the ones changed last, and the bytes of their journals.
const MOST_EXPERIMENTS: usize = 20;
const MOST_BYTES: u64 = 1 << 25;

/// Computation that a fit may take.
const MOST_TOKENS: u64 = 80_000_000;
const LONGEST: Duration = Duration::from_secs(10);

/// Growth of the record after which a twin is fitted again, as a factor; while a sweep goes on, fits are rarer.
const GROWTH: f64 = 1.5;
const GROWTH_AT_WORK: f64 = 4.0;

/// The experiments that a forecast may learn from.
#[derive(Debug, Default)]
pub struct Known {
    own: Option<Directory>,
    fitted: Mutex<Option<Fitted>>,
}

#[derive(Debug)]
struct Fitted {
    /// Runs of the plan's own record at that time.
    runs: usize,
    twin: Option<Arc<Twin>>,
}

impl Known {
    /// The experiment in a directory, which need not exist, and its neighbours in the folder.
    pub fn at(own: Directory) -> Known {
        Known {
            own: Some(own),
            ..Known::default()
        }
    }

    /// The twin of servers like this one, by what is recorded now.
    pub fn twin(&self, record: &State, plan: &Plan, like: &CostModel, options: &Options) -> Option<Arc<Twin>> {
        let own = self.own.as_ref()?;
        let runs = record.runs().filter(is_good).count();
        let growth = if options.at_work { GROWTH_AT_WORK } else { GROWTH };
        let mut fitted = self.fitted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = fitted.as_ref()
            && (runs as f64) < (growth * last.runs as f64).max(1.0)
        {
            return last.twin.clone();
        }
        let mut measured = Measurements::default();
        measured.gather((record, own), plan, like, options);
        for root in neighbours(own) {
            if measured.cases.len() >= ENOUGH {
                break;
            }
            gather_other(&mut measured, &root, like, options);
        }
        let budget = Budget::new(&Limits {
            tokens: Some(MOST_TOKENS),
            time: Some(LONGEST),
            is_cancelled: Arc::clone(&options.limits.is_cancelled),
        });
        let twin = match measured.cases.is_empty() {
            true => None,
            false => Twin::fitted(like, &measured, &budget).ok().map(Arc::new),
        };
        *fitted = Some(Fitted {
            runs,
            twin: twin.clone(),
        });
        twin
    }
}

/// Other experiments in the folder of one, the ones changed last first. Folders of other users are left out.
fn neighbours(own: &Directory) -> Vec<PathBuf> {
    let whole = std::path::absolute(own.root()).unwrap_or_default();
    let entries = whole.parent().and_then(|folder| fs::read_dir(folder).ok());
    let roots = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let is_trusted =
        |root: &Path| fs::symlink_metadata(root).is_ok_and(|found| found.is_dir() && files::is_trusted(&found));
    let mut found: Vec<_> = roots
        .filter(|root| *root != whole && is_trusted(root))
        .filter_map(|root| {
            let manifest = fs::metadata(Directory::at(&root).manifest()).ok()?;
            Some((manifest.modified().ok()?, root))
        })
        .collect();
    found.sort();
    found
        .into_iter()
        .rev()
        .take(MOST_EXPERIMENTS)
        .map(|(_, root)| root)
        .collect()
}

fn gather_other(into: &mut Measurements, root: &Path, like: &CostModel, options: &Options) {
    let directory = Directory::at(root);
    let journals = directory.journals().unwrap_or_default();
    let bytes = journals
        .iter()
        .filter_map(|journal| Some(fs::metadata(journal).ok()?.len()));
    if !directory.is_experiment() || bytes.sum::<u64>() > MOST_BYTES {
        return;
    }
    let Ok(state) = journal::load(&directory, Check::Lengths) else {
        return;
    };
    let Some((_, _, text)) = state.plan_that_counts() else {
        return;
    };
    // What depends on the environment of its time cannot be read again.
    if let Ok(plan) = plan::parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()) {
        into.gather((&state, &directory), &plan, like, options);
    }
}
