//! One measured run by the native load generator, against a server that answers with exact bytes.

mod aside;
mod cli;
mod datasets;
mod duration;
mod hostile;
mod mangled;
mod media;
mod mix;
mod native;
#[path = "../support/scripted.rs"]
mod scripted;
mod tls;
mod turns;
