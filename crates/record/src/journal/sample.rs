//! Runs that are repeated on one start of a server, alone and beside others, and what went on beside a run. What follows from them is
//! judged by the state.

use serde::{Deserialize, Serialize};
use vsweep_plan::ids::{PointId, ServerId};

/// A run during at least this share of whose time something went on was measured beside that.
const MOST_OF_IT: f64 = 0.8;
/// One during less than this share of whose time it went on was measured without it.
const HARDLY: f64 = 0.1;
/// What else went on on the machine during a run, as far as the session did it: shares of the run's time from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Other servers were measured.
    pub servers: f64,
    /// Other servers were starting.
    pub starts: f64,
}

/// One run of a point that is repeated alone and beside others on the same start of its server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterferenceSample {
    /// The server config.
    pub server: ServerId,
    /// Which launch of this session.
    pub launch: u32,
    /// Which point.
    pub point: PointId,
    /// Whether the others waited for it.
    pub alone: bool,
    /// What went on beside it.
    pub beside: Beside,
    /// From start to end of the benchmark, in seconds.
    pub seconds: f64,
    /// Its mean latency; none if the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

/// Beside what a sample was measured; one of neither kind is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Company {
    /// Nothing else.
    Nobody,
    /// Runs of other servers.
    Servers,
    /// The start of another server.
    Start,
}

impl InterferenceSample {
    /// That of a sample; `None` if it is of neither kind.
    pub fn company(&self) -> Option<Company> {
        let Beside { servers, starts } = self.beside;
        if self.alone {
            return Some(Company::Nobody);
        }
        match starts {
            starts if starts >= MOST_OF_IT => Some(Company::Start),
            starts if starts <= HARDLY && servers >= MOST_OF_IT => Some(Company::Servers),
            _ => None,
        }
    }

    /// Whether it was measured beside this and has figures.
    pub fn is_beside(&self, company: Company) -> bool {
        self.latency_ms.is_some() && self.company() == Some(company)
    }
}
