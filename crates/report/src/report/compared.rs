//! What the comparison of a plan has found, in words.

use super::compare::{between_servers, verdict_name};
use itertools::Itertools;
use vsweep_plan::units::show_many;
use vsweep_record::journal::{AskedMetric, Compared, ComparisonFound, ComparisonProgress, Conclusion, State};
use vsweep_strategy::selection::{Arm, Bracket, Ending, Finding, Located, Outcome};
use vsweep_strategy::stats::{self, Estimate, Interval};

/// One sentence for each thing that is known; none without a comparison.
pub fn in_words(state: &State) -> Vec<String> {
    let Some(compared) = state.compared() else {
        return Vec::new();
    };
    let mut said = match compared.progress(state, &|_, _| false) {
        ComparisonProgress::Starts(_) => vec![format!("comparing {}: not decided yet", names(compared))],
        ComparisonProgress::Ended(conclusion) => match &conclusion.found {
            ComparisonFound::Pairs(outcome) => pairs(compared, outcome, &conclusion),
            ComparisonFound::Axis(located) => {
                let found = axis(compared, located.as_ref(), &conclusion);
                std::iter::once(found)
                    .chain(difference(compared, located.as_ref(), state))
                    .chain(apart(&conclusion))
                    .collect()
            }
        },
    };
    said.extend(doubts(compared, state));
    said
}

/// The servers whose answers to the fixed questions speak against what was measured on them.
pub(super) fn doubts<'a>(compared: &'a Compared, state: &'a State) -> impl Iterator<Item = String> + 'a {
    let doubted = compared
        .entrants
        .iter()
        .filter_map(|entrant| Some((entrant, state.doubted_server(&entrant.server)?)));
    doubted.map(|(entrant, doubt)| format!("{} is invalid: {}: {}", entrant.name, doubt.code, doubt.detail))
}

/// Whether the comparison of the plan has ended; none without one.
pub fn is_decided(state: &State) -> Option<bool> {
    let progress = state.compared()?.progress(state, &|_, _| false);
    Some(matches!(progress, ComparisonProgress::Ended(_)))
}

/// What its pairs have found, one for each member of its family; empty as long as they go on.
pub(super) fn findings(compared: &Compared, state: &State) -> Vec<Finding> {
    match compared.progress(state, &|_, _| false) {
        ComparisonProgress::Ended(Conclusion {
            found: ComparisonFound::Pairs(outcome),
            ..
        }) => outcome.findings,
        _ => Vec::new(),
    }
}

fn names(compared: &Compared) -> String {
    match compared.entrants.as_slice() {
        [base, new] => format!("{} with {}", new.name, base.name),
        all => show_many(all.len() as u64, "server"),
    }
}

fn pairs(compared: &Compared, outcome: &Outcome, conclusion: &Conclusion) -> Vec<String> {
    let why = match outcome.ending {
        Ending::Decided => "decided".to_owned(),
        Ending::Spent if conclusion.is_out_of_time => "max_time is spent".to_owned(),
        Ending::Spent => "max_starts are spent".to_owned(),
        Ending::Unstartable(arm) => {
            let entrant = &compared.entrants[usize::from(arm == Arm::New)];
            format!("{} failed four times in a row", entrant.name)
        }
    };
    let starts = show_many(outcome.starts as u64, "start");
    let first = format!("compared {}: {starts}, {why}", names(compared));
    let findings = compared.family.iter().zip(&outcome.findings);
    let findings = findings.map(|(asked, finding)| {
        let verdict = verdict_name(finding.verdict);
        let more = match finding.more_starts {
            Some(more) => format!("; about {} would likely decide", show_many(more as u64, "more start")),
            None => String::new(),
        };
        let ratio = ratio(Some(finding));
        format!("{}{}: {verdict}: {ratio}{more}", asked.metric, at_load(compared, asked))
    });
    std::iter::once(first)
        .chain(findings)
        .chain(apart(conclusion))
        .collect()
}

/// The starts that do not count, because of their nodes.
fn apart(conclusion: &Conclusion) -> Option<String> {
    let starts = show_many(conclusion.apart as u64, "start");
    let why = "on another node than what it would be held against, so what differs there may be the nodes";
    (conclusion.apart > 0).then(|| format!("{starts} not counted: each ran {why}"))
}

fn axis(compared: &Compared, located: Option<&Located>, conclusion: &Conclusion) -> String {
    let starts = show_many(conclusion.starts as u64, "start");
    let name = |entry: usize| compared.entrants[entry].name.as_str();
    let metric = compared.family.first().map_or("", |asked| &asked.metric);
    let found = match located {
        None if conclusion.is_out_of_time => "max_time is spent before both ends were measured".to_owned(),
        None => "max_starts are spent before both ends were measured on one node".to_owned(),
        Some(Located::Unstartable) => "fewer than two entries start".to_owned(),
        Some(Located::Unchanged(change)) => {
            let interval = change.interval(stats::ALPHA);
            format!(
                "the two ends do not differ by more than noise: {}",
                shown(*change, interval)
            )
        }
        Some(Located::Between(bracket)) => {
            let Bracket { old, new, change, .. } = *bracket;
            let between: Vec<&str> = (old + 1..new).map(name).collect();
            let between = match between.len() {
                0 => String::new(),
                _ => format!(" (not told apart, or not started: {})", between.iter().join("; ")),
            };
            let doubt = match bracket.doubt > 0.05 {
                true => format!(
                    "; in {:.0} % of such cases nothing has changed at all",
                    bracket.doubt * 100.0
                ),
                false => String::new(),
            };
            format!(
                "between {} and {}{between}, {}{doubt}",
                name(old),
                name(new),
                shown(change, change.interval(stats::ALPHA))
            )
        }
    };
    let along = match located {
        Some(Located::Between(_)) => "changed along",
        _ => "along",
    };
    format!("{metric} {along} {}: {found} ({starts})", names(compared))
}

/// What differs between the servers on either side of the change.
fn difference(compared: &Compared, located: Option<&Located>, state: &State) -> Option<String> {
    let Some(Located::Between(bracket)) = located else {
        return None;
    };
    let server = |entry: usize| state.servers.get(&compared.entrants[entry].server);
    let changes = between_servers(server(bracket.old)?, server(bracket.new)?);
    let none = |value: &str| match value {
        "" => "(none)".to_owned(),
        value => value.to_owned(),
    };
    let mut told = changes
        .iter()
        .map(|change| format!("{} {} -> {}", change.name, none(&change.base), none(&change.new)));
    let told = told.join("; ");
    let names = [bracket.old, bracket.new].map(|entry| compared.entrants[entry].name.as_str());
    Some(match told.is_empty() {
        true => format!("nothing that vsweep sees differs between {} and {}", names[0], names[1]),
        false => format!("what differs between {} and {}: {told}", names[0], names[1]),
    })
}

/// The load of a member, where there are several.
pub(super) fn at_load(compared: &Compared, asked: &AskedMetric) -> String {
    match compared.loads.len() {
        1 => String::new(),
        _ => format!(" at {}", compared.loads[asked.load]),
    }
}

/// A ratio with its interval.
pub(super) fn ratio(finding: Option<&Finding>) -> String {
    let Some((finding, ratio)) = finding.and_then(|finding| Some((finding, finding.ratio?))) else {
        return "fewer than four pairs were measured".to_owned();
    };
    format!(
        "{} by {}",
        shown(ratio, finding.interval),
        show_many(finding.pairs as u64, "pair")
    )
}

/// `-5.1 % (-6.3 % to -3.9 %)`.
fn shown(ratio: Estimate, interval: Option<Interval>) -> String {
    let percent = |log: f64| format!("{:+.1} %", log.exp_m1() * 100.0);
    let interval = interval.map_or(String::new(), |interval| {
        format!(" ({} to {})", percent(interval.low), percent(interval.high))
    });
    percent(ratio.log) + &interval
}
