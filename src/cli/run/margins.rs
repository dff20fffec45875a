//! The margins of a comparison whose plan states none: those that it was begun with, else what the machine's own noise makes of it.

use crate::journal::{self, Check, Directory};
use crate::plan::{Plan, Program, ServeCommand, Target};
use crate::report::history::{self, History};
use crate::run::host;
use std::collections::BTreeMap;

/// Fills them in. A comparison that was begun keeps its own, whatever the machine shows meanwhile.
pub(super) fn settle(plan: &mut Plan, directory: &Directory, is_begun: bool) {
    let is_simulated = is_simulated(plan);
    let Some(compare) = plan.compare.as_mut().filter(|compare| compare.margins.stated.is_none()) else {
        return;
    };
    let judged = compare.judged();
    let recorded = is_begun.then(|| recorded(directory)).flatten();
    compare.margins.own = recorded.unwrap_or_else(|| {
        let folder = history::parent(directory.root()).unwrap_or_default();
        History::of(&folder, &host(), is_simulated, &judged).margins(&judged)
    });
}

/// What it says to whoever begins it; nothing if the plan states a margin or the machine's noise is not known.
pub(super) fn told(plan: &Plan) -> Option<String> {
    let margins = &plan.compare.as_ref()?.margins;
    let own = margins.own.iter().filter(|_| margins.stated.is_none());
    let own: Vec<String> = own
        .map(|(metric, percent)| format!("{percent} % of {metric}"))
        .collect();
    (!own.is_empty()).then(|| {
        format!(
            "changes within this machine's own noise do not matter: {}; margin in [compare] states another",
            own.join(", ")
        )
    })
}

/// Those of the comparison that was begun in a directory, by metric.
fn recorded(directory: &Directory) -> Option<BTreeMap<String, f64>> {
    let state = directory
        .is_experiment()
        .then(|| journal::load(directory, Check::Lengths).ok())??;
    let family = &state.compared()?.family;
    // As it was before it became a logarithm.
    let percent = |log: f64| (100.0 * log.exp_m1() * 1e6).round() / 1e6;
    let margins = family
        .iter()
        .map(|asked| (asked.metric.clone(), percent(asked.member.margin.log)));
    Some(margins.collect())
}

fn is_simulated(plan: &Plan) -> bool {
    match &plan.serve.target {
        Target::Launch(commands) => commands
            .iter()
            .any(|argv| ServeCommand::of(argv).program() == Program::Simulator),
        Target::Attach(_) => false,
    }
}
