//! A result tree of `vllm bench sweep serve`, finished or not, as an experiment of the plan that its command line makes.

use crate::cli::experiment::print_damage;
use crate::cli::output::{print_note, say};
use crate::cli::plan_file::show;
use crate::error::{Error, Exit, Result};
use crate::files::write_atomic;
use crate::import::Imported;
use crate::journal::{Directory, Recorder, Shard};
use crate::matrix::Matrix;
use crate::plan::{self, Format, Plan, World};
use crate::run::{Foreign, import_results};
use crate::shell::shell_word;
use crate::units::show_many;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Makes the experiment. Exit code 3 if something in the tree could not be taken.
pub fn import(tree: &Path, imported: &Imported, to: &Path) -> Result<Exit> {
    let Some(folders) = &imported.folders else {
        return Err(Error::Usage(format!(
            "the loads in {} were found by measuring, or differ from those of the plan, so no plan has just them; draw it as it is with \
             `vsweep plot` and `vsweep pareto`",
            tree.display()
        )));
    };
    let directory = Directory::at(to);
    let path = directory.plan(false);
    let plan = plan::parse(&imported.text, Format::Toml, &path, &World::real()).map_err(show)?;
    let matrix = Matrix::expand(&plan).map_err(show)?;
    let mut problems = Vec::new();
    let runs = find(tree, folders, &mut problems)?;
    let count = runs.iter().map(Vec::len).sum::<usize>() as u64;
    if count == 0 {
        problems.iter().for_each(print_note);
        return Err(Error::Usage(format!(
            "no run of this command line is in {}; give the folder that holds SERVE--... and BENCH--... folders, and the \
             command line that made it",
            tree.display()
        )));
    }
    let mut recorder = Recorder::open(directory, Shard::WHOLE)?;
    recorder.hide(plan.secrets.clone());
    let hidden = import_results(&plan, &matrix, runs, &mut recorder)?;
    write_atomic(&path, plan.redacted_text().as_bytes())?;
    let lost =
        |name| format!("what a run measured as `{name}` is lost: vLLM writes the parameter of that name over it");
    problems.extend(hidden.into_iter().map(lost));
    let (taken, all) = (show_many(count, "run"), show_many(matrix.counts().runs, "run"));
    say(format_args!("wrote {}: {taken} of {all}", to.display()));
    print_next_steps(&plan, imported, to, &path);
    Ok(print_damage(&problems))
}

fn print_next_steps(plan: &Plan, imported: &Imported, to: &Path, path: &Path) {
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

/// The runs of each folder. What cannot be taken is a problem, and is missing.
fn find(tree: &Path, folders: &[String], problems: &mut Vec<String>) -> Result<Vec<Vec<Foreign>>> {
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
    let left_out = |folder| format!("{folder} is not of this command line, and is left out");
    problems.extend(unknown.into_iter().map(left_out));
    Ok(runs)
}

fn runs_in(folder: &Path, problems: &mut Vec<String>) -> Vec<Foreign> {
    // File names by their numbers.
    let mut results = BTreeMap::new();
    let mut failures = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("run=").and_then(|name| name.strip_suffix(".json"));
        let (found, number) = match number.and_then(|number| number.strip_suffix(".failure")) {
            Some(number) => (&mut failures, Some(number)),
            None => (&mut results, number),
        };
        if let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) {
            found.insert(number, name);
        }
    }
    // vLLM keeps the failure next to the result of a later try.
    failures.append(&mut results);
    let read = failures.into_iter().filter_map(|(number, name)| {
        let path = folder.join(name);
        let refused = |problem| problems.push(format!("{} {problem}; it is left to be measured", path.display()));
        Foreign::read(&path, number).map_err(refused).ok()
    });
    read.collect()
}
