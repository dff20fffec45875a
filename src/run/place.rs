//! Where server groups run: how many at once, and on what stage. Other places (several groups on the GPUs of a node, a
//! cluster) are further implementations of this one interface.

use super::gate::Gate;
use super::live::Live;
use super::writer::SessionWriter;
use crate::matrix::ServerConfig;
use crate::plan::Plan;

/// Where groups run.
pub trait Place {
    /// Whether another group may begin beside so many.
    fn has_room(&self, under_way: usize) -> bool;

    /// Where a group's server is acted on.
    fn stage<'p, 'w>(&'p self, plan: &'p Plan, server: ServerConfig, writer: &'p SessionWriter<'w>) -> Live<'p, 'w>;
}

/// This host, one group after another.
#[derive(Debug)]
pub struct ThisHost {
    gate: Gate,
}

impl ThisHost {
    /// Looks at the machine before the first server.
    pub async fn now() -> ThisHost {
        ThisHost {
            gate: Gate::now().await,
        }
    }
}

impl Place for ThisHost {
    fn has_room(&self, under_way: usize) -> bool {
        under_way == 0
    }

    fn stage<'p, 'w>(&'p self, plan: &'p Plan, server: ServerConfig, writer: &'p SessionWriter<'w>) -> Live<'p, 'w> {
        Live::new(plan, server, &self.gate, writer)
    }
}
