//! A plan as a session records it: its text and the ids of its points and searches, once in a directory for all sessions that have it.

use super::place::Nonce;
use serde::{Deserialize, Serialize};
use vsweep_plan::ids::{Ids, PointId, SearchId, sha256_hex};

/// A plan as meant. A point belongs to the experiment if it is in the plan of the last session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPlan {
    /// Name of the plan.
    pub name: String,
    /// SHA-256 of its content.
    pub sha256: String,
    /// Where that is.
    pub content: PlanContent,
}

impl RecordedPlan {
    /// A plan with all its points and searches.
    pub fn new<'a>(
        name: &str,
        text: String,
        points: impl IntoIterator<Item = &'a PointId>,
        searches: impl IntoIterator<Item = &'a SearchId>,
    ) -> RecordedPlan {
        let points = Ids::of(points.into_iter().map(|id| id.0.as_str()));
        let searches = Ids::of(searches.into_iter().map(|id| id.0.as_str()));
        let content = PlanContent::Here { text, points, searches };
        let written = serde_json::to_vec(&content).expect("plain data always serialises");
        RecordedPlan {
            name: name.to_owned(),
            sha256: sha256_hex(&written),
            content,
        }
    }
}

/// The content of a plan, or where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanContent {
    /// Here.
    Here {
        /// The plan's text after `--set` and the files it names, secrets masked.
        text: String,
        /// Every point.
        points: Ids,
        /// Every search and exploration.
        searches: Ids,
    },
    /// In the beginning of the journal of this nonce, which has the same plan.
    In(Nonce),
}

/// What is left of a plan that vsweep 1.x recorded.
impl Default for PlanContent {
    fn default() -> PlanContent {
        PlanContent::In(Nonce::SEALED)
    }
}
