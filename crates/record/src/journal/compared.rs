//! A comparison as its session records it: which server configs are held against each other, and what is asked of them.

use serde::{Deserialize, Serialize};
use vsweep_plan::ids::{PointId, ServerId};
use vsweep_strategy::selection::{Member, Placement};

/// Server configs that are held against each other: two arms in pairs of starts, or an ordered axis that is bisected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// In their order; the first is the base, or the old end.
    pub entrants: Vec<Entrant>,
    /// What the loads are called.
    pub loads: Vec<String>,
    /// What is asked of the metrics; of an axis one.
    pub family: Vec<AskedMetric>,
    /// Repetitions of each load on each start.
    pub runs: u32,
    /// At most this many starts, failed ones included.
    pub max_starts: usize,
    /// No start begins after this much time in starts and runs, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// Where two arms run.
    #[serde(default, skip_serializing_if = "is_in_turn")]
    pub placement: Placement,
}

fn is_in_turn(placement: &Placement) -> bool {
    *placement == Placement::InTurn
}

/// One of the server configs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// Which one.
    pub server: ServerId,
    /// Short text for people.
    pub name: String,
    /// Its points, one for each load.
    pub points: Vec<PointId>,
}

/// What is asked of a metric at a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedMetric {
    /// The metric of the result.
    pub metric: String,
    /// The load, by its place.
    pub load: usize,
    /// What is asked.
    #[serde(flatten)]
    pub member: Member,
}

impl Compared {
    /// Whether it is an axis, and not two arms.
    pub fn is_axis(&self) -> bool {
        self.entrants.len() > 2
    }
}
