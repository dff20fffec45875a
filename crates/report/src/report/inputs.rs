//! Everything a report is made from.

use super::answer::Answer;
use super::distributions::Distributions;
use super::effects::Findings;
use super::failures::Group;
use super::goals::Goals;
use super::requirements::Judged;
use super::telemetry::Telemetry;
use serde_json::Value;
use vsweep_plan::matrix::argv;
use vsweep_plan::plan::{BenchRunner, Params, Plot, commands};
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
    /// Who measured the loads.
    pub bench: &'a BenchRunner,
    /// The best points and the frontier of each workload.
    pub answers: &'a [Answer],
    /// What was read beside the runs.
    pub telemetry: &'a Telemetry,
    /// Which settings mattered.
    pub mattered: &'a Findings<'a>,
    /// How latencies are distributed at the points that a page has room for.
    pub distributions: &'a Distributions,
    /// Whether the page is served while the sweep goes on, as its version; none of a page that stands alone.
    pub live: Option<u64>,
    /// What a GPU costs an hour, if that is known.
    pub price: Option<f64>,
    /// Curves that the plan asks for; the page offers them first.
    pub plots: &'a [Plot],
    /// What the plan requires, and whether it holds.
    pub requirements: &'a [Judged],
    /// Which points meet what the plan asks of them.
    pub goals: &'a Goals,
}

impl Inputs<'_> {
    /// The command line that measured a load on a server. What the native generator does, `vsweep bench` does too.
    pub fn bench_command(&self, server: &[String], params: &Params) -> Vec<String> {
        let ours = |name: &str| vec!["vsweep".to_owned(), name.to_owned()];
        let base = match self.bench {
            BenchRunner::Command(commands) => return argv::fill_in(&commands.of(params), &commands::flags(params)),
            BenchRunner::Native => ours("bench"),
            BenchRunner::Offline(offline) => offline.command(server).unwrap_or_default(),
            other => ours(other.name().unwrap_or_default()),
        };
        argv::apply(&base, params)
    }
}
