//! Everything a report is made from.

use super::answer::Answer;
use super::failures::Group;
use super::goals::Goals;
use super::requirements::Judged;
use super::telemetry::Telemetry;
use serde_json::Value;
use vsweep_plan::plan::Plot;
use vsweep_record::journal::State;
use vsweep_record::table::Points;
/// Everything a report is made from.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// Name of the experiment.
    pub experiment: &'a str,
    /// The plan's text, secrets redacted; empty if it is not there.
    pub plan: &'a str,
    /// `manifest.json`; null if it is not there.
    pub manifest: &'a Value,
    /// What the journal tells.
    pub state: &'a State,
    /// Its runs, one row for each of `state.runs()` in order, grouped into points.
    pub points: &'a Points<'a>,
    /// What went wrong.
    pub failures: &'a [Group],
    /// For each group of failures, a part of a server's log.
    pub excerpts: &'a [Option<String>],
    /// The command that measures a load, to which a point's parameters are added.
    pub bench_command: &'a [String],
    /// The best points and the frontier of each workload.
    pub answers: &'a [Answer],
    /// What was read beside the runs.
    pub telemetry: &'a Telemetry,
    /// Curves that the plan asks for; the page offers them first.
    pub plots: &'a [Plot],
    /// What the plan requires, and whether it holds.
    pub requirements: &'a [Judged],
    /// Which points meet what the plan asks of them.
    pub goals: &'a Goals,
}
