//! `vsweep run`: performs the work of a plan that the journal still lacks.

mod display;
mod preflight;
mod tables;
mod words;

use super::plan::{rehearse::AssumedMachine, show};
use crate::agenda::{self, Ending, Predictions, needs_predictions};
use crate::cli::experiment::{Owner, folder, must_be_whole, must_not_be_another, ours, print_damage};
use crate::cli::flags::one_of;
use crate::cli::forecast::{self, Countdown};
use crate::cli::plan_file::PlanFile;
use crate::cli::{machine, output};
use crate::error::{Exit, Result};
use crate::files::{MOST_TEXT, read_text, write_atomic};
use crate::journal::{self, Check, Directory, Recorder, Shard, State};
use crate::plan::Plan;
use crate::report::progress::{Mode, Progress};
use crate::report::texts::ending;
use crate::run::{Changes, Interrupt, ServerSeconds, Sweep, Update, on_finish};
use crate::{report, threads};
pub use display::counter;
use display::{Display, eta};
use preflight::{answers, first_guesses, margins_in_words, predictions, server_seconds};
pub use preflight::{check_machine, find_node, gpus_here, noise_of_neighbours, settle_gpus, settle_margins};
use std::cell::OnceCell;
use std::fs;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tables::Tables;

/// Run a plan: start servers, benchmark each, write the results
///
/// Run again after a crash and it continues; run again after success and it does nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PlanFile,
    /// Directory of the results [default: results/<plan name>]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    owner: Owner,
    /// Start over in a new directory; the old one is kept
    #[arg(long, conflicts_with = "shard")]
    fresh: bool,
    /// Show what would be measured as `vsweep plan` does, and start nothing
    #[arg(long, conflicts_with_all = ["format", "table"])]
    dry_run: bool,
    /// Measure failed runs again
    #[arg(long)]
    retry_failed: bool,
    /// At the end, start those servers again whose repetition makes the answer surer
    #[arg(long, conflicts_with_all = ["only", "shard", "dry_run", "budget"])]
    confirm: bool,
    /// End with the table of the best points, as `vsweep report` prints it
    #[arg(long)]
    table: bool,
    /// Measure only what meets all of these conditions, such as tensor_parallel_size=2,max_concurrency>=8
    #[arg(long, value_name = "CONDITIONS")]
    only: Option<String>,
    /// Do only the I-th of N shares of the servers, e.g. 2/8
    #[arg(long, value_name = "I/N", default_value = "1/1", hide_default_value = true)]
    shard: Shard,
    /// Format of progress: text (a live display on a terminal, plain lines otherwise), plain (one line per event), or json (the journal's
    /// own line for each event)
    #[arg(long, default_value = "text", hide_default_value = true, value_parser = one_of(MODES))]
    format: Mode,
}

const MODES: [(&str, Mode); 3] = [("text", Mode::Auto), ("plain", Mode::Plain), ("json", Mode::Json)];

/// Ends a command that is interrupted before it has begun anything.
pub fn leave() {
    output::print_note("interrupted before anything was begun");
    std::process::exit(Exit::Interrupted as i32);
}

pub fn run(args: Args) -> Result<Exit> {
    let mut interrupt = Interrupt::install_early(leave)?;
    let (mut plan, whole, _) = args.file.open(|plan| {
        let directory = Directory::at(folder(args.output.as_deref(), plan));
        settle_margins(plan, &directory, !args.fresh);
    })?;
    let directory = choose_directory(&args, &plan)?;
    args.owner.check(directory.root())?;
    settle_gpus(&mut plan, &directory, |known, plan| known.or_else(|| gpus_here(plan)));
    let part = args.only.as_deref().map(|only| whole.only(only)).transpose()?;
    let wanted = part.as_ref().unwrap_or(&whole);
    must_be_whole(&plan, part.is_some() || args.shard != Shard::WHOLE)?;
    let node = if args.dry_run { None } else { find_node(&plan) };
    let sweep = Sweep {
        wanted,
        shard: args.shard,
        retry_failed: args.retry_failed,
        node: node.as_ref(),
        ..Sweep::of(&plan, &whole)
    };
    if args.dry_run {
        return show(
            &sweep,
            &directory,
            false,
            &AssumedMachine::default(),
            output::OutputFormat::Text,
        );
    }
    let mode = match output::is_quiet() && args.format != Mode::Json {
        true => Mode::Quiet,
        false => args.format,
    };
    // The recorder holds the directory's lock until everything is written.
    let (recorder, state, changes) = begin(&sweep, &directory)?;
    let noise = noise_of_neighbours(&plan, &directory, &state);
    let sweep = Sweep { noise: &noise, ..sweep };
    let work = |mut recorder: Recorder| {
        let tables = Some(Tables::of(&directory, &plan.report)?);
        let mut ending = perform(sweep, &state, changes, &mut recorder, mode, &mut interrupt, tables)?;
        drop(state);
        if args.confirm && matches!(ending, Ending::Finished | Ending::NothingLeft) {
            match confirm(sweep, &mut recorder, mode, &mut interrupt)? {
                Ending::NothingLeft => {}
                confirmed => ending = confirmed,
            }
        }
        // The lock is held until everything is written.
        let (state, _lock, _recorder) = match ending {
            Ending::NothingLeft if !args.confirm => {
                let (state, lock) = recorder.into_state()?;
                (state, Some(lock), None)
            }
            // Reads from disk again, because other shards may have recorded meanwhile.
            _ => (journal::load(&directory, Check::Hashes)?, None, Some(recorder)),
        };
        let exit = conclude((ending, args.table), &state, sweep, &directory, mode, &mut interrupt)?;
        if args.shard != Shard::WHOLE {
            // If shards end together, the one that writes last may have read before the others recorded their last runs.
            let latest = journal::load(&directory, Check::Lengths)?;
            if !report::is_current(&directory, &latest) {
                report::write_all(&directory, &latest, &plan.report)?;
            }
        }
        Ok((ending, exit))
    };
    let ended = work(recorder);
    // The lock is given up before the command of `[on_finish]` runs.
    follow(&plan, &directory, &ended, &mut interrupt);
    ended.map(|(_, exit)| exit)
}

/// Locks the directory, and returns its recorder, the recorded state, and the changes that the plan makes. A new directory is made only for
/// a sweep that can begin.
fn begin(sweep: &Sweep<'_>, directory: &Directory) -> Result<(Recorder, Arc<State>, Changes)> {
    let plan = sweep.plan;
    let is_new = directory.is_new();
    if is_new {
        check_machine(sweep, &State::default())?;
    }
    let mut recorder = Recorder::open(directory.clone(), sweep.shard)?;
    recorder.hide(plan.secrets.clone());
    if is_new {
        // Expanding a large plan takes seconds. The sweep is announced before, so that `vsweep status` shows it meanwhile.
        write_plan(plan, directory, recorder.state())?;
        recorder.announce()?;
    }
    let mut state = recorder.snapshot();
    let changes = Changes::between(&state, sweep.whole, plan);
    if !is_new {
        must_not_be_another(directory, &changes, &state, ", or begin a new one with --fresh")?;
        if sweep.begins_anew(&state) {
            sweep.imagine_anew(Arc::make_mut(&mut state));
        }
        check_machine(sweep, &state)?;
        write_plan(plan, directory, &state)?;
    }
    Ok((recorder, state, changes))
}

/// Performs the starts that the answer advises.
fn confirm(sweep: Sweep<'_>, recorder: &mut Recorder, mode: Mode, interrupt: &mut Interrupt) -> Result<Ending> {
    let state = recorder.snapshot();
    let advised = agenda::advised(sweep.plan, sweep.whole, &state);
    if advised.servers.is_empty() {
        output::inform("more starts would not make the answer surer, so none is added");
        return Ok(Ending::NothingLeft);
    }
    let sweep = Sweep {
        advised: Some(&advised),
        // The sweep before has just measured them again.
        retry_failed: false,
        ..sweep
    };
    let changes = Changes::between(&state, sweep.whole, sweep.plan);
    let tables = Tables::of(recorder.directory(), &sweep.plan.report)?;
    perform(sweep, &state, changes, recorder, mode, interrupt, Some(tables))
}

/// Brings tables and charts up to date, prints how the sweep ended, and returns the exit code.
fn conclude(
    (ending, table): (Ending, bool),
    state: &State,
    sweep: Sweep<'_>,
    directory: &Directory,
    mode: Mode,
    interrupt: &mut Interrupt,
) -> Result<Exit> {
    let plan = sweep.plan;
    let is_shown = matches!(mode, Mode::Auto | Mode::Plain);
    let last_message = |ending| words::last(ending, directory, state, &sweep);
    let has_results = state.runs().next().is_some() || directory.summary_csv().exists();
    let judged = if has_results && (table || !report::is_current(directory, state)) {
        let (root, recorded, options) = (directory.clone(), state.clone(), plan.report.clone());
        let write = move || report::write_all(&root, &recorded, &options);
        let Some(written) = machine::runtime()?.block_on(unless_interrupted(write, interrupt)) else {
            let last_message = last_message(Ending::Interrupted);
            output::print_note(format_args!("{last_message}; tables and charts are not all written"));
            // Files are replaced atomically, so the writer thread can be abandoned.
            std::process::exit(Exit::Interrupted as i32);
        };
        let written = written?;
        written.problems.iter().for_each(output::print_note);
        written.notes.iter().for_each(output::inform);
        if is_shown {
            let text = if table { written.summary } else { written.ending };
            output::say(text.trim_end());
        }
        written.requirements
    } else {
        if is_shown && has_results {
            output::say(ending::of_record(directory, state).trim_end());
        }
        report::judge(directory, state, &plan.report)
    };
    let damage = print_damage(&state.damage);
    let required = output::print_requirements(&judged, is_shown);
    let is_left = matches!(
        ending,
        Ending::Interrupted | Ending::OutOfTime | Ending::StoppedOnFailure
    );
    if is_shown && has_results && is_left {
        output::say(words::results(directory));
    }
    if ending == Ending::Interrupted {
        output::print_note(last_message(ending));
    } else if is_shown {
        output::say(last_message(ending));
    }
    Ok(match ending {
        Ending::Interrupted => Exit::Interrupted,
        Ending::Superseded => Exit::CannotGoOn,
        _ if state.failures() > 0 || state.searches_given_up() > 0 => required.or(Exit::SomeFailed),
        _ => required.or(damage),
    })
}

/// Returns the result of the work, or `None` as soon as the user presses Ctrl-C again.
async fn unless_interrupted<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    interrupt: &mut Interrupt,
) -> Option<T> {
    if !threads::is_allowed() {
        // Without another thread, signals cannot be awaited during the work.
        return Some(work());
    }
    tokio::select! {
        done = tokio::task::spawn_blocking(work) => Some(done.unwrap_or_else(|error| resume_unwind(error.into_panic()))),
        () = interrupt.pressed_again() => None,
    }
}

/// Runs the command of `[on_finish]`, if the plan has one and the session did anything. Pressing Ctrl-C again ends it. Prints a
/// warning if it fails.
fn follow(plan: &Plan, directory: &Directory, ended: &Result<(Ending, Exit)>, interrupt: &mut Interrupt) {
    let Some(hook) = &plan.on_finish else { return };
    let ending = match ended {
        Ok((Ending::NothingLeft, _)) => return,
        Ok((ending, exit)) => (ending.reason(), *exit),
        Err(_) => ("error", Exit::CannotGoOn),
    };
    let Ok(runtime) = machine::runtime() else { return };
    let interrupted = interrupt.pressed_again();
    let done = on_finish::perform(hook, &plan.secrets, directory, ending, interrupted);
    if let Err(why) = runtime.block_on(done) {
        output::print_note(why);
    }
}

/// Performs a sweep, with the predictions that are possible from this state.
pub fn perform(
    sweep: Sweep<'_>,
    state: &State,
    changes: Changes,
    recorder: &mut Recorder,
    mode: Mode,
    interrupt: &mut Interrupt,
    tables: Option<Tables>,
) -> Result<Ending> {
    let options = forecast::options_at(sweep.plan, sweep.wanted, recorder.directory());
    let estimated = OnceCell::new();
    let estimate = || estimated.get_or_init(|| forecast::estimate(sweep.schedule(), state, state, &options));
    let seconds = match sweep.node {
        Some(_) => server_seconds(estimate()),
        None => ServerSeconds::new(),
    };
    let is_unpredicted = sweep.share.is_none() && needs_predictions(sweep.plan, sweep.whole, state.optimization());
    // Predictions are compared with each other, so servers that were measured before need predictions too.
    let empty = State::default();
    let has_results = is_unpredicted && state.runs().next().is_some();
    let done = if has_results { &empty } else { state };
    let for_all = has_results.then(|| forecast::estimate(sweep.schedule(), done, state, &options));
    let rehearsed = is_unpredicted.then(|| for_all.as_ref().unwrap_or_else(|| estimate()).as_ref());
    let (forecasts, predictions) = match rehearsed {
        Some(Ok(rehearsal)) => (
            answers(&sweep, &options, rehearsal),
            predictions(&sweep, (done, state), &options, rehearsal),
        ),
        _ => (first_guesses(&sweep, state, &options), Predictions::new()),
    };
    let sweep = Sweep {
        forecasts: &forecasts,
        seconds: &seconds,
        predictions: &predictions,
        ..sweep
    };
    let is_shown = matches!(mode, Mode::Auto | Mode::Plain);
    // A worker among several does not know its share of the work.
    if is_shown && sweep.share.is_none() && forecast::is_known(sweep.wanted, &options) {
        forecast::print_forecast(&sweep, state, estimate());
    }
    if let Some(margins) =
        margins_in_words(sweep.plan).filter(|_| !matches!(mode, Mode::Quiet) && sweep.share.is_none())
    {
        output::print_note(margins);
    }
    let progress = Progress::new(mode, eta(&sweep, recorder.state(), &options));
    // Forecasts take a while. Until here, a signal ends the command at once.
    interrupt.heed();
    thread::scope(|scope| {
        let counts = sweep.wanted.counts();
        // The number of starts of an optimisation is unknown.
        let is_foreseen = is_shown
            && sweep.plan.optimize.is_none()
            && forecast::is_playable(counts.runs, counts.searches, counts.servers);
        let countdown = is_foreseen.then(|| Countdown::start(scope, sweep.schedule(), &options));
        let mut display = Display {
            sweep,
            progress,
            countdown,
            tables,
            pairs: 0,
        };
        let mut observer = |update: Update<'_>, recorder: &Recorder| display.show(update, recorder);
        let performed = sweep.perform(changes, recorder, interrupt, &mut observer);
        let ended = machine::runtime()?.block_on(performed);
        let written = display.end();
        ended.and_then(|ending| written.map(|()| ending))
    })
}

/// Writes the plan's text into the directory, and removes that of the recorded plan if it is in the other format. Another file of that name
/// is the user's own.
pub fn write_plan(plan: &Plan, directory: &Directory, state: &State) -> Result<()> {
    let is_json = plan.format == crate::plan::Format::Json;
    write_atomic(&directory.plan(is_json), plan.redacted_text().as_bytes())?;
    let other = directory.plan(!is_json);
    let written = read_text(&other, MOST_TEXT).ok();
    let is_recorded = |text: String| {
        state
            .plan_that_counts()
            .is_some_and(|(_, _, recorded)| recorded == text)
    };
    if written.is_some_and(is_recorded) {
        let _ = fs::remove_file(other);
    }
    Ok(())
}

/// Returns the directory for the results. With `--fresh`, a name that is taken gets the first number with which it is free.
fn choose_directory(args: &Args, plan: &Plan) -> Result<Directory> {
    let wanted = folder(args.output.as_deref(), plan);
    if args.fresh && wanted.exists() {
        let name = wanted.file_name().unwrap_or_default().to_string_lossy();
        let mut numbered = (2u32..).map(|number| wanted.with_file_name(format!("{name}-{number}")));
        let free = numbered.find(|path| !path.exists());
        let free = free.expect("one of four billion names is free");
        output::inform(format_args!("starting over in {}", free.display()));
        return Ok(Directory::at(free));
    }
    ours(&wanted)
}
