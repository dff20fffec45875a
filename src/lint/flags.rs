//! Checks the command lines of a plan's servers, or of its offline benchmarks, for flags and values that vLLM would reject. The known
//! release is the one that the simulator imitates. A flag that neither it nor the installed vLLM has is an error; a flag that only the
//! installed vLLM lacks is a warning. Without an installation, unknown flags are warnings, because another release may have them. A value
//! of a wrong type is always an error, and so is everything that a launched simulator would refuse.

use super::{OUTPUT_JSON, SlowChecks, launched, loads, place_of_param, release_flags};
use crate::matrix::Matrix;
use crate::plan::{
    BenchRunner, Diagnostics, Offline, Origin, Plan, Problem, Program, ServeCommand, Side, Span, is_of_server,
    spelling, suggest,
};
use crate::server::address::placed;
use crate::server::installed::InstalledFlags;
use crate::sim::flags::{Objection, names, objections, spelt_out};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The release whose flags are known without asking an installed program.
const RELEASE: &str = "vLLM 0.32";

/// Arguments of the servers of one program.
#[derive(Default)]
struct Arguments {
    objections: BTreeSet<Objection>,
    flags: BTreeSet<String>,
    env: BTreeMap<String, String>,
    /// True if the program is the simulator, whose flags are known.
    is_simulator: bool,
}

/// Returns true if an offline benchmark has an option of this name: one of its own, or one of the engine.
pub fn has(offline: Offline, name: &str) -> bool {
    let flag = format!("--{}", spelling::flag(name));
    let plain = flag.split('.').next().unwrap_or(&flag);
    let positive = plain.replacen("--no-", "--", 1);
    let is_own = offline.own_flags().any(|own| spelling::same(own, name));
    is_own || (!is_of_server(plain) && names().iter().any(|known| *known == plain || *known == positive))
}

/// Checks the flags of every launched server whose program is vLLM or the simulator. `before_asking` is called before a program is asked
/// for its flags.
pub(super) fn check(
    plan: &Plan,
    matrix: &Matrix,
    (slow, before_asking): (SlowChecks, fn(&Path)),
    found: &mut Diagnostics,
) {
    let offline = plan.bench.runner.offline();
    // A key has the program and its `PATH`, if it is vLLM itself, which can be asked for its flags, and true if it is the simulator.
    let mut programs: BTreeMap<(Option<String>, Option<String>, bool), Arguments> = BTreeMap::new();
    for server in launched(plan, matrix) {
        let command = ServeCommand::of(&server.argv);
        if matches!(command.program(), Program::Other | Program::Sglang) {
            continue;
        }
        let is_vllm = matches!(&server.argv[..], [program, serve, ..] if serve == "serve" && program.rsplit('/').next() == Some("vllm"));
        let is_simulator = matches!(command.program(), Program::Simulator);
        let program = is_vllm.then(|| server.argv[0].clone());
        let folders = server.env.get("PATH").filter(|_| is_vllm).cloned();
        let given = programs.entry((program, folders, is_simulator)).or_default();
        given.is_simulator = is_simulator;
        given.objections.extend(objections(&placed(command.args())));
        let words = spelt_out(command.args())
            .into_iter()
            .filter(|word| spelling::is_flag(word));
        let words = words.filter(|word| offline.is_none() || !is_of_server(word));
        given
            .flags
            .extend(words.map(|word| word.split('=').next().unwrap_or(word).to_owned()));
        given.env = server.env;
    }
    for ((program, ..), mut given) in programs {
        let asked = match offline {
            Some(offline) => {
                let names: BTreeSet<String> = loads(matrix)
                    .flat_map(|load| load.into_iter().map(|(name, _)| name))
                    .collect();
                let flag = |name: &String| format!("--{}", spelling::flag(name));
                let unknown = names
                    .iter()
                    .filter(|name| !has(offline, name) && !spelling::same(name, OUTPUT_JSON));
                given
                    .objections
                    .extend(unknown.map(|name| Objection::Unknown { flag: flag(name) }));
                given.flags.extend(names.iter().map(flag));
                vec!["bench", offline.subcommand()]
            }
            None => vec!["serve"],
        };
        let is_asked = slow == SlowChecks::Always || !given.objections.is_empty();
        let announce = is_asked.then_some(before_asking);
        let installed = program.and_then(|program| InstalledFlags::of(&program, &asked, &given.env, announce));
        check_given(plan, &given, installed.as_ref(), found);
    }
}

fn check_given(plan: &Plan, given: &Arguments, installed: Option<&InstalledFlags>, found: &mut Diagnostics) {
    for objection in given
        .objections
        .iter()
        .filter(|objection| !is_refused_by_name(objection))
    {
        match (objection, installed) {
            (Objection::Unknown { flag }, Some(installed)) if installed.has(flag) => {}
            (Objection::Unknown { flag }, Some(installed)) => found.add(unknown(plan, flag, Some(installed))),
            (_, Some(installed)) if is_release(installed) => found.add(problem(plan, objection)),
            _ if given.is_simulator || objection.is_of_every_release() => found.add(problem(plan, objection)),
            _ => found.warn(problem(plan, objection)),
        }
    }
    // The program may accept flags that its help does not list, so this is not an error.
    let Some(installed) = installed else { return };
    for flag in given.flags.iter().filter(|flag| !installed.has(flag)) {
        let is_it = |objection: &Objection| matches!(objection, Objection::Unknown { flag: other } if other == flag);
        if !given.objections.iter().any(is_it) {
            found.warn(unknown(plan, flag, Some(installed)));
        }
    }
}

/// Returns true if an installation has exactly the flags of the known release, and so takes the same values.
fn is_release(installed: &InstalledFlags) -> bool {
    let known: BTreeSet<&str> = release_flags().collect();
    let mut theirs = installed
        .names()
        .filter(|name| name.starts_with("--") && *name != "--help");
    let positive = |name: &str| {
        name.strip_prefix("--no-")
            .is_some_and(|name| known.contains(&*format!("--{name}")))
    };
    known.iter().all(|name| installed.has(name)) && theirs.all(|name| known.contains(name) || positive(name))
}

/// Returns true if the objection comes from a parameter's name that is rejected elsewhere: a short form, or a name with dashes in front.
fn is_refused_by_name(objection: &Objection) -> bool {
    let is_short = |flag: &str| flag.starts_with("--") && spelling::long_name(flag).is_some();
    matches!(objection, Objection::Unknown { flag } if flag.starts_with("---") || is_short(flag))
}

/// Returns the problem of an unknown flag, with the flag that was likely meant.
fn unknown(plan: &Plan, flag: &str, installed: Option<&InstalledFlags>) -> Problem {
    let own = plan.bench.runner.offline().into_iter().flat_map(Offline::own_flags);
    let own: Vec<String> = own.map(|name| format!("--{}", spelling::flag(name))).collect();
    let known: Vec<&str> = match installed {
        Some(installed) => installed.names().filter(|name| name.starts_with("--")).collect(),
        None => release_flags()
            .filter(|name| own.is_empty() || !is_of_server(name))
            .chain(own.iter().map(String::as_str))
            .collect(),
    };
    let hint = suggest(flag, known);
    let (program, general_remedy) = match installed {
        Some(installed) => (
            installed.program.display().to_string(),
            "correct it, or remove it".to_owned(),
        ),
        None => (
            RELEASE.to_owned(),
            format!("correct it; a newer vLLM may have it, {RELEASE} does not"),
        ),
    };
    let remedy = match hint.starts_with("did you mean") {
        true => hint,
        false => general_remedy,
    };
    let place = place_of(plan, flag, Origin::key_span);
    let is_of_load = crate::bench::unknown(&BenchRunner::Native, flag.trim_start_matches('-')).is_none();
    let remedy = match is_of_load && place.is_some() && own.is_empty() {
        true => "it is a parameter of the load: move it to [bench.params]".to_owned(),
        false => remedy,
    };
    let place = place.unwrap_or_else(|| plan.origin.value_span(&["serve", "command"]));
    Problem::new(place, format!("{program} has no flag `{flag}`"), remedy)
}

fn problem(plan: &Plan, objection: &Objection) -> Problem {
    let command = plan.origin.value_span(&["serve", "command"]);
    match objection {
        Objection::Unknown { flag } => unknown(plan, flag, None),
        Objection::Value { flag, why } => Problem::new(
            place_of(plan, flag, Origin::value_span).unwrap_or(command),
            format!("{RELEASE} refuses `{flag}`: {why}"),
            values(why),
        ),
        Objection::Word { word } => Problem::new(
            command,
            format!("{RELEASE} takes no second model, and `{word}` belongs to no flag"),
            "remove it, or put it behind its flag",
        ),
    }
}

/// Returns the values that a flag takes, by its error.
fn values(why: &str) -> &'static str {
    let kind = why
        .strip_prefix("invalid ")
        .and_then(|rest| rest.split([' ', ':']).next());
    match kind {
        Some("int") => "write a whole number, such as 8",
        Some("float") => "write a number, such as 0.9",
        Some("human_readable_int") => "write a whole number, such as 8192 or 8k",
        Some("human_readable_int_or_auto") => "write a whole number, such as 8192 or 8k, or auto",
        Some("loads") => "write JSON",
        Some(_) => "write one of the values that are named",
        None => "give it a value",
    }
}

/// Returns the position at which the plan sets the parameter of a flag, if it does.
fn place_of(plan: &Plan, flag: &str, span: fn(&Origin, &[&str]) -> Span) -> Option<Span> {
    let name = flag.trim_start_matches('-');
    let is_its = |typed: &str| {
        let positive = name.strip_prefix("no-").unwrap_or(name);
        spelling::same(typed, name) || spelling::same(typed, positive)
    };
    let sides = match plan.bench.runner.offline() {
        Some(_) => vec![Side::Serve, Side::Bench],
        None => vec![Side::Serve],
    };
    let mut sides = sides.into_iter();
    sides.find_map(|side| place_of_param(plan, side, is_its, span))
}
