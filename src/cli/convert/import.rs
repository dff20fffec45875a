//! `vsweep import`: converts the command lines of `vllm bench sweep` to plans and its result trees to experiments, so that vsweep can
//! continue them. It also converts suites of vLLM's CI, and results of other clients.

mod sweep_command;

use crate::cli::experiment::{Owner, print_damage};
use crate::cli::output::{finish, is_quiet, json, make_folder, must_be_new, print_note, print_text, say};
use crate::cli::plan_file::show;
use crate::cli::results;
use crate::error::{Error, Exit, Result};
use crate::files::{write_atomic, write_named};
use crate::import::suite::{self, Test};
use crate::import::{PlanImport, Sweep, import};
use crate::journal::{Directory, Recorder, Shard};
use crate::matrix::Matrix;
use crate::plan::{self, Format, Plan, World};
use crate::report;
use crate::run::{ImportedRun, import_results};
use crate::shell::shell_word;
use crate::units::show_many;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Make a plan, or an experiment, of what vLLM's tools use
///
/// `vsweep import -o plan.toml -- vllm bench sweep serve --serve-cmd '...' --bench-cmd '...' ...` reads the command line and its JSON
/// files, and writes the plan that starts the same servers and sends the same loads. Differences, and options that have no key, are listed
/// in comments at the top of the plan and on standard error.
///
/// `vsweep import TREE -o DIR -- vllm bench sweep serve ...` makes a directory of that plan and of the results in TREE, finished
/// or not; `vsweep run DIR/plan.toml -o DIR` measures what is missing.
///
/// `vsweep import RESULT -o DIR` writes a result of guidellm, aiperf or `vllm bench serve` in vLLM's words; `vsweep plot` and
/// `plot pareto` read DIR.
///
/// `vsweep import serving-tests.json -o DIR` makes a plan of each test of a suite of vLLM's performance CI (serving, latency, throughput).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder with the results of one experiment (SERVE--...-BENCH--.../run=0.json), the result of another client (a file, or
    /// aiperf's folder), or the JSON file of a suite
    #[arg(value_name = "TREE|RESULT|SUITE")]
    tree: Option<PathBuf>,
    /// File for the plan [default: standard output], or directory for the experiment
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    owner: Owner,
    /// The command line, after --: vllm bench sweep serve | serve_workload | serve_sla ...
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: Args) -> Result<Exit> {
    args.output
        .as_deref()
        .map_or(Ok(()), |output| args.owner.check(output))?;
    if args.command.is_empty() {
        let tree = args.tree.as_deref();
        let Some(file) = tree.and_then(results::file) else {
            return Err(Error::Usage(without_command(tree)));
        };
        let to = |what: &str| {
            args.output
                .ok_or_else(|| Error::Usage(format!("say where {what}: -o DIR")))
        };
        return match suite_in(&file)? {
            Some(tests) => import_suite(&tests, &to("the plans go, one for each test")?),
            None => import_file(&file, &to("the results go")?),
        };
    }
    args.output.as_deref().map_or(Ok(()), must_be_new)?;
    let mut sweep = sweep_command::read(&args.command)?;
    match (&args.tree, &args.output) {
        (None, output) => write_plan(&convert(&sweep)?, output.as_deref()),
        (Some(_), None) => Err(Error::Usage("say where the experiment goes: -o DIR".into())),
        (Some(tree), Some(output)) => {
            let name = output.file_name().map(|name| name.to_string_lossy().into_owned());
            sweep.experiment_name = sweep.experiment_name.or(name);
            import_tree(tree, &convert(&sweep)?, output)
        }
    }
}

/// File in which `vllm bench sweep` stores the results of one load.
const SUMMARY: &str = "summary.json";

/// Writes the results in a file as the list of one folder.
fn import_file(file: &Path, to: &Path) -> Result<Exit> {
    must_be_new(to)?;
    let records = results::records(file)?;
    report::read_records(vec![(file.display().to_string(), records.clone())]).map_err(Error::Usage)?;
    let text = serde_json::to_string_pretty(&records).expect("figures are JSON");
    make_folder(to, |folder| write_atomic(&folder.join(SUMMARY), text.as_bytes()))?;
    let (results, to) = (show_many(records.len() as u64, "result"), to.display());
    say(format_args!("wrote {results} to {to}; `vsweep plot {to}` draws them"));
    Ok(Exit::Done)
}

/// Returns the tests of a suite of vLLM's performance CI: a JSON list of tests, or an object with the list `tests`. `None` for any other
/// file, such as a list of results.
fn suite_in(path: &Path) -> Result<Option<Vec<Test>>> {
    let json = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    let is_suite = |value: Value| match value.as_array() {
        Some(items) => items.is_empty() || items.iter().any(|item| item.get("test_name").is_some()),
        None => value["tests"].is_array(),
    };
    if !serde_json::from_str(&json).is_ok_and(is_suite) {
        return Ok(None);
    }
    let tests = suite::read(&json).map_err(|why| Error::Usage(format!("{} {why}", path.display())))?;
    Ok(Some(tests))
}

/// Writes the plans of a suite, one for each test, into a new folder.
fn import_suite(tests: &[Test], folder: &Path) -> Result<Exit> {
    must_be_new(folder)?;
    let mut plans: BTreeMap<String, &Test> = BTreeMap::new();
    for test in tests {
        let name = test
            .name
            .replace(|c: char| !c.is_ascii_alphanumeric() && !".-_".contains(c), "-");
        if let Some(other) = plans.insert(format!("{name}.toml"), test) {
            return Err(Error::Usage(format!(
                "the tests {} and {} would both become {name}.toml; rename one of them in the suite",
                other.name, test.name
            )));
        }
    }
    make_folder(folder, |folder| {
        let mut plans = plans.iter();
        plans.try_for_each(|(name, test)| write_atomic(&folder.join(name), test.text.as_bytes()))
    })?;
    let (plans, folder) = (show_many(tests.len() as u64, "plan"), folder.display());
    say(format_args!(
        "wrote {plans} to {folder}; `vsweep check {folder}/*.toml` checks them"
    ));
    Ok(Exit::Done)
}

/// The message for a call without the command line after `--`.
fn without_command(tree: Option<&Path>) -> String {
    let Some(tree) = tree else {
        return "give the command line after --, such as: vsweep import -- vllm bench sweep serve ...".into();
    };
    let is_there = tree.exists();
    let is_experiment = Directory::at(tree).is_experiment();
    let tree = tree.display();
    if !is_there {
        return format!("there is no {tree}; name a tree, a suite or a result file that is there");
    }
    if is_experiment {
        return format!(
            "{tree} is an experiment of vsweep, with nothing to import; `vsweep report`, `plot`, `plot pareto` and `compare` read it as \
             it is"
        );
    }
    format!(
        "a tree does not say which commands it was made with; add them: vsweep import {tree} -o DIR -- vllm bench sweep serve ... \
         (`vsweep plot`, `plot pareto` and `compare` read {tree} as it is)"
    )
}

/// Converts a command line to a plan and prints the notes.
fn convert(sweep: &Sweep) -> Result<PlanImport> {
    let imported = import(sweep, &|path| std::fs::read_to_string(path)).map_err(show)?;
    for note in imported.notes.iter().filter(|_| !is_quiet()) {
        print_text(format_args!("note: {note}"));
    }
    Ok(imported)
}

fn write_plan(imported: &PlanImport, output: Option<&Path>) -> Result<Exit> {
    let Some(path) = output else {
        return finish(json().write_all(imported.text.as_bytes()));
    };
    write_named(path, |file| file.write_all(imported.text.as_bytes()))?;
    let path = path.display();
    say(format_args!(
        "wrote {path}; `vsweep plan {path}` shows its servers and loads"
    ));
    Ok(Exit::Done)
}

/// Makes an experiment of a result tree. The exit code is 3 if a part of the tree could not be imported.
fn import_tree(tree: &Path, imported: &PlanImport, to: &Path) -> Result<Exit> {
    let Some(folders) = &imported.folders else {
        return Err(Error::Usage(format!(
            "the loads in {} were found by measuring, or differ from those of the plan, so no plan has exactly these loads; draw it as it \
             is with `vsweep plot` and `vsweep plot pareto`",
            tree.display()
        )));
    };
    let path = Directory::at(to).plan(false);
    let plan = plan::parse(&imported.text, Format::Toml, &path, &World::real()).map_err(show)?;
    let matrix = Matrix::expand(&plan).map_err(show)?;
    let mut problems = Vec::new();
    let runs = find_runs(tree, folders, &mut problems)?;
    let count = runs.iter().map(Vec::len).sum::<usize>() as u64;
    if count == 0 {
        problems.iter().for_each(print_note);
        return Err(Error::Usage(format!(
            "no run of this command line is in {}; give the folder that holds SERVE--... and BENCH--... folders, and the \
             command line that made it",
            tree.display()
        )));
    }
    let hidden = make_folder(to, |folder| {
        let directory = Directory::at(folder);
        let copy = directory.plan(false);
        let mut recorder = Recorder::open(directory, Shard::WHOLE)?;
        recorder.hide(plan.secrets.clone());
        let hidden = import_results(&plan, &matrix, runs, &mut recorder)?;
        write_atomic(&copy, plan.redacted_text().as_bytes())?;
        Ok(hidden)
    })?;
    let lost = |name| format!("the metric `{name}` is lost: vLLM overwrites it with the parameter of that name");
    problems.extend(hidden.into_iter().map(lost));
    let planned = matrix.counts().runs;
    let (taken, all) = (show_many(count, "run"), show_many(planned, "run"));
    let relation = if count > planned { "; the plan asks for" } else { " of" };
    say(format_args!("wrote {}: {taken}{relation} {all}", to.display()));
    print_next_steps(&plan, imported, to, &path);
    Ok(print_damage(&problems))
}

fn print_next_steps(plan: &Plan, imported: &PlanImport, to: &Path, path: &Path) {
    let (to, path) = (shell_word(to), shell_word(path));
    say(format_args!("`vsweep report {to}` shows it"));
    match plan.redacted_text() == imported.text {
        true => say(format_args!("`vsweep run {path} -o {to}` measures what is missing")),
        false => say(format_args!(
            "the plan holds secrets, which {path} does not; to measure what is missing, make it with `vsweep import -o FILE -- ...` \
             and give it to `vsweep run FILE -o {to}`"
        )),
    }
}

/// Reads the runs of each folder. A result that cannot be read is left out and added to `problems`.
fn find_runs(tree: &Path, folders: &[String], problems: &mut Vec<String>) -> Result<Vec<Vec<ImportedRun>>> {
    let entries = fs::read_dir(tree).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let entries = entries.map_err(Error::io("read", tree))?.into_iter();
    let names = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_result = |name: &String| ["SERVE--", "BENCH--"].iter().any(|start| name.starts_with(start));
    let mut unknown: BTreeSet<String> = names.filter(is_result).collect();
    let mut taken = BTreeSet::new();
    let mut runs = Vec::with_capacity(folders.len());
    for folder in folders {
        unknown.remove(folder);
        runs.push(match taken.insert(folder) {
            true => runs_in(&tree.join(folder), problems),
            false => {
                problems.push(format!(
                    "{folder}: two points share this folder; its results are the first one's"
                ));
                Vec::new()
            }
        });
    }
    let left_out = |folder| format!("{folder} does not belong to this command line, and is left out");
    problems.extend(unknown.into_iter().map(left_out));
    Ok(runs)
}

/// Reads the runs of one folder, by ascending number.
fn runs_in(folder: &Path, problems: &mut Vec<String>) -> Vec<ImportedRun> {
    // File names by the numbers of their runs.
    let mut results = BTreeMap::new();
    let mut failures = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("run=").and_then(|name| name.strip_suffix(".json"));
        let (found, number) = match number.and_then(|number| number.strip_suffix(".failure")) {
            Some(number) => (&mut failures, Some(number)),
            None => (&mut results, number),
        };
        match number.map(str::parse::<u32>) {
            Some(Ok(number)) => drop(found.insert(number, name)),
            Some(Err(error)) => problems.push(format!(
                "{}: its number cannot be read ({error}); it is left out",
                folder.join(&name).display()
            )),
            None => {}
        }
    }
    // The result of a later try replaces the failure, which vLLM leaves next to it.
    failures.append(&mut results);
    let read = failures.into_iter().filter_map(|(number, name)| {
        let path = folder.join(name);
        let refused = |problem| problems.push(format!("{} {problem}; it is left to be measured", path.display()));
        ImportedRun::read(&path, number).map_err(refused).ok()
    });
    read.collect()
}
