//! Single processes as a user starts them: the simulated server, servers below the guard, and scripts made from plans.

mod book;
mod conventions;
#[path = "../support/deadline.rs"]
mod deadline;
mod import;
mod limits;
mod lint;
mod plan_files;
mod sim;
mod supervise;
