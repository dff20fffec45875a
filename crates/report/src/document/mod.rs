//! The report as one document: the input of the templates for the page, the text for a pull request and the terminal.

mod card;
pub mod points;
mod targets;
mod workloads;

use super::charts::explore::in_words;
use super::environment::{self, facts};
use super::findings::failures::Group;
use super::findings::variation::settings;
use super::findings::{bound, cautions, compared};
use super::inputs::Inputs;
use super::output::configs::Config;
use super::output::starts::SweepUsage;
use super::texts::status::unfinished;
use super::texts::words::with_short_names;
use super::{output::sla, sentences};
use crate::sentences::parts::replicas;
use crate::sentences::{Pick, picks};
use itertools::Itertools;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_answer::{Goal, QuestionAnswer};
use vsweep_base::units::show_many;
use vsweep_record::journal::ALONE_SLOT;
use vsweep_record::table::{Cell, Point, Points};
use vsweep_strategy::stats::RequirementVerdict;

/// Most points of a failure that are named.
const MOST_ROWS: usize = 20;

/// The whole document.
pub fn of(inputs: &Inputs<'_>, configs: &[Config]) -> Value {
    let (state, points) = (inputs.state, inputs.points);
    let requirements = inputs
        .requirements
        .iter()
        .map(|judged| context! { is_met => judged.verdict == RequirementVerdict::Met, text => judged.to_string() });
    let failures = inputs.failures.iter().zip(&inputs.excerpts);
    let sum = |count: fn(&Point) -> usize| points.points.iter().map(count).sum::<usize>();
    // Lost runs have rows, but are still to be measured.
    let lost = state.lost();
    // Points do not count failures of a start without neighbours.
    let lost_runs = state.runs().filter(|run| run.is_lost());
    let lost_beside_others = lost_runs.filter(|run| run.slot != ALONE_SLOT).count();
    let has_searches = state.planning_session().is_some_and(|planned| planned.searches > 0);
    let listed = state.runs().map(|run| &run.point);
    let more_points = state.unlisted_points(state.unlisted().map(|(lost, _)| lost), &listed.collect());
    let more_runs = state.unlisted_runs() as usize;
    let (runs, suspect, invalid) = (
        points.runs.rows().saturating_sub(lost) + more_runs,
        sum(|point| point.suspect),
        sum(|point| point.invalid.len()),
    );
    let listed = inputs.answers.workloads.iter();
    let shown = listed.flat_map(|workload| workload.frontier.iter().copied().chain(workload.bests()));
    let skipped = state.skipped_runs() as usize;
    let bounds = bound::sentences(&inputs.answers.document, state, points);
    context! {
        name => inputs.experiment.as_str(),
        live => inputs.live,
        head => environment::head(&inputs.manifest, state).join(" · "),
        counts => context! {
            points => points.points.len() + more_points,
            servers => state.servers.len(),
            runs,
            ok => sum(|point| point.ok),
            suspect => suspect - invalid,
            invalid,
            failed => (sum(|point| point.failed) + more_runs).saturating_sub(lost_beside_others + skipped),
            skipped,
            cut => sum(|point| point.cut.len()),
            alone => sum(|point| point.alone.len()),
            // A search decides on its own runs, so their number is not known.
            left => if has_searches { 0 } else { state.open_work() },
        },
        simulated => simulated(points),
        unfinished => unfinished(state),
        has_goals => !inputs.goals.is_empty(),
        legend => inputs.goals.legend(&shown.collect_vec()),
        explored => in_words(state),
        workloads => workloads::parts(inputs, configs),
        // Texts about points differ if searches chose them.
        is_searched => sla::varied(state).is_some(),
        targets => targets::parts(inputs, configs),
        limits => targets::limits(inputs),
        searches => sla::to_text(state, Some(&inputs.answers.document), usize::MAX),
        configs => configs.iter().map(|config| config.file.clone()).collect_vec(),
        is_linked => inputs.is_in_directory,
        compete => inputs.answers.workloads.len() > 1,
        together => Serde(sentences::together(&inputs.answers.document)),
        // The terminal shows the limit only if there is one recommendation.
        limit => bounds.first().and_then(Option::as_deref).map(bound::briefly),
        picks => recommendations(inputs, bounds),
        spent => SweepUsage::of(state, inputs.options.price_per_gpu_hour).in_words(),
        cautions => cautions::parts(Some(&inputs.answers.document), &inputs.failures, cautions::short_runs(state)),
        remarks => Serde(&inputs.answers.document.remarks),
        losers => sentences::losers(&inputs.answers.document),
        has_deaths => inputs.answers.document.configs.iter().any(|config| config.facts.deaths > 0),
        requirements => requirements.collect_vec(),
        compared => compared::in_words(state),
        chosen => compared::chosen(state),
        optimized => sentences::optimization(&inputs.answers.document),
        failures => failures.map(|(group, excerpt)| failure(inputs, group, excerpt.as_deref())).collect_vec(),
        environment => facts(&inputs.manifest, state),
        plan => inputs.plan.as_str(),
    }
}

/// Returns the word `Some` or `All` for the part of the runs that were measured on the simulator; `None` if none was.
fn simulated(points: &Points<'_>) -> Option<&'static str> {
    let has = |cell: Cell| (0..points.runs.rows()).any(|row| points.runs.cell("simulated", row) == cell);
    // A run whose server never became ready is neither simulated nor real.
    has(Cell::Bool(true)).then(|| if has(Cell::Bool(false)) { "Some" } else { "All" })
}

/// Data of the failures with one cause.
fn failure(inputs: &Inputs<'_>, group: &Group, excerpt: Option<&str>) -> Value {
    let rows = group.rows.iter().take(MOST_ROWS);
    let details = group.details.iter().take(3).map(|detail| {
        let ruled_out = detail.ruled_out.as_deref().map(with_short_names);
        (
            ruled_out.map_or_else(|| detail.text.clone(), |own| own.to_string()),
            detail.runs,
        )
    });
    context! {
        status => group.status_word(),
        verb => group.verb(),
        reason => group.in_words(),
        runs => group.runs_in_words(),
        advice => group.advice.as_str(),
        details => details.collect_vec(),
        points => show_many((group.rows.len() + group.unlisted) as u64, "point"),
        names => rows.map(|row| settings(&inputs.varied, *row)).collect_vec(),
        more => (group.rows.len() + group.unlisted).saturating_sub(MOST_ROWS),
        excerpt,
    }
}

/// Returns the recommendation for each leading question, in their order. `bounds` are the sentences about the limits that the recommended
/// servers reach.
fn recommendations(inputs: &Inputs<'_>, bounds: Vec<Option<String>>) -> Vec<Value> {
    let document = &inputs.answers.document;
    let leading = document.leading().into_iter().zip(picks(document));
    leading
        .zip(bounds)
        .map(|((answered, pick), bound)| recommendation(inputs, answered, pick, bound))
        .collect()
}

fn recommendation(inputs: &Inputs<'_>, answered: &QuestionAnswer, pick: Pick, bound: Option<String>) -> Value {
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
