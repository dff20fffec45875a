//! Everything a report is made from.

use super::distributions::Distributions;
use super::environment;
use super::findings::answer::Answers;
use super::findings::failures::{Group, group, read_excerpts};
use super::findings::goals::Goals;
use super::findings::ranking::Ranking;
use super::findings::requirements::{self, RequirementResult};
use super::findings::variation::varying;
use super::telemetry::{self, Telemetry};
use serde_json::Value;
use std::path::Path;
use vsweep_answer::Answer;
use vsweep_base::files::{MOST_TEXT, read_text};
use vsweep_plan::matrix::argv;
use vsweep_plan::{BenchRunner, Format, Params, ReportOptions, World, commands, draft_of};
use vsweep_record::journal::{Directory, State};
use vsweep_record::table::{Column, Points};

/// Everything a report is made from.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// The experiment's directory.
    pub directory: &'a Directory,
    /// Its name.
    pub experiment: String,
    /// The plan's options for the report.
    pub options: &'a ReportOptions,
    /// The plan's text, secrets redacted; empty if it is not there.
    pub plan: String,
    /// `manifest.json`; null if it is not there.
    pub manifest: Value,
    /// The state of the journals.
    pub state: &'a State,
    /// Its runs, one row for each of `state.runs()` in order, grouped into points.
    pub points: &'a Points<'a>,
    /// The parameters that distinguish points.
    pub varied: Vec<&'a Column>,
    /// The failures.
    pub failures: Vec<Group>,
    /// For each group of failures, a part of a server's log.
    pub excerpts: Vec<Option<String>>,
    /// The benchmark that makes the load.
    pub bench: BenchRunner,
    /// The answer.
    pub answers: Answers,
    /// Telemetry read during the runs.
    pub telemetry: Telemetry,
    /// The settings in the order in which charts name them.
    pub ranking: Ranking,
    /// Distributions of latencies at the points that are shown on the page.
    pub distributions: Distributions,
    /// Version of a page that is served during the sweep; `None` for a stand-alone page.
    pub live: Option<u64>,
    /// True if the page lies in the directory, so that it can refer to the files there.
    pub is_in_directory: bool,
    /// Results of the plan's requirements.
    pub requirements: Vec<RequirementResult>,
    /// The plan's goals for points, and the points that meet them.
    pub goals: Goals,
}

impl<'a> Inputs<'a> {
    /// Gathers the inputs from the directory of an experiment. `points.runs` are the runs of `state`, as [`super::read_runs`] makes them,
    /// and the points have adopted the answer.
    pub fn gather(
        directory: &'a Directory,
        state: &'a State,
        points: &'a Points<'a>,
        options: &'a ReportOptions,
        answer: Answer,
    ) -> Inputs<'a> {
        let plan = plan_text(directory, state);
        let failures = group(points, state);
        let goals = Goals::judge(&options.requirements, state, points);
        let answers = Answers::of(answer, points, state, &goals);
        Inputs {
            directory,
            experiment: directory.name(),
            options,
            bench: runner(plan.as_ref()),
            plan: plan.map(|(text, _)| text).unwrap_or_default(),
            manifest: environment::manifest(directory),
            state,
            points,
            varied: varying(points),
            excerpts: read_excerpts(directory, &failures),
            failures,
            telemetry: telemetry::gather(directory, state, points, &answers.workloads),
            distributions: Distributions::gather(
                directory,
                state,
                points,
                telemetry::order(points, &answers.workloads),
            ),
            ranking: Ranking::of(points),
            live: None,
            is_in_directory: true,
            requirements: requirements::judge(&options.requirements, state, points, &answers.document),
            goals,
            answers,
        }
    }

    /// The command line that measured a load on a server. For the native generator it is that of `vsweep bench`, which sends the same
    /// requests.
    pub fn bench_command(&self, server: &[String], params: &Params) -> Vec<String> {
        let ours = |name: &str| vec!["vsweep".to_owned(), name.to_owned()];
        let base = match &self.bench {
            BenchRunner::Command(commands) => return argv::fill_in(&commands.of(params), &commands::flags(params)),
            BenchRunner::Native => ours("bench"),
            BenchRunner::Offline(offline) => offline.command(server).unwrap_or_default(),
            other => ours(other.name().unwrap_or_default()),
        };
        argv::apply(&base, params)
    }
}

/// The text of the plan that counts. It comes from the record, because the plan's file may have been changed since. The file is used if the
/// record has lost the text.
pub fn plan_text(directory: &Directory, state: &State) -> Option<(String, Format)> {
    let recorded = state.plan_that_counts().map(|(_, _, text)| text.to_owned());
    let recorded = recorded.filter(|text| !text.is_empty());
    let read = |json| read_text(&directory.plan(json), MOST_TEXT).ok();
    let text = recorded.or_else(|| [false, true].into_iter().find_map(read))?;
    let format = Format::of_text(&text);
    Some((text, format))
}

/// Returns the plan's benchmark, in whose command lines variables stay references. The native generator is assumed if no plan can be read.
fn runner(plan: Option<&(String, Format)>) -> BenchRunner {
    let read = |(text, format): &(String, Format)| draft_of(text, *format, Path::new("plan"), &World::empty()).ok();
    plan.and_then(read)
        .map_or(BenchRunner::Native, |draft| draft.plan.bench.runner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_names_variables_and_files_keeps_its_benchmark() {
        let text = "[serve]\ncommand = \"vllm serve ${MODEL}\"\n[bench]\nparams_file = \"loads.json\"\n";
        let of = |bench: &str| runner(Some(&(format!("{text}{bench}"), Format::Toml)));
        assert_eq!(of("runner = \"phases\"\n"), BenchRunner::Phases);
        let BenchRunner::Command(commands) = of("command = \"vllm bench serve --model ${MODEL}\"\n") else {
            panic!("a command");
        };
        assert!(commands.iter().eq([["vllm", "bench", "serve", "--model", "${MODEL}"]]));
    }
}
