//! Checks a parsed plan before anything starts, so that a typo does not cost a night. Each file looks for one kind of mistake and points at
//! its place in the plan. Prints nothing and changes nothing.

mod addresses;
mod columns;
mod datasets;
pub mod flags;
mod loads;
mod machine;
mod requirements;

pub use addresses::check_side_by_side;
pub use machine::{check as check_machine, check_sizes};

use crate::matrix::{Matrix, ServerConfig};
use crate::plan::{BenchRunner, Draft, Origin, Params, Plan, Problems, Runs, Side, Span, Target};
use std::path::Path;

/// Maximum number of servers, and of loads, that are checked. A plan that was written by hand has far fewer.
const MOST: usize = 10_000;

/// Option of an offline benchmark for the file of its result, which vsweep sets.
const OUTPUT_JSON: &str = "output_json";

/// A plan that can be used, and what it expands to.
pub struct CheckedPlan {
    /// The plan.
    pub plan: Plan,
    /// All its servers and loads.
    pub matrix: Matrix,
    /// Settings that probably do not give what the user wants.
    pub warnings: Option<Problems>,
}

/// All problems of a plan that cannot be used.
#[derive(Debug)]
pub struct Objections {
    /// Reasons why it cannot be used.
    pub errors: Problems,
    /// Settings that probably would not give what the user wants.
    pub warnings: Option<Problems>,
}

impl From<Problems> for Objections {
    fn from(errors: Problems) -> Objections {
        Objections { errors, warnings: None }
    }
}

/// Extent of the slow checks: asking an installed vLLM for its flags, which takes 20 s, and reading the plan's datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowChecks {
    /// vLLM is asked unless its flags are known from an earlier time. Datasets are read.
    Always,
    /// vLLM is asked only if the release that vsweep knows would reject the command line. Other mistakes show when the server starts, which
    /// takes no longer than asking. Datasets are left to the check of the machine.
    InDoubt,
}

/// Expands a plan and checks it. `before_asking` is called before a program is asked for its flags.
pub fn examine(draft: Draft, slow: SlowChecks, before_asking: fn(&Path)) -> Result<CheckedPlan, Objections> {
    let Draft { plan, mut found } = draft;
    let matrix = Matrix::draft(&plan, &mut found);
    if let Some(matrix) = &matrix {
        addresses::check(&plan, matrix, &mut found);
        flags::check(&plan, matrix, (slow, before_asking), &mut found);
        loads::check(&plan, matrix, &mut found);
        columns::check(&plan, matrix, &mut found);
        requirements::check_choice(&plan, matrix, &mut found);
        check_sizes(&plan, matrix, &mut found);
        machine::warn_of_config(&plan, matrix, &mut found);
        requirements::check(&plan, matrix, &mut found);
        if slow == SlowChecks::Always && plan.bench.runner == BenchRunner::Native {
            datasets::check(&plan, matrix, false, &mut found);
        }
    } else {
        loads::check_names(&plan, &mut found);
    }
    let warnings = found.warnings(&plan.origin.sources, &plan.secrets);
    match matrix {
        Some(matrix) if found.is_empty() => Ok(CheckedPlan { plan, matrix, warnings }),
        _ => Err(Objections {
            errors: found.into_problems(&plan.origin.sources, &plan.secrets),
            warnings,
        }),
    }
}

/// Returns the servers that a plan launches, at most [`MOST`].
fn launched<'a>(plan: &Plan, matrix: &'a Matrix) -> impl Iterator<Item = ServerConfig> + use<'a> {
    let is_launched = matches!(plan.serve.target, Target::Launch(_));
    matrix.servers().take(if is_launched { MOST } else { 0 })
}

/// Returns the parameters of at most [`MOST`] loads of the plan; see [`Matrix::specimens`].
fn loads(matrix: &Matrix) -> impl Iterator<Item = Params> {
    matrix.specimens().take(MOST)
}

/// Returns the position at which the plan sets a parameter of one side that `is_it` accepts: in the table, or in the first combination that
/// has it.
fn place_of_param(
    plan: &Plan,
    side: Side,
    is_it: impl Fn(&str) -> bool,
    span: fn(&Origin, &[&str]) -> Span,
) -> Option<Span> {
    let origin = &*plan.origin;
    let place = |name: &str, keys: &[&str]| (is_it(name) && origin.has(keys)).then(|| span(origin, keys));
    let mut params = plan.params(side).iter();
    let in_table = params.find_map(|(name, _)| place(name, &[side.table(), "params", name]));
    in_table.or_else(|| {
        let combos = plan.combos(side).iter().enumerate();
        let mut names = combos.flat_map(|(i, combo)| combo.params.keys().map(move |name| (i.to_string(), name)));
        names.find_map(|(i, name)| place(name, &[side.table(), "combos", &i, name]))
    })
}

/// The figures by which runs and servers are judged, each with its place in the plan. Those of `[sla]` and `[[assert]]` are left out.
fn judging_figures(plan: &Plan) -> Vec<(&str, Vec<String>)> {
    let at = |path: &[&str]| path.iter().map(|&key| key.to_owned()).collect::<Vec<String>>();
    let mut all = Vec::new();
    if let Runs::Until { metric, .. } = &plan.runs {
        all.push((metric.as_str(), at(&["runs", "metric"])));
    }
    if let Some(compare) = &plan.compare {
        let metrics = compare.metrics.iter().enumerate();
        all.extend(metrics.map(|(i, name)| (name.as_str(), at(&["compare", "metrics", &i.to_string()]))));
        let limits = compare.fail_on.iter().enumerate();
        all.extend(limits.map(|(i, limit)| (&*limit.metric, at(&["compare", "fail_on", &i.to_string()]))));
    }
    let objective = plan.optimize.as_ref().and_then(|optimize| optimize.objective.as_ref());
    let objective = objective.filter(|_| plan.sla.is_none());
    all.extend(objective.map(|name| (name.as_str(), at(&["optimize", "objective"]))));
    all
}

/// Returns the flags of the known release: those of the simulator without the ones that vLLM lacks.
fn release_flags<'a>() -> impl Iterator<Item = &'a str> {
    crate::sim::flags::names()
        .into_iter()
        .filter(|name| !name.starts_with("--sim-"))
}

/// Returns true if vLLM's server has a flag for a parameter of this name.
fn is_server_flag(name: &str) -> bool {
    let flag = format!("--{}", crate::plan::spelling::flag(name));
    release_flags().any(|known| known == flag)
}
