//! Whole sweeps by the real binary on simulated servers: their results, failures, continuation and forecasts.

#[path = "../support/agreement.rs"]
mod agreement;
mod ci_guard;
#[path = "../support/deadline.rs"]
mod deadline;
#[path = "../support/harness.rs"]
mod harness;
mod init;
mod live;
mod machines;
mod on_finish;
mod questions;
mod record;
mod rehearse;
mod run;
mod runs;
#[path = "../support/scripted.rs"]
mod scripted;
mod standing;
