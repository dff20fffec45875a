//! The recommendations as data for templates: for each leading question, the server to run, its command, and the reasons for it.

use super::card;
use crate::inputs::Inputs;
use crate::sentences::parts::replicas;
use crate::sentences::{Pick, picks};
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_answer::{Goal, QuestionAnswer};

/// Returns the recommendation for each leading question, in their order. `bounds` are the sentences about the limits that the recommended
/// servers reach.
pub fn parts(inputs: &Inputs<'_>, bounds: Vec<Option<String>>) -> Vec<Value> {
    let document = &inputs.answers.document;
    let leading = document.leading().into_iter().zip(picks(document));
    leading
        .zip(bounds)
        .map(|((answered, pick), bound)| of_question(inputs, answered, pick, bound))
        .collect()
}

fn of_question(inputs: &Inputs<'_>, answered: &QuestionAnswer, pick: Pick, bound: Option<String>) -> Value {
    let at = inputs.answers.place_of(answered);
    let mut workloads = inputs.answers.workloads.iter();
    let place = workloads.position(|workload| match at {
        Some(at) => workload.bests().any(|best| best == at),
        None => workload.name == answered.workload,
    });
    let commands = at.and_then(|at| card::commands(inputs, inputs.points.points[at].row));
    let target = match &answered.goal {
        Goal::Load { target, .. } => Some(target.as_str()),
        Goal::Metric { .. } => None,
    };
    context! {
        // Index of its workload; none if nothing was measured under it.
        place,
        target,
        bound,
        one_of => replicas(answered),
        command => commands.and_then(|lines| lines.into_iter().flatten().next()),
        ..Value::from(Serde(pick))
    }
}
