//! Declarations of a session before it measures: its plan, with the ids of its points and searches; each server config, without its
//! secrets; and the comparison or optimisation, if any. A plan is written out once, and later sessions with the same plan refer to it.

use super::rank::{Nonce, Rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vsweep_base::ids::{Ids, PointId, SearchId, ServerId, sha256_hex};
use vsweep_plan::matrix::ServerConfig;
use vsweep_plan::{Params, Secrets};
use vsweep_strategy::selection::optimized::{Axis, Candidate, Optimized, Reason, Rules, WarmStart};
use vsweep_strategy::selection::{Member, Placement};

/// A plan with all its points and searches. A point belongs to the experiment if it is in the plan that counts: the plan of the
/// last session that did not join another session's plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPlan {
    /// Name of the plan.
    pub name: String,
    /// SHA-256 of its content.
    pub sha256: String,
    /// The stored content.
    pub content: PlanContent,
}

impl RecordedPlan {
    /// Returns a plan with its content instead of a reference to it.
    pub fn new<'a>(
        name: &str,
        text: String,
        points: impl IntoIterator<Item = &'a PointId>,
        searches: impl IntoIterator<Item = &'a SearchId>,
    ) -> RecordedPlan {
        let points = Ids::of(points.into_iter().map(|id| &*id.0));
        let searches = Ids::of(searches.into_iter().map(|id| &*id.0));
        let content = PlanContent::Here { text, points, searches };
        let written = serde_json::to_vec(&content).expect("plain data always serialises");
        RecordedPlan {
            name: name.to_owned(),
            sha256: sha256_hex(&written),
            content,
        }
    }
}

/// The content of a plan, or a reference to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanContent {
    /// The content itself.
    Here {
        /// The plan's text with the effects of `--set` and of the files that it names, secrets masked.
        text: String,
        /// Every point.
        points: Ids,
        /// Every search and exploration.
        searches: Ids,
    },
    /// A reference to the beginning of the journal with this nonce, which has the same plan.
    In(Nonce),
}

/// A plan without text, points and searches.
impl Default for PlanContent {
    fn default() -> PlanContent {
        PlanContent::Here {
            text: String::new(),
            points: Ids::default(),
            searches: Ids::default(),
        }
    }
}

/// Description of a server config.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerDescription {
    /// Short text for people.
    pub name: String,
    /// Command line, secrets redacted; empty when attached.
    pub argv: Vec<String>,
    /// Environment of the plan, secrets redacted.
    pub env: BTreeMap<String, String>,
    /// Every parameter.
    pub params: Params,
    /// Name of its combination, if the plan names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combo: Option<String>,
}

impl ServerDescription {
    /// Describes a config without its secrets.
    pub fn of(server: &ServerConfig, secrets: &Secrets) -> ServerDescription {
        ServerDescription {
            name: server.name.clone(),
            argv: secrets.redact_argv(&server.argv),
            env: secrets.redact_env(&server.env),
            params: secrets.redact_params(&server.params),
            combo: server.combo.clone(),
        }
    }
}

/// Names that a plan gives to loads which were recorded under other names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadNames {
    /// Names of the loads of points.
    pub points: BTreeMap<PointId, LoadName>,
    /// Names of searches and explorations.
    pub searches: BTreeMap<SearchId, String>,
}

impl LoadNames {
    /// Returns true if it names nothing.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.searches.is_empty()
    }
}

/// Name of a load, as `run_started` has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadName {
    /// Short text for people.
    pub name: String,
    /// Name of its combination, if the plan names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combo: Option<String>,
}

/// A comparison of server configs: two configs in pairs of starts, or an ordered axis that is bisected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonDesign {
    /// The configs in order; the first is the base, or the old end of the axis.
    pub entrants: Vec<Entrant>,
    /// Names of the loads.
    pub loads: Vec<String>,
    /// Questions about metrics; an axis has one.
    pub family: Vec<AskedMetric>,
    /// Repetitions of each load on each start.
    pub runs: u32,
    /// Largest number of starts, failed ones included.
    pub max_starts: usize,
    /// Seconds of starts and runs after which no further start begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// Placement of the starts of two configs.
    #[serde(default, skip_serializing_if = "is_in_turn")]
    pub placement: Placement,
}

fn is_in_turn(placement: &Placement) -> bool {
    *placement == Placement::InTurn
}

/// A server config of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// The server config.
    pub server: ServerId,
    /// Short text for people.
    pub name: String,
    /// Its points, one for each load.
    pub points: Vec<PointId>,
}

/// A question about a metric at a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedMetric {
    /// The metric of the result.
    pub metric: String,
    /// Index of the load in [`ComparisonDesign::loads`].
    pub load: usize,
    /// Direction, margin and requirement of the question.
    #[serde(flatten)]
    pub member: Member,
}

impl ComparisonDesign {
    /// Returns true if the configs are an axis, instead of two that are compared in pairs of starts.
    pub fn is_axis(&self) -> bool {
        self.entrants.len() > 2
    }

    /// Returns the largest number of runs that the comparison can take.
    pub fn most_runs(&self) -> u64 {
        (self.max_starts * self.loads.len()) as u64 * u64::from(self.runs)
    }
}

// An optimisation as its session declares it: the servers to choose from, with their predictions, and the rules. Together with the recorded
// results, it decides which server starts next.

/// The servers to choose from, and the rules of the choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Optimization {
    /// The figure to optimise; `None` for the figure of the first question that the results can answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// The settings in which the servers differ.
    pub axes: Vec<Axis>,
    /// The servers, in the order of the plan.
    pub contestants: Vec<Contestant>,
    /// The rules.
    pub rules: Rules,
    /// Largest number of starts, failed ones included. It applies in addition to the budget of the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_starts: Option<usize>,
    /// Number of GPUs that the user has; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Number of GPUs that the machine divides among its servers; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_gpus: Option<u32>,
    /// Repetitions of each load on each start.
    pub runs: u32,
    /// True if the durations were predicted, instead of assumed.
    pub is_predicted: bool,
}

/// The figure to optimise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// A metric of the result.
    Metric(String),
    /// The highest load that meets the target of this name.
    Load(String),
}

/// A server to choose from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contestant {
    /// The server config.
    pub server: ServerId,
    /// Short text for people.
    pub name: String,
    /// Its points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointId>,
    /// Its searches and explorations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchId>,
    /// The settings and predictions by which it is chosen.
    #[serde(flatten)]
    pub candidate: Candidate,
}

/// A start that an optimisation asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedStart {
    /// The server config.
    pub server: ServerId,
    /// The number of its start, from 0.
    pub slot: u32,
    /// The reason for it.
    pub reason: Reason,
    pub(super) rank: Rank,
}

impl Optimization {
    /// Returns the optimisation before any result. All predicted durations are multiplied by `factor`.
    pub fn begin(&self, factor: f64) -> Optimized {
        let candidates = self.contestants.iter().map(|own| Candidate {
            start_s: own.candidate.start_s * factor,
            warm: own.candidate.warm.map(|warm| WarmStart {
                start_s: warm.start_s * factor,
                ..warm
            }),
            measure_s: own.candidate.measure_s * factor,
            ..own.candidate.clone()
        });
        Optimized::new(&self.axes, candidates.collect(), self.rules.clone())
    }

    /// Returns the position of a server among the contestants.
    pub fn position(&self, server: &ServerId) -> Option<usize> {
        self.contestants.iter().position(|own| own.server == *server)
    }
}
