//! The answer of a plan with targets, as data for templates: for each target the server that holds the highest load, or why none is known;
//! and a table of every server's limits.

use super::card;
use super::points::PointWords;
use crate::inputs::Inputs;
use crate::output::configs::Config;
use crate::output::sla;
use crate::sentences::parts::{replicas, undecided};
use crate::sentences::sentence;
use crate::texts::criteria::{phrase, phrase_of};
use crate::texts::words::server_name;
use itertools::Itertools;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_answer::{Goal, QuestionAnswer};
use vsweep_base::units::show_many;
use vsweep_record::table::{SearchResult, search_results};

/// Most searches without an answer that are listed.
const MOST_LISTED: usize = 3;

/// The limits of every server; `None` if no search has begun.
pub fn limits(inputs: &Inputs<'_>) -> Option<Value> {
    let vary = sla::varied(inputs.state)?;
    let rows = sla::shown(inputs.state, Some(&inputs.answers.document));
    Some(context! {
        vary,
        coarse => rows.iter().any(|row| row.is_coarse).then_some(sla::COARSE),
        interval => sla::explain_interval(&rows),
        rows => Serde(rows),
    })
}

/// The answer of each target under each load, in the order in which their searches began.
pub fn parts(inputs: &Inputs<'_>, configs: &[Config]) -> Vec<Value> {
    let all = search_results(inputs.state);
    let asked = all
        .iter()
        .map(|result| (result.target.name.clone(), sla::load_name(result).unwrap_or_default()));
    let asked = asked.unique().collect_vec();
    let part = |(target, load): (String, &str)| {
        let results = all.iter().filter(|result| result.target.name == target);
        let results = results.filter(|result| sla::load_name(result).unwrap_or_default() == load);
        of_target(inputs, configs, &results.collect_vec())
    };
    asked.into_iter().map(part).collect()
}

fn of_target(inputs: &Inputs<'_>, configs: &[Config], servers: &[&SearchResult<'_>]) -> Value {
    let first = servers[0];
    let title = sla::question(first);
    let open = servers.iter().filter(|row| row.is_open()).count();
    let document = &inputs.answers.document;
    let is_same_question = |answered: &&QuestionAnswer| {
        let is_target = matches!(&answered.goal, Goal::Load { target, .. } if *target == first.target.name);
        is_target && answered.workload == sla::load_name(first).unwrap_or_default()
    };
    let answered = document.questions.iter().find(is_same_question);
    let part = context! {
        title => title.as_str(),
        criteria => first.target.criteria.iter().map(phrase).join(", "),
        open => (open > 0).then(|| show_many(open as u64, "search")),
        sentence => answered.map(|answered| Serde(sentence(document, answered))),
    };
    let winner = answered.and_then(|answered| answered.winner.as_ref());
    let (Some(answered), Some(winner)) = (answered, winner) else {
        let unanswered = servers.iter().filter(|row| row.answer().is_none()).take(MOST_LISTED);
        let unanswered = unanswered.map(|row| {
            let server = server_name(&row.record().started.server, inputs.state);
            format!("{server}: {}; {}", sla::words(row), sla::notes(row))
        });
        return context! { why_none => unanswered.collect_vec(), ..part };
    };
    let winning = servers
        .iter()
        .find(|result| *result.record().started.server.0 == *winner.config);
    let at = inputs.answers.place_of(answered);
    let params = inputs.varied.clone();
    let named = PointWords { inputs, params };
    let metric = first.record().started.vary.name();
    let best = at.map(|at| {
        context! {
            value => winning.and_then(|result| sla::value_in_words(result)),
            one_of => replicas(answered),
            ..card::parts(configs, &named, at, metric, &title)
        }
    });
    let ties = answered.ties.iter();
    let ties = ties.map(|tie| document.name_of(tie).to_owned() + &undecided(answered, tie));
    context! {
        best,
        binding => winning.and_then(|result| Some(phrase_of(result.target, result.answer()?.binding.as_deref()?))),
        is_cut => at.is_some_and(|at| inputs.points.points[at].used.is_empty()),
        tied => ties.collect_vec(),
        ..part
    }
}
