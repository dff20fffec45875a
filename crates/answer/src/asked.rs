//! The questions that an experiment is to answer, and the targets that its configs must meet.

use serde::{Deserialize, Serialize};
use vsweep_strategy::search::Operator;

/// A question that an experiment answers: a goal for one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Its name, such as `highest throughput`.
    pub name: String,
    /// The workload.
    pub workload: String,
    /// The load at which points compete; `None` if points of all loads compete.
    pub load: Option<String>,
    /// The name of an earlier question about the same workload, which must have no `load_of` itself. Points compete at the load of that
    /// question's winner. If it has no winner, this question is not answered.
    #[serde(default)]
    pub load_of: Option<String>,
    /// The figure by which entrants are compared.
    pub goal: Goal,
    /// The targets that an entrant must meet.
    pub targets: Vec<Target>,
    /// The metrics for which the answer gives the effect of each setting of the winner.
    pub effects: Vec<String>,
}

/// The figure by which entrants are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// A metric of points.
    Metric {
        /// Its name.
        name: String,
        /// True if the figures of several servers on the user's GPUs add up, as throughputs do.
        adds_up: bool,
    },
    /// The load that the searches for a target found.
    Load {
        /// The target's name.
        target: String,
        /// The parameter that the searches vary, such as `max_concurrency`.
        parameter: String,
        /// The largest difference in the load of one server that does not matter: 1 for users, 0 for rates.
        unit: f64,
    },
}

/// A bound that an entrant must keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The metric.
    pub metric: String,
    /// The allowed side of the limit.
    pub bound: Operator,
    /// The limit, in the metric's unit.
    pub limit: f64,
    /// The conditions on parameters that select `about`, such as `max_concurrency <= 8`; empty if the target applies to all points.
    #[serde(default, rename = "where", skip_serializing_if = "String::is_empty")]
    pub conditions: String,
    /// The points to which the target applies; all points if empty. If some are listed, any other point meets the target if
    /// all listed points of its config and workload do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<TargetPoint>,
}

/// A point to which a target applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetPoint {
    /// The id of its config.
    pub config: String,
    /// Its workload.
    pub workload: String,
    /// Its id.
    pub point: String,
}

/// A frontier of two metrics for a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrontierQuestion {
    /// The workload.
    pub workload: String,
    /// One metric.
    pub x: String,
    /// The other metric.
    pub y: String,
    /// The targets that a point must meet.
    pub targets: Vec<Target>,
}

impl Question {
    /// Asks for the config with the highest figure of a metric that adds up over servers, such as throughput.
    pub fn highest(metric: &str) -> Question {
        let goal = Goal::Metric {
            name: metric.to_owned(),
            adds_up: true,
        };
        Question::of(format!("highest {metric}"), "", goal)
    }

    /// Asks for the config that holds the highest load, in whole users, by the searches for a target.
    pub fn highest_load(target: &str) -> Question {
        let goal = Goal::Load {
            target: target.to_owned(),
            parameter: "max_concurrency".to_owned(),
            unit: 1.0,
        };
        Question::of(target.to_owned(), "", goal)
    }

    /// Asks a question about all points of a workload, without targets and effects.
    pub fn of(name: String, workload: &str, goal: Goal) -> Question {
        Question {
            name,
            workload: workload.to_owned(),
            load: None,
            load_of: None,
            goal,
            targets: Vec::new(),
            effects: Vec::new(),
        }
    }
}
