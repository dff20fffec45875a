//! Warnings about a recommended server, as part of the document.

use super::asked::Target;
use super::estimate::Estimate;
use serde::{Deserialize, Serialize};
use vsweep_strategy::stats::{Better, Verdict};

/// A warning to read before deploying the winner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Warning {
    /// Its servers died.
    Deaths {
        /// Number of deaths.
        deaths: u32,
        /// Number of launches.
        launches: u32,
    },
    /// Runs or starts were tried again.
    Retries {
        /// Their number.
        retries: u32,
    },
    /// Runs at the recommended point failed.
    FailedRuns {
        /// Number of failed runs.
        failed: u32,
        /// Number of all runs.
        of: u32,
    },
    /// Requests failed.
    FailedRequests {
        /// Their number.
        failed: u64,
        /// Number of requests.
        requests: u64,
    },
    /// Runs or probes were disturbed.
    Disturbed {
        /// Number of disturbed runs or probes.
        disturbed: u32,
        /// Number of all of them.
        of: u32,
    },
    /// The figure by which it won is in doubt.
    Doubtful {
        /// The names of the doubts.
        codes: Vec<String>,
    },
    /// The load that its search found may not last.
    MayNotLast {
        /// The reasons, each a sentence without its full stop.
        reasons: Vec<String>,
    },
    /// It ran on other nodes than some of its competitors.
    OtherNodes {
        /// Its nodes.
        own: Vec<String>,
        /// The nodes of those competitors.
        others: Vec<String>,
    },
    /// The program was replaced between sessions, so that it or its competitors have other versions.
    OtherVersions {
        /// Versions of its server.
        own: Vec<String>,
        /// Versions that other sessions measured.
        others: Vec<String>,
    },
    /// Its figures differ without the neighbours that it had in the sweep.
    OtherwiseAlone {
        /// The figures that differ by more than chance and the margin.
        figures: Vec<Alone>,
    },
    /// Its server was simulated.
    Simulated,
    /// A probability of 90 % or more rests on a start noise that was not measured.
    StartNoiseAssumed {
        /// The standard deviation that was assumed, relative on a logarithmic scale.
        deviation: f64,
    },
    /// The probability that it meets a target is below 95 %.
    TargetUncertain {
        /// The target.
        target: Target,
        /// The probability that the winner meets the target.
        probability: f64,
    },
}

/// A figure of a config that was measured again on a start without neighbours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// The id of the config.
    pub config: String,
    /// The id of the point.
    pub point: String,
    /// The metric.
    pub metric: String,
    /// Its good direction.
    pub better: Better,
    /// The figure without neighbours as a multiple of the one with them.
    pub ratio: Estimate,
    /// The verdict on the ratio: `improved` if the figure is better without neighbours.
    pub verdict: Verdict,
}
