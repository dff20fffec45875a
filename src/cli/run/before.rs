//! What `run` and `worker` look at before they begin: the machine, what the directory was begun with, and what the plan will likely take.

use crate::cli::forecast::estimate;
use crate::cli::machine::runtime;
use crate::cli::rehearse::installed;
use crate::cli::{plan_file, preflight};
use crate::error::Result;
use crate::journal::{Directory, State};
use crate::plan::{Found, Plan, Warmup};
use crate::rehearse::{Forecast, Options, foresee};
use crate::run::{Forecasts, Lengths, Node, Sweep};

/// Most tokens that are computed for the first guesses of searches: about a second's worth.
const MOST_TOKENS: u64 = 20_000_000;

/// What was begun without warm-ups goes on so: its points are known by that, and its runs compare. Whether that changes the plan.
/// A comparison keeps its margins, too.
pub fn keep_defaults(plan: &mut Plan, directory: &Directory) -> bool {
    super::margins::settle(plan, directory, true);
    let is_kept = plan.bench.warmup == Warmup::Automatic && directory.began_without_warmup();
    if is_kept {
        plan.bench.warmup = Warmup::Requests(0);
    }
    is_kept
}

/// Looks for what the work that is left needs of this machine, and tells what is missing.
pub fn check_machine(sweep: &Sweep<'_>, state: &State) -> Result<()> {
    let mut found = Found::default();
    if sweep.schedule().has_work(state) {
        preflight::check(sweep.plan, sweep.wanted, sweep.node, &mut found);
    }
    plan_file::refuse(sweep.plan, found)
}

/// The machine as far as the plan shares it out.
pub fn look_around(plan: &Plan) -> Option<Node> {
    runtime().ok()?.block_on(Node::of(plan))
}

/// What the searches will likely find.
pub fn first_guesses(sweep: &Sweep<'_>, state: &State) -> Forecasts {
    let options = Options {
        // A guess for a GPU that is not there would only lead the search astray.
        card: installed(sweep.plan, sweep.wanted),
        most_tokens: Some(MOST_TOKENS),
        ..Options::default()
    };
    foresee(sweep.schedule(), state, &options)
}

/// How long the work on each server will likely take, where that decides which one comes first.
pub fn lengths(sweep: &Sweep<'_>, state: &State, options: &Options) -> Lengths {
    if sweep.node.is_none() {
        return Lengths::new();
    }
    let predicted = estimate(sweep.schedule(), state, state, options);
    let servers = predicted.map(|rehearsal| rehearsal.servers).unwrap_or_default();
    let length = |forecast: Forecast| (forecast.server, forecast.total.interval().likely);
    servers.into_iter().map(length).collect()
}
