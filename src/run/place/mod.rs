//! Where groups run: which one begins next, and what it has of the machine. Each place is a file of this folder that implements this one
//! interface.

mod this_host;

pub use this_host::{Rounds, ThisHost};

use super::floor::Floor;
use super::node::Seat;
use super::writer::SessionWriter;
use crate::agenda::Start;
use crate::error::Result;
use crate::server::settle::Gate;
use std::rc::Rc;

/// Where groups run.
pub trait Place {
    /// Waits until a group may begin in addition to those under way. Returns its start and its resources; `None` once no group is left. May
    /// be dropped and called again at any time.
    async fn next(&self, under_way: &[Rc<Seat>], writer: &SessionWriter<'_>) -> Result<Option<(Start, Seat)>>;

    /// The gate that each server passes before it starts.
    fn gate(&self) -> &Gate;

    /// The activities of the groups under way.
    fn floor(&self) -> &Floor;
}
