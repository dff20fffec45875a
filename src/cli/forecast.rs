//! What is told of a plan without being asked for a rehearsal: servers that will not fit on this machine, and how long a sweep that
//! begins will likely take. It is told only where the GPU is known, since none is assumed.

use super::output;
use super::rehearse::{Machine, installed, summary};
use crate::cause::{Cause, Failure};
use crate::journal::State;
use crate::matrix::{Matrix, ServerConfig};
use crate::plan::Plan;
use crate::rehearse::{Options, StandIn, needs_gpu, rehearse};
use crate::run::Sweep;

/// Most servers that are looked at without being asked for a rehearsal.
const MOST_SERVERS: usize = 1000;

/// Most tokens that are computed for the forecast before the first start: no time that anybody notices.
const FORECAST_TOKENS: u64 = 2_000_000;

/// What is predicted of the machine that this is, for a plan of which that can be known: no GPU is assumed.
fn here(plan: &Plan, matrix: &Matrix, most_tokens: u64) -> Option<Options> {
    let card = installed(plan, matrix);
    (card.is_some() || !needs_gpu(matrix)).then(|| Options {
        card,
        ..Machine::default().options(plan, matrix, Some(most_tokens))
    })
}

/// Servers of a plan that will not start on this machine, whatever load comes: their name, and why. What is wrong with their flags
/// is told elsewhere.
pub fn misfits(plan: &Plan, matrix: &Matrix) -> Vec<(String, Failure)> {
    let Some(options) = here(plan, matrix, 0) else {
        return Vec::new();
    };
    let servers = matrix.servers().take(MOST_SERVERS);
    let failure = |server: ServerConfig| {
        let failure = StandIn::of(&server, &options).ok()?.failure?;
        (failure.cause != Cause::BadFlag).then(|| (plan.secrets.redact(&server.name), failure))
    };
    servers.filter_map(failure).collect()
}

/// How long the first server will likely take to get ready, in seconds.
pub fn first_start(plan: &Plan, matrix: &Matrix) -> Option<f64> {
    let first = StandIn::of(&matrix.servers().next()?, &here(plan, matrix, 0)?).ok()?;
    first.failure.is_none().then_some(first.start_s)
}

/// Such a server, in a sentence.
pub fn misfit(name: &str, failure: &Failure) -> String {
    let Failure { cause, detail } = failure;
    format!("server {name}: will likely fail: {cause}: {detail}; {}", cause.advice())
}

/// Tells how long the work that is left will likely take, and which servers will not fit; the sweep goes on.
pub fn tell(sweep: &Sweep<'_>, state: &State) {
    let (plan, wanted) = (sweep.plan, sweep.wanted);
    let Some(options) = here(plan, wanted, FORECAST_TOKENS) else {
        return;
    };
    let failing: Vec<(String, Failure)> = match rehearse(plan, wanted, sweep.schedule(), state, state, &options) {
        Ok(rehearsal) => {
            if !rehearsal.servers.is_empty() {
                output::tell(summary(&rehearsal));
            }
            let servers = rehearsal.servers.into_iter();
            servers
                .filter_map(|server| Some((server.name, server.failure?)))
                .collect()
        }
        // Too much to be played at once.
        Err(_) => misfits(plan, wanted),
    };
    for (name, failure) in &failing {
        output::tell(misfit(name, failure));
    }
}
