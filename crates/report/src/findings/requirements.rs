//! Judges the plan's requirements by the measurements. Pure: the tables' points and the searches' answers go in, verdicts come out. The
//! `cli` room chooses the exit code.

use super::variation::name_workload;
use super::{compared, losses};
use crate::ordered::Ordered;
use crate::output::sla;
use crate::texts::criteria::phrase;
use crate::texts::status::unfinished;
use crate::texts::words::{server_name, short_label, show_number};
use itertools::Itertools;
use std::fmt;
use vsweep_answer::{Answer, Goal, QuestionAnswer, replicas_on};
use vsweep_base::ids::ServerId;
use vsweep_plan::{Assertion, Params, ServerCondition, Servers};
use vsweep_record::journal::{ComparisonDesign, Entrant, RunRecord, State};
use vsweep_record::table::{Point, Points, SearchResult, Workload, search_results};
use vsweep_strategy::search::{Criterion, Found, Quantity};
use vsweep_strategy::stats::RequirementVerdict::{self, Broken, Met, Undecided};

/// A requirement of the plan, judged for one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequirementResult {
    /// The requirement, with its workload if there are several.
    pub text: String,
    /// The verdict.
    pub verdict: RequirementVerdict,
    /// The observation behind it.
    pub why: String,
}

/// Formats the result: `requirement met: target chat (tp 2: up to 123)`.
impl fmt::Display for RequirementResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Met => "met",
            Undecided => "not decided",
            Broken => "not met",
        };
        write!(f, "requirement {verdict}: {} ({})", self.text, self.why)
    }
}

/// Verdict of one server, or of one of its points, with the reason.
pub(crate) type ReasonedVerdict = (RequirementVerdict, String);

/// Judges every requirement for each workload. If several servers meet a requirement, the answer's winner is named.
pub fn judge(
    required: &[vsweep_plan::Requirement],
    state: &State,
    points: &Points<'_>,
    answer: &Answer,
) -> Vec<RequirementResult> {
    let judged = required.iter().flat_map(|required| match &required.what {
        ServerCondition::Target(name) => judge_target(required, name, state, answer),
        ServerCondition::Points(assertion) => judge_points(required, assertion, state, points, answer),
    });
    judged.chain(judge_comparison(state, points)).collect()
}

/// Verdicts on the limits of the plan's comparison. An arm without valid results, or a new one that loses requests, decides all of them.
fn judge_comparison(state: &State, points: &Points<'_>) -> Vec<RequirementResult> {
    let Some(compared) = state.compared() else {
        return Vec::new();
    };
    let findings = compared::findings(compared, state);
    let fault = compared::fault(compared, state);
    let judged = compared.family.iter().enumerate().filter_map(|(at, asked)| {
        let bound = asked.member.bound?;
        let finding = findings.get(at);
        let found = finding.and_then(|finding| Some((finding.requirement?, compared::ratio(asked, finding))));
        let found = found.unwrap_or_else(|| {
            let why = "the comparison is not finished".to_owned();
            (Undecided, why)
        });
        let at_most = fault.clone().or_else(|| lost_at(compared, asked.load, points));
        let (verdict, why) = match at_most {
            Some(worse) if worse.0 >= found.0 => worse,
            _ => found,
        };
        let percent = format!("{:+.3}", bound.log.exp_m1() * 100.0);
        let percent = percent.trim_end_matches('0').trim_end_matches('.');
        let load = compared::at_load(compared, asked);
        Some(RequirementResult {
            text: format!("{}:{percent}%{load}", asked.metric),
            verdict,
            why,
        })
    });
    judged.collect()
}

/// The verdict on every requirement at a load where the new arm loses requests that the base answers; `None` if it does not.
fn lost_at(compared: &ComparisonDesign, load: usize, points: &Points<'_>) -> Option<ReasonedVerdict> {
    let [base, new] = compared.entrants.as_slice() else {
        return None;
    };
    let point = |entrant: &Entrant| {
        let id = entrant.points.get(load)?;
        points.points.iter().find(|point| *point.id == *id.0)
    };
    let is_lost = losses::loses_requests((points, point(base)?), (points, point(new)?));
    is_lost.then(|| (Broken, losses::LOST_REQUESTS.to_owned()))
}

fn judge_target(
    required: &vsweep_plan::Requirement,
    name: &str,
    state: &State,
    answer: &Answer,
) -> Vec<RequirementResult> {
    let is_about_target = |goal: &Goal| matches!(goal, Goal::Load { target, .. } if target == name);
    let all = search_results(state)
        .into_iter()
        .filter(|result| result.target.name == name);
    let by_load = all.map(|result| (sla::load_name(&result), result)).into_group_map();
    let by_load = by_load.into_iter().sorted_by_key(|(load, _)| *load);
    let judged = by_load.map(|(load, servers)| {
        let workload = load.unwrap_or_default();
        let is_recommended = |search: &&SearchResult<'_>| {
            let server = &search.record().started.server;
            answer.leading().into_iter().any(|answered| {
                is_about_target(&answered.goal) && answered.workload == workload && is_winner(answered, server)
            })
        };
        let fitting = servers
            .iter()
            .filter(|search| fits(answer, &search.record().started.server));
        let (first, others): (Vec<_>, Vec<_>) = fitting.partition(is_recommended);
        let said = first.into_iter().chain(others).map(|search| {
            let (verdict, why) = judge_search(search);
            let server = name_of(&search.record().started.server, answer, state);
            (verdict, format!("{server}: {why}"))
        });
        let load = load.map_or(String::new(), |load| format!(", {load}"));
        conclude(required, load, or_none_fits(said.collect()), state)
    });
    let judged: Vec<RequirementResult> = judged.collect();
    match judged.is_empty() {
        true => vec![conclude(required, String::new(), Vec::new(), state)],
        false => judged,
    }
}

/// The name of a server in the answer, else the one with all its settings.
fn name_of(server: &ServerId, answer: &Answer, state: &State) -> String {
    match answer.name_of(&server.0) {
        name if name == &*server.0 => server_name(server, state),
        name => name.to_owned(),
    }
}

/// Returns true if a server fits on the user's GPUs. A server that does not fit cannot meet a requirement, because it is not recommended
/// either.
fn fits(answer: &Answer, server: &ServerId) -> bool {
    let config = answer.configs.iter().find(|config| *config.id == *server.0);
    config.is_none_or(|config| replicas_on(answer.gpus, config.gpus) > 0)
}

/// Returns the verdicts on the servers that fit. If there are none, returns a verdict that says so.
fn or_none_fits(said: Vec<ReasonedVerdict>) -> Vec<ReasonedVerdict> {
    match said.is_empty() {
        true => vec![(Broken, "no measured server fits on the GPUs".to_owned())],
        false => said,
    }
}

fn is_winner(answered: &QuestionAnswer, server: &ServerId) -> bool {
    let winner = answered.winner.as_ref();
    winner.is_some_and(|winner| winner.config == *server.0)
}

fn judge_search(search: &SearchResult<'_>) -> ReasonedVerdict {
    let answer = search.answer().filter(|_| !search.is_open());
    match answer.map(|answer| answer.found) {
        Some(Found::Met(value)) => (Met, format!("up to {value}")),
        Some(Found::Beyond(value)) => (Met, format!("{value} and beyond")),
        Some(Found::None) => (Broken, "at no load".to_owned()),
        Some(Found::Undecided) => (Undecided, "too few runs to decide".to_owned()),
        Some(Found::Skipped) => (
            Undecided,
            "its search was skipped, because another server holds more".to_owned(),
        ),
        None => (Undecided, "its search has no answer".to_owned()),
    }
}

fn judge_points(
    required: &vsweep_plan::Requirement,
    assertion: &Assertion,
    state: &State,
    points: &Points<'_>,
    answer: &Answer,
) -> Vec<RequirementResult> {
    let runs: Vec<&RunRecord> = state.runs().collect();
    let said = of_each_point(assertion, state, &runs, points);
    let new_arm = match state.compared().map(|compared| compared.entrants.as_slice()) {
        Some([_, new]) => Some(&new.server),
        _ => None,
    };
    let mut workloads = points.workloads();
    // A requirement that covers some workloads is not judged for the others.
    if said.iter().any(Option::is_some) {
        workloads.retain(|workload| workload.points.iter().any(|at| said[*at].is_some()));
    }
    let judged = workloads.into_iter().map(|workload| {
        let name = name_workload(points, &workload);
        let leading = answer.leading().into_iter().find(|answered| answered.workload == name);
        let is_recommended = |(server, _): &(&ServerId, _)| leading.is_some_and(|answered| is_winner(answered, server));
        let mut all = by_server(&workload, &said, &runs, points).collect::<Vec<_>>();
        // The base of a comparison must not meet a requirement in place of the new arm.
        let is_new = |(server, _): &(&ServerId, _)| Some(*server) == new_arm;
        if required.servers == Servers::Any && all.iter().any(is_new) {
            all.retain(is_new);
        }
        let has_some = !all.is_empty();
        let fitting = all.into_iter().filter(|(server, _)| fits(answer, server));
        let (first, others): (Vec<_>, Vec<_>) = fitting.partition(is_recommended);
        let of_servers = first
            .into_iter()
            .chain(others)
            .map(|(server, (verdict, why))| (*verdict, format!("{}: {why}", name_of(server, answer, state))));
        let named = match workload.is_only() {
            true => String::new(),
            false => format!(", {name}"),
        };
        let of_servers = of_servers.collect();
        let of_servers = if has_some { or_none_fits(of_servers) } else { of_servers };
        conclude(required, named, of_servers, state)
    });
    judged.collect()
}

/// Verdict of each point on an assertion, by its index; `None` if the assertion does not apply. `runs` are those of the table's rows.
pub(crate) fn of_each_point(
    assertion: &Assertion,
    state: &State,
    runs: &[&RunRecord],
    points: &Points<'_>,
) -> Vec<Option<ReasonedVerdict>> {
    let said = |point: &Point| of_point(assertion, point, runs.get(point.row)?, state, points);
    points.points.iter().map(said).collect()
}

/// Verdict of each server under one workload: the worst verdict of its points. Servers are in the order of their first points.
pub(crate) fn by_server<'s>(
    workload: &Workload<'_>,
    said: &'s [Option<ReasonedVerdict>],
    runs: &[&'s RunRecord],
    points: &Points<'_>,
) -> impl Iterator<Item = (&'s ServerId, &'s ReasonedVerdict)> + use<'s> {
    let about = workload.points.iter().filter(|at| said[**at].is_some());
    let of_servers = about.filter_map(|at| Some((&runs.get(points.points[*at].row)?.server, *at)));
    let of_servers = of_servers
        .into_group_map()
        .into_iter()
        .ordered_by_key(|(_, places)| places[0]);
    of_servers.filter_map(|(server, places)| {
        let verdicts = places.into_iter().filter_map(|at| said[at].as_ref());
        Some((server, verdicts.max_by_key(|(verdict, _)| *verdict)?))
    })
}

/// Verdict of a point by its figures, with the deciding criterion and the point's load. `None` if the assertion does not apply.
fn of_point(
    assertion: &Assertion,
    point: &Point,
    run: &RunRecord,
    state: &State,
    points: &Points<'_>,
) -> Option<ReasonedVerdict> {
    let none = Params::new();
    let serve = state.servers.get(&run.server).map_or(&none, |server| &server.params);
    if !assertion.is_about(serve, &run.params) {
        return None;
    }
    let of_criterion = |criterion: &Criterion| {
        let figure = points.spread(point, &criterion.figure()).map(|spread| spread.value);
        let show = |figure: f64| match criterion.quantity {
            Quantity::Attainment(_) => format!("{} %", show_number(figure * 100.0)),
            Quantity::Metric(_) => show_number(figure),
        };
        let shown = figure.map(show).unwrap_or_default();
        match figure.map(|figure| criterion.operator.holds(figure, criterion.limit)) {
            Some(true) => (Met, format!("{}: {shown}", phrase(criterion))),
            Some(false) => (Broken, format!("{} not met: {shown}", phrase(criterion))),
            None if point.used.is_empty() => (Undecided, "no valid run".to_owned()),
            None if matches!(criterion.quantity, Quantity::Attainment(_)) => (
                Undecided,
                format!(
                    "no latencies of single requests, which {} needs; set save_detailed = true in [bench.params]",
                    phrase(criterion)
                ),
            ),
            None => (Undecided, format!("no figure for {}", phrase(criterion))),
        }
    };
    let said = assertion.criteria.iter().map(of_criterion);
    let (verdict, why) = said
        .max_by_key(|(verdict, _)| *verdict)
        .unwrap_or((Undecided, "nothing is bounded".to_owned()));
    let codes = point.codes.iter().filter(|_| verdict == Met);
    let codes = codes.map(|code| code.in_words()).join(", ");
    let doubt = match codes.is_empty() {
        true => String::new(),
        false => format!(" (in doubt: {codes})"),
    };
    let at = match &*run.name {
        "default" => String::new(),
        load => format!(" at {}", short_label(load)),
    };
    Some((verdict, why + &at + &doubt))
}

/// Combines the verdicts of all servers. Until the sweep is finished, the requirement is undecided, unless it covers every server and one
/// of them misses it.
fn conclude(
    required: &vsweep_plan::Requirement,
    workload: String,
    said: Vec<ReasonedVerdict>,
    state: &State,
) -> RequirementResult {
    let verdicts = said.iter().map(|(verdict, _)| *verdict);
    let (servers, verdict) = match required.servers {
        Servers::Any => ("", verdicts.min()),
        Servers::All => (", every server", verdicts.max()),
    };
    // Later results rarely change the verdict on a server that misses it, but may change that on one that meets it.
    let is_final = (required.servers, verdict) == (Servers::All, Some(Broken));
    let (verdict, why) = match verdict {
        None => (Undecided, "nothing that it covers was measured".to_owned()),
        Some(_) if !is_final && unfinished(state).is_some() => (Undecided, "the sweep is not finished".to_owned()),
        Some(verdict) => {
            let whys = said.iter().filter(|(other, _)| *other == verdict).map(|(_, why)| why);
            // If any server suffices, one reason is enough.
            let is_one = (required.servers, verdict) == (Servers::Any, Met);
            let most = if is_one { 1 } else { said.len() };
            (verdict, whys.take(most).join("; "))
        }
    };
    let text = format!("{}{servers}{workload}", required.what);
    RequirementResult { text, verdict, why }
}
