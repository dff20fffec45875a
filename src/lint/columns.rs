//! Columns that a plan's `[report]` names and no run will have.

use crate::matrix::Matrix;
use crate::plan::{BenchRunner, Diagnostics, Plan, Side, spelling, suggest};
use crate::report::columns;

/// Checks the columns of a plan whose figures are known: those of our own benchmarks. What another one writes into its result
/// is its own affair, and so is `metadata`.
pub(super) fn check(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let of_side = |side: Side| {
        let names = matrix.names(side).into_iter();
        names.map(move |name| format!("{}.{name}", side.table()))
    };
    let params: Vec<String> = of_side(Side::Serve).chain(of_side(Side::Bench)).collect();
    let has_metadata = params.iter().any(|name| name == "bench.metadata");
    // An incomplete plan may lack parameters.
    let runner = &plan.bench.runner;
    if !found.is_empty() || matches!(runner, BenchRunner::Command(_)) || has_metadata {
        return;
    }
    let is_param = |name: &str| {
        let bare = |param: &str| {
            param
                .split_once('.')
                .is_some_and(|(_, bare)| spelling::same(bare, name))
        };
        params.iter().any(|param| spelling::same(param, name) || bare(param))
    };
    let mut require = |name: &str, place: &[&str]| {
        if is_param(name) || columns::is_known(runner, name) {
            return;
        }
        let known: Vec<String> = columns::known(runner).chain(params.iter().cloned()).collect();
        let remedy = match suggest(name, known.iter().map(String::as_str)) {
            hint if hint.starts_with("did you mean") => hint,
            _ => "name a parameter of the plan, or a figure such as output_throughput".to_owned(),
        };
        let message = format!("no run will have a column `{name}`");
        found.object(plan.origin.value_span(place), message, remedy);
    };
    for (i, name) in plan.report.pareto_label_by.iter().enumerate() {
        require(name, &["report", "pareto", "label_by", &i.to_string()]);
    }
    for (i, plot) in plan.report.plots.iter().enumerate() {
        let place = i.to_string();
        require(&plot.x, &["report", "plot", &place, "x"]);
        require(&plot.y, &["report", "plot", &place, "y"]);
        for (by, name) in plot.curve_by.iter().enumerate() {
            require(name, &["report", "plot", &place, "curve_by", &by.to_string()]);
        }
    }
}
