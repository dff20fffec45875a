//! The rules by which an answer follows from the posteriors, each in a file of its own.

mod advice;
mod alone;
mod contest;
mod effects;
mod entrants;
mod frontier;
mod meeting;
mod question;
mod searches;
mod standings;
mod together;
mod warnings;

pub(super) use advice::advice;
pub(super) use entrants::Entrants;
pub(super) use frontier::frontier;
pub(super) use question::{Settled, settle};
pub use standings::{Standing, standings};
pub(super) use together::together;
