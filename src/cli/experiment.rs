//! Finds the directory of a plan's results and reads its record. Nothing here writes; `vsweep run`, `submit` and `import` begin experiments.

use super::output;
use super::plan_file::{asking, show_all};
use crate::error::{Error, Exit, Result};
use crate::files::foreign_part;
use crate::journal::{self, Check, Directory, Manifest, State};
use crate::lint::{self, CheckedPlan, Objections, SlowChecks};
use crate::matrix::Matrix;
use crate::plan::{self, Format, HIDDEN, Plan, ReportOptions, World};
use crate::report::plan_text;
use crate::run::{Changes, chosen_group};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the directory that the user named, or else the plan's own.
pub fn folder(output: Option<&Path>, plan: &Plan) -> PathBuf {
    output.map_or_else(|| Path::new(RESULTS).join(&plan.name), Path::to_path_buf)
}

/// Folder of results if the user names none.
const RESULTS: &str = "results";

/// Returns the directory that is named, or else the experiment below `results/` whose manifest changed last.
pub fn named_or_newest(named: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named);
    }
    let roots = fs::read_dir(RESULTS)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let dated = roots.filter_map(|root| {
        Some((
            fs::metadata(Directory::at(&root).manifest()).ok()?.modified().ok()?,
            root,
        ))
    });
    let Some((_, newest)) = dated.max() else {
        return Err(Error::Usage(
            "no directory is named, and ./results holds no experiment; name the directory that `vsweep run` wrote"
                .into(),
        ));
    };
    output::inform(format_args!("the newest below ./{RESULTS} is {}", newest.display()));
    Ok(newest)
}

/// Returns the directory at a path. Refuses a directory with files that are not vsweep's.
pub fn ours(path: &Path) -> Result<Directory> {
    let directory = Directory::at(path);
    match directory.is_ours() {
        true => Ok(directory),
        false => Err(Error::Usage(format!(
            "{} holds files that are no experiment; choose another directory with -o",
            path.display()
        ))),
    }
}

/// Refuses a directory whose results all belong to another plan. `remedy` is the end of the message, with a further remedy.
pub fn must_not_be_another(directory: &Directory, changes: &Changes, state: &State, remedy: &str) -> Result<()> {
    match changes.foreign(state) {
        None => Ok(()),
        Some(other) => Err(Error::Usage(format!(
            "{} holds the results of another plan, {other}, and nothing of them is in this one; choose another directory with -o{remedy}",
            directory.root().display()
        ))),
    }
}

/// Refuses a part of a plan if the next start follows from the results of all its servers.
pub fn must_be_whole(plan: &Plan, is_part: bool) -> Result<()> {
    match chosen_group(plan).filter(|_| is_part) {
        None => Ok(()),
        Some(what) => Err(Error::Usage(format!(
            "[{what}] chooses among all servers of the plan; leave out --only and --shard"
        ))),
    }
}

/// Prints lost and damaged results, and returns the exit code for them.
pub fn print_damage(damage: &[String]) -> Exit {
    damage.iter().for_each(output::print_note);
    exit_of(damage)
}

/// Returns the exit code for lost and damaged results, which may be none.
pub fn exit_of(damage: &[String]) -> Exit {
    match damage.is_empty() {
        true => Exit::Done,
        false => Exit::SomeFailed,
    }
}

/// Reads the recorded state without locking the directory; empty if no sweep was begun there.
pub fn recorded(directory: &Directory) -> Result<State> {
    match directory.is_new() {
        true => Ok(State::default()),
        false => journal::load(directory, Check::Hashes),
    }
}

/// Reads the current plan of an experiment from its record, expands it and shows all its problems.
pub fn recorded_plan(directory: &Directory, state: &State, adapt: impl FnOnce(&mut Plan)) -> Result<(Plan, Matrix)> {
    let root = directory.root().display();
    if let Some((.., text)) = state.plan_that_counts()
        && text.contains(HIDDEN)
    {
        return Err(Error::Usage(format!(
            "the plan recorded in {root} has a secret hidden in it ({HIDDEN}), so it cannot be continued from the record alone; write the secret as \
             ${{NAME}}, set that variable where the workers run, and submit the plan again"
        )));
    }
    read_plan(directory, state, adapt, show_all)
}

/// Like `recorded_plan`, for read-only commands: hidden secrets are allowed. `refuse` turns problems into an error.
pub fn read_plan(
    directory: &Directory,
    state: &State,
    adapt: impl FnOnce(&mut Plan),
    refuse: fn(Objections) -> Error,
) -> Result<(Plan, Matrix)> {
    let root = directory.root().display();
    let Some((name, sha256, text)) = state.plan_that_counts() else {
        return Err(Error::Fatal(format!(
            "{root} records no plan that can be read again; give the plan to `vsweep submit` with -o {root}"
        )));
    };
    let format = Format::of_text(text);
    let given = Manifest::plan_of(directory).unwrap_or_else(|| format!("{name}.toml").into());
    let mut draft = plan::draft_of(text, format, &given, &World::real()).map_err(|errors| refuse(errors.into()))?;
    // A plan without a name has the name of its file, which may have another one now.
    name.clone_into(&mut draft.plan.name);
    adapt(&mut draft.plan);
    let CheckedPlan { mut plan, matrix, .. } = lint::examine(draft, SlowChecks::InDoubt, asking).map_err(refuse)?;
    plan.path = given;
    // The text is the recorded one, so only the points that it gives here can differ.
    text.clone_into(&mut plan.text);
    if Changes::between(state, &matrix, &plan).plan.sha256 != sha256 {
        return Err(Error::Fatal(format!(
            "the plan recorded in {root} means something else here than where it was recorded: a variable of the environment or a file \
             that it names differs; make them the same, or submit the plan again"
        )));
    }
    Ok((plan, matrix))
}

/// Returns the `[report]` table of the plan that was run, with the price that the user gave. The rest of the plan is not examined, because
/// it may refer to files and variables that exist only where it ran.
pub fn options(directory: &Directory, state: &State, price: Option<f64>) -> ReportOptions {
    let recorded = plan_text(directory, state);
    let mut options = recorded.map_or_else(ReportOptions::default, |(text, format)| {
        let path = directory.plan(format == Format::Json);
        if let Ok(draft) = plan::draft_of(&text, format, &path, &World::real()) {
            draft.plan.report
        } else {
            let path = path.display();
            output::print_note(format_args!(
                "the plan recorded here cannot be read, so the plots it asks for are left out and its requirements not judged; `vsweep check {path}` says why"
            ));
            ReportOptions::default()
        }
    });
    options.price_per_gpu_hour = price.or(options.price_per_gpu_hour);
    options
}

// vsweep does not write to a directory that another user could have planted. Every user of a machine can make a folder in `/tmp` before
// another user does, and can then change the files in it.

/// Directories of other users that are written to.
#[derive(Debug, Default, clap::Args)]
pub struct Owner {
    /// Write to a directory of another user, even below one where everybody can make directories, such as /tmp
    #[arg(long)]
    other_owner: bool,
}

impl Owner {
    /// Refuses a directory that another user could have planted, and prints a note about one that another user owns.
    pub fn check(&self, root: &Path) -> Result<()> {
        let Some(foreign) = foreign_part(root).filter(|_| !self.other_owner) else {
            return Ok(());
        };
        if foreign.is_planted {
            return Err(Error::Usage(format!(
                "{foreign}, who could change every file that is written there; choose another directory, or \
                 give --other-owner if you trust that user"
            )));
        }
        output::inform(&foreign);
        Ok(())
    }
}
