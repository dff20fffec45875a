//! What vLLM would refuse in the command lines of a plan's servers: flags that it does not have, and values that they do not
//! take. Measured against the flags of the release that the simulator imitates; another one may have more, so these are warnings.

use super::native_check::MOST_POINTS;
use crate::matrix::Matrix;
use crate::plan::{Found, Plan, Problem, Program, ServeCommand, Side, Span, Target, spelling, suggest};
use crate::sim::flags::{Objection, names, objections};
use std::collections::BTreeSet;

/// Whose flags they are.
const RELEASE: &str = "vLLM 0.32";

/// Checks the flags of every server that the plan launches, if its program is vLLM or the simulator.
pub fn check(plan: &Plan, matrix: &Matrix, found: &mut Found) {
    let Target::Launch(_) = plan.serve.target else {
        return;
    };
    let mut told: BTreeSet<Objection> = BTreeSet::new();
    for server in matrix.servers().take(MOST_POINTS) {
        let command = ServeCommand::of(&server.argv);
        if command.program() == Program::Other {
            return;
        }
        told.extend(objections(command.args()));
    }
    for objection in told.iter().filter(|objection| !is_told(objection)) {
        found.warn(problem(plan, objection));
    }
}

/// Whether it comes from a parameter's name that is refused already: a short form, or one with dashes before it.
fn is_told(objection: &Objection) -> bool {
    match objection {
        Objection::Unknown { flag } => {
            flag.starts_with("---") || (flag.starts_with("--") && spelling::long_name(flag).is_some())
        }
        Objection::Value { .. } | Objection::Word { .. } => false,
    }
}

fn problem(plan: &Plan, objection: &Objection) -> Problem {
    let command = plan.origin.value_span(&["serve", "command"]);
    match objection {
        Objection::Unknown { flag } => {
            // Nobody means the simulator's own.
            let known = names().into_iter().filter(|name| !name.starts_with("--sim-"));
            let hint = suggest(flag, known);
            let remedy = match hint.starts_with("did you mean") {
                true => hint,
                false => format!("correct it; a newer vLLM may have it, {RELEASE} does not"),
            };
            Problem::new(
                place_of(plan, flag).unwrap_or(command),
                format!("{RELEASE} has no flag `{flag}`"),
                remedy,
            )
        }
        Objection::Value { flag, why } => Problem::new(
            place_of(plan, flag).unwrap_or(command),
            format!("{RELEASE} refuses `{flag}`: {why}"),
            "write a value that it takes",
        ),
        Objection::Word { word } => Problem::new(
            command,
            format!("{RELEASE} takes no second model, and `{word}` belongs to no flag"),
            "remove it, or put it behind its flag",
        ),
    }
}

/// Where the plan sets the parameter of a flag: in the table, or in the first combination that has it.
fn place_of(plan: &Plan, flag: &str) -> Option<Span> {
    let name = flag.trim_start_matches('-');
    let is_its = |typed: &str| {
        let positive = name.strip_prefix("no-").unwrap_or(name);
        spelling::same(typed, name) || spelling::same(typed, positive)
    };
    let at = |keys: &[&str]| plan.origin.has(keys).then(|| plan.origin.value_span(keys));
    let params = plan.params(Side::Serve).iter();
    let mut typed = params.filter(|(typed, _)| is_its(typed));
    typed
        .find_map(|(typed, _)| at(&["serve", "params", typed]))
        .or_else(|| {
            let combos = plan.combos(Side::Serve).iter().enumerate();
            let mut typed = combos.flat_map(|(i, combo)| combo.params.keys().map(move |typed| (i.to_string(), typed)));
            typed.find_map(|(i, typed)| at(&["serve", "combos", &i, typed]).filter(|_| is_its(typed)))
        })
}
