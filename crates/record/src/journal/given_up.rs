//! Runs that were given up untried, described together in one line in a compact form.

use super::rank::LineId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vsweep_base::cause::{Cause, Failure, RuledOut};
use vsweep_base::ids::{Ids, PointId, SearchId, ServerId};
use vsweep_plan::Params;

/// Maximum number of points that one line describes. Of further points the line has only the ids: descriptions of a million points would
/// fill the memory, although all say that one server failed.
pub const MOST_LISTED: usize = 10_000;

/// Runs that will not be tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupGivenUp {
    /// The server config.
    pub server: ServerId,
    /// The planned start, from 0.
    pub slot: u32,
    /// The cause.
    pub cause: Cause,
    /// Observed details, as text.
    pub detail: String,
    /// The comparison with another server, if this server was not started because the other one ran out of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruled_out: Option<Box<RuledOut>>,
    /// Number of the line of this journal that began the run during which the server died; `None` if the server did not start.
    pub blamed: Option<u64>,
    /// Parameters that have equal values in all points.
    pub common: Params,
    /// The points, in the order of the plan.
    pub points: Vec<Untried>,
    /// Further points, if there are more than [`MOST_LISTED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<Unlisted>,
    /// The searches that end here without an answer, each with the line that began the last probe of its chain of probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<(SearchId, LineId)>,
}

/// Runs of one point that will not be tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Untried {
    /// The point.
    pub point: PointId,
    /// Its repetitions, from 0.
    pub runs: Vec<u32>,
    /// Short text of the point for people.
    pub name: String,
    /// Every bench parameter in its order; null for those that are the same in all points.
    pub params: Params,
    /// Name of the load's combination, if the plan names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combo: Option<String>,
    /// The search that asks for it; `None` for a point of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchId>,
}

/// Runs of further points that will not be tried, by the ids of the points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unlisted {
    /// The repetitions of each point, from 0.
    pub runs: Vec<u32>,
    /// The points.
    pub points: Ids,
}

impl Untried {
    /// Returns every parameter in its order, with the values in `common`.
    pub fn params_with(&self, common: &Params) -> Params {
        let whole = |(name, value): (&String, &Value)| (name.clone(), common.get(name).unwrap_or(value).clone());
        self.params.iter().map(whole).collect()
    }
}

impl GroupGivenUp {
    /// Returns the failure for which the runs were given up.
    pub fn failure(&self) -> Failure {
        Failure {
            ruled_out: self.ruled_out.clone(),
            ..Failure::new(self.cause, self.detail.clone())
        }
    }

    /// Returns the number of runs, of all points.
    pub fn runs(&self) -> u64 {
        let listed = self.points.iter().map(|point| point.runs.len());
        let unlisted = self.unlisted.iter().map(|own| own.runs.len() * own.points.len());
        listed.chain(unlisted).sum::<usize>() as u64
    }

    /// Moves the values of parameters that are equal in all points to `common`, and leaves null in their place.
    pub fn compact(mut self) -> GroupGivenUp {
        let Some((first, others)) = self.points.split_first() else {
            return self;
        };
        let is_common = |name: &String, value: &Value| others.iter().all(|other| other.params.get(name) == Some(value));
        let common: Params = first
            .params
            .iter()
            .filter(|(name, value)| is_common(name, value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for point in &mut self.points {
            for name in common.keys() {
                point.params.insert(name.clone(), Value::Null);
            }
        }
        self.common = common;
        self
    }
}
