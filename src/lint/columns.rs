//! Reports columns that a plan names, in `[report]` and elsewhere, and that no run will have.

use super::judging_figures;
use crate::matrix::Matrix;
use crate::plan::{BenchRunner, Diagnostics, Plan, Side, spelling, suggest};
use crate::report::columns;
use crate::stats::split_class;

/// Checks the columns of a plan if their names are known. They are unknown if another program measures the load, or if the plan sets
/// `metadata`.
pub(super) fn check(plan: &Plan, matrix: &Matrix, found: &mut Diagnostics) {
    let of_side = |side: Side| {
        let names = matrix.names(side).into_iter();
        names.map(move |name| format!("{}.{name}", side.table()))
    };
    let params: Vec<String> = of_side(Side::Serve).chain(of_side(Side::Bench)).collect();
    let has_metadata = params.iter().any(|name| name == "bench.metadata");
    // A plan with other problems may lack parameters, so its columns are not checked.
    let runner = &plan.bench.runner;
    if !found.is_empty() || matches!(runner, BenchRunner::Command(_)) || has_metadata {
        return;
    }
    let classes = plan.classes();
    let is_param = |name: &str| {
        let bare = |param: &str| {
            param
                .split_once('.')
                .is_some_and(|(_, bare)| spelling::same(bare, name))
        };
        params.iter().any(|param| spelling::same(param, name) || bare(param))
    };
    let mut require = |name: &str, place: &[&str]| {
        if is_param(name) || columns::is_known(runner, name) || columns::is_known_of(&classes, name) {
            return;
        }
        let known = columns::known(runner).chain(params.iter().cloned());
        let known: Vec<String> = known.chain(columns::known_of(&classes)).collect();
        let message = format!("no run will have a column `{name}`");
        let remedy = match (suggest(name, known.iter().map(String::as_str)), split_class(name)) {
            (_, (Some(class), _)) if !classes.is_empty() && !classes.iter().any(|known| known == class) => {
                suggest(class, classes.iter().map(String::as_str))
            }
            (hint, _) if hint.starts_with("did you mean") => hint,
            _ => "name a parameter of the plan, or a figure such as output_throughput".to_owned(),
        };
        found.object(plan.origin.value_span(place), message, remedy);
    };
    let is_of_class = |name: &str| split_class(name).0.is_some();
    for (name, place) in judging_figures(plan) {
        if is_of_class(name) || place[0] == "optimize" {
            let place: Vec<&str> = place.iter().map(String::as_str).collect();
            require(name, &place);
        }
    }
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
