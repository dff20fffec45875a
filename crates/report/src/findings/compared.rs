//! Describes the result of a plan's comparison.

use crate::compare::{between_servers, word};
use crate::texts::changes::change_within;
use crate::texts::words::{name, short_label};
use itertools::Itertools;
use vsweep_answer::BrokenServer;
use vsweep_base::shell::shell_command;
use vsweep_base::units::show_many;
use vsweep_record::evidence::{broken, ratio_so_far};
use vsweep_record::journal::{
    AskedMetric, ComparisonDesign, ComparisonFound, ComparisonProgress, Conclusion, Entrant, State,
};
use vsweep_strategy::selection::{Arm, BisectionResult, Bracket, Finding, PairedEnding, PairedOutcome};
use vsweep_strategy::stats::{self, Estimate, Interval, RequirementVerdict, Verdict};

/// Most figures in a brief description.
const MOST_FIGURES: usize = 5;

/// Describes the comparison, one sentence for each fact; empty without a comparison.
pub fn in_words(state: &State) -> Vec<String> {
    describe(state, usize::MAX)
}

/// Like [`in_words`], but with a few figures only; those that differ come first.
pub fn in_brief(state: &State) -> Vec<String> {
    describe(state, MOST_FIGURES)
}

fn describe(state: &State, most_figures: usize) -> Vec<String> {
    let Some(compared) = state.compared() else {
        return Vec::new();
    };
    let mut said = match compared.progress(state, &|_, _| false) {
        ComparisonProgress::Starts(_) => vec![format!("comparing {}: not decided yet", names(compared))],
        ComparisonProgress::Ended(conclusion) => {
            let mut said = match &conclusion.found {
                ComparisonFound::Pairs(outcome) => pairs(compared, (outcome, most_figures), &conclusion, state),
                ComparisonFound::Axis(located) => axis(compared, located.as_ref(), &conclusion, state),
            };
            if conclusion.apart > 0 {
                let starts = show_many(conclusion.apart as u64, "start");
                said.push(format!(
                    "{starts} not counted: the two sides ran on different nodes, so a difference may come from the nodes"
                ));
            }
            if conclusion.disturbed > 0 {
                let starts = show_many(conclusion.disturbed as u64, "start");
                said.push(format!(
                    "{starts} not counted in full: every run of a load was disturbed; see the doubts, and compare on a machine \
                     without other load"
                ));
            }
            said
        }
    };
    said.extend(doubts(compared, state));
    said
}

/// The number of pairs of a running comparison, and their result so far: `pair 5 of at most 7: +9.6 % (+1.0 to +19.0 %) output throughput`.
/// `None` before the first pair.
pub fn so_far(state: &State) -> Option<(usize, String)> {
    // With a time limit of zero, the comparison ends with the result so far.
    let stopped = ComparisonDesign {
        max_seconds: Some(0.0),
        ..state.compared()?.clone()
    };
    let ComparisonProgress::Ended(Conclusion {
        found: ComparisonFound::Pairs(outcome),
        ..
    }) = stopped.progress(state, &|_, _| false)
    else {
        return None;
    };
    let first = outcome.findings.first().filter(|finding| finding.pairs > 0)?;
    let asked = stopped.family.first()?;
    // Fewer than four pairs have no interval of their own, so the model gives one.
    let by_model = || {
        let ratio = ratio_so_far(&stopped, state)?;
        Some(change_within(ratio.value, Some((ratio.low, ratio.high))))
    };
    let change = first.ratio.map(|ratio| shown(ratio, first.interval)).or_else(by_model);
    let change = change.map_or(String::new(), |change| {
        format!(": {change} {}{}", name(&asked.metric), at_load(&stopped, asked))
    });
    let most = stopped.max_starts / 2;
    Some((first.pairs, format!("pair {} of at most {most}{change}", first.pairs)))
}

/// The servers to choose from, with their command lines. Of two, this is the better one, the only one that starts, or both if neither is
/// known to be better. Along an axis, these are the two on either side of the change. Empty before the end, and if no change was found.
pub fn chosen(state: &State) -> Vec<(String, String)> {
    let Some(compared) = state.compared() else {
        return Vec::new();
    };
    let ComparisonProgress::Ended(conclusion) = compared.progress(state, &|_, _| false) else {
        return Vec::new();
    };
    let entrants = match conclusion.found {
        ComparisonFound::Pairs(outcome) => match (better(&outcome.findings), outcome.ending) {
            (Some(arm), _) => vec![usize::from(arm == Arm::New)],
            (None, PairedEnding::Unstartable(arm)) => vec![usize::from(arm == Arm::Base)],
            (None, _) => vec![0, 1],
        },
        ComparisonFound::Axis(Some(BisectionResult::Between(Bracket { old, new, .. }))) => vec![old, new],
        ComparisonFound::Axis(_) => Vec::new(),
    };
    let entrants = entrants.into_iter().filter_map(|at| compared.entrants.get(at));
    let command = |entrant: &Entrant| {
        let server = state.servers.get(&entrant.server)?;
        let command = shell_command(&server.env, &server.argv);
        Some((short_label(&entrant.name), command))
    };
    entrants.filter_map(command).collect()
}

/// A sentence for each server whose answers to the fixed questions make its results invalid.
fn doubts<'a>(compared: &'a ComparisonDesign, state: &'a State) -> impl Iterator<Item = String> + 'a {
    let entrants = compared.entrants.iter();
    entrants.filter_map(move |entrant| doubt(entrant, state))
}

fn doubt(entrant: &Entrant, state: &State) -> Option<String> {
    let doubt = state.doubted_server(&entrant.server)?;
    let (name, code) = (short_label(&entrant.name), doubt.code.in_words());
    Some(format!("{name} is invalid: {code}: {}", doubt.detail))
}

/// The best result that a requirement can have if an arm gives no valid result, with the reason: broken by the new arm, else undecided.
pub(crate) fn fault(compared: &ComparisonDesign, state: &State) -> Option<(RequirementVerdict, String)> {
    let [base, new] = compared.entrants.as_slice() else {
        return None;
    };
    let progress = compared.progress(state, &|_, _| false);
    let of = |entrant: &Entrant, arm: Arm| {
        let ended = match &progress {
            ComparisonProgress::Ended(Conclusion {
                found: ComparisonFound::Pairs(outcome),
                ..
            }) => broken(compared, outcome.ending, state).filter(|_| outcome.ending == PairedEnding::Unstartable(arm)),
            _ => None,
        };
        doubt(entrant, state).or_else(|| Some(failure(&ended?)))
    };
    let of_new = of(new, Arm::New).map(|why| (RequirementVerdict::Broken, why));
    of_new.or_else(|| Some((RequirementVerdict::Undecided, of(base, Arm::Base)?)))
}

/// Returns true if the comparison of the plan has ended; `None` without one.
pub fn is_decided(state: &State) -> Option<bool> {
    let progress = state.compared()?.progress(state, &|_, _| false);
    Some(matches!(progress, ComparisonProgress::Ended(_)))
}

/// Findings of a comparison by pairs, one for each member of its family; empty until it ends.
pub(crate) fn findings(compared: &ComparisonDesign, state: &State) -> Vec<Finding> {
    match compared.progress(state, &|_, _| false) {
        ComparisonProgress::Ended(Conclusion {
            found: ComparisonFound::Pairs(outcome),
            ..
        }) => outcome.findings,
        _ => Vec::new(),
    }
}

fn names(compared: &ComparisonDesign) -> String {
    match compared.entrants.as_slice() {
        [base, new] => format!("{} with {}", short_label(&new.name), short_label(&base.name)),
        all => show_many(all.len() as u64, "server"),
    }
}

fn pairs(
    compared: &ComparisonDesign,
    (outcome, most_figures): (&PairedOutcome, usize),
    conclusion: &Conclusion,
    state: &State,
) -> Vec<String> {
    let starts = show_many(outcome.starts as u64, "start");
    let broken = broken(compared, outcome.ending, state);
    let why = match &broken {
        Some(broken) => format!(
            "{starts}; the last four starts of {} gave no result",
            short_label(&broken.server)
        ),
        None if outcome.ending == PairedEnding::Decided => format!("decided after {starts}"),
        None if conclusion.is_out_of_time => format!("stopped after {starts} (max_time)"),
        None => format!("stopped after {starts} (max_starts)"),
    };
    let is_undecided = |finding: &Finding| finding.verdict == Verdict::Undecided;
    if let Some(broken) = broken.filter(|_| outcome.findings.iter().all(is_undecided)) {
        return vec![format!("{}, so nothing can be compared; {why}", failure(&broken))];
    }
    let mut said = vec![format!("{}; {why}", verdict(compared, &outcome.findings))];
    let mut all = compared.family.iter().zip(&outcome.findings).collect_vec();
    let left_out = all.len().saturating_sub(most_figures);
    all.sort_by_key(|(_, finding)| match finding.verdict {
        Verdict::Regressed => 0,
        Verdict::Improved => 1,
        Verdict::Undecided => 2,
        Verdict::Same => 3,
    });
    let limit = match (outcome.ending == PairedEnding::Decided, conclusion.is_out_of_time) {
        (true, _) => "",
        (_, true) => " (raise max_time and run again)",
        (_, false) => " (raise max_starts and run again)",
    };
    for (asked, finding) in all.into_iter().take(most_figures) {
        let (load, verdict) = (at_load(compared, asked), word(finding.verdict));
        let more = finding.more_starts.map(|more| show_many(more as u64, "more start"));
        let more = more.map_or(String::new(), |more| {
            format!("; about {more} would likely decide{limit}")
        });
        let ratio = ratio(asked, finding);
        said.push(format!("{}{load}: {verdict}, {ratio}{more}", name(&asked.metric)));
    }
    if left_out > 0 {
        said.push(format!(
            "and {}; see report.md",
            show_many(left_out as u64, "more figure")
        ));
    }
    said
}

/// The failure of a server that gives no result: `new does not start (out of memory while loading)`.
fn failure(broken: &BrokenServer) -> String {
    let cause = broken.cause.map(|cause| format!(" ({})", cause.in_words()));
    let verb = match broken.was_ready {
        true => "gives no result",
        false => "does not start",
    };
    format!("{} {verb}{}", short_label(&broken.server), cause.unwrap_or_default())
}

/// The number of findings with each of these verdicts.
fn tally<const N: usize>(findings: &[Finding], verdicts: [Verdict; N]) -> [usize; N] {
    verdicts.map(|verdict| findings.iter().filter(|finding| finding.verdict == verdict).count())
}

/// The arm that is better in some figures and not known to be worse in any.
fn better(findings: &[Finding]) -> Option<Arm> {
    let [improved, regressed] = tally(findings, [Verdict::Improved, Verdict::Regressed]);
    match (improved, regressed) {
        (1.., 0) => Some(Arm::New),
        (0, 1..) => Some(Arm::Base),
        _ => None,
    }
}

/// The verdict of all findings together: `sim_speed 1.1 is better than sim_speed 1.0`.
fn verdict(compared: &ComparisonDesign, findings: &[Finding]) -> String {
    let [base, new] = compared.entrants.as_slice() else {
        return format!("compared {}", names(compared));
    };
    let [base, new] = [base, new].map(|entrant| short_label(&entrant.name));
    let all = findings.len();
    let [improved, regressed, same] = tally(findings, [Verdict::Improved, Verdict::Regressed, Verdict::Same]);
    match (improved, regressed) {
        (1.., 0) if improved + same == all => format!("{new} is better than {base}"),
        (0, 1..) if regressed + same == all => format!("{base} is better than {new}"),
        (0, 0) if same == all && all > 0 => format!("{new} and {base} are equally good"),
        (1.., 1..) => format!("{new} is better than {base} in {improved} and worse in {regressed} of {all} figures"),
        (1.., 0) => format!("{new} is better than {base} in {improved} of {all} figures, and not known to be worse"),
        (0, 1..) => format!("{new} is worse than {base} in {regressed} of {all} figures, and not known to be better"),
        (0, 0) => format!("whether {new} or {base} is better is not known"),
    }
}

fn axis(
    compared: &ComparisonDesign,
    located: Option<&BisectionResult>,
    conclusion: &Conclusion,
    state: &State,
) -> Vec<String> {
    let mut along = "along";
    let mut difference = None;
    let found = match located {
        None if conclusion.is_out_of_time => "max_time is spent before both ends were measured".to_owned(),
        None => "max_starts is spent before both ends were measured on one node".to_owned(),
        Some(BisectionResult::Unstartable) => "fewer than two entries start".to_owned(),
        Some(BisectionResult::Unchanged(change)) => {
            let shown = shown(*change, change.interval(stats::ALPHA));
            format!("the two ends differ by no more than noise: {shown}")
        }
        Some(BisectionResult::Between(bracket)) => {
            along = "changed along";
            let (change, doubt) = (bracket.change, bracket.doubt);
            let [first, last] = [bracket.old, bracket.new].map(|entry| &compared.entrants[entry]);
            difference = differing(first, last, state);
            let between = &compared.entrants[bracket.old + 1..bracket.new];
            let between = match between.iter().map(|entrant| short_label(&entrant.name)).join("; ") {
                none if none.is_empty() => none,
                names => format!(" (not distinguished, or not started: {names})"),
            };
            let doubt = match doubt > 0.05 {
                true => format!("; in {:.0} % of such cases nothing has changed at all", doubt * 100.0),
                false => String::new(),
            };
            let shown = shown(change, change.interval(stats::ALPHA));
            let [first, last] = [first, last].map(|entrant| short_label(&entrant.name));
            format!("between {first} and {last}{between}, {shown}{doubt}")
        }
    };
    let starts = show_many(conclusion.starts as u64, "start");
    let metric = compared
        .family
        .first()
        .map_or_else(String::new, |asked| name(&asked.metric));
    let first = format!("{metric} {along} {}: {found} ({starts})", names(compared));
    std::iter::once(first).chain(difference).collect()
}

/// Differences between the servers on either side of the change.
fn differing(old: &Entrant, new: &Entrant, state: &State) -> Option<String> {
    let changes = between_servers(state, &old.server, &new.server)?;
    let names = format!("between {} and {}", short_label(&old.name), short_label(&new.name));
    let or_none = |value: String| if value.is_empty() { "(none)".to_owned() } else { value };
    let mut changes = changes
        .into_iter()
        .map(|change| format!("{} {} -> {}", change.name, or_none(change.base), or_none(change.new)));
    Some(match changes.join("; ") {
        none if none.is_empty() => format!("nothing that vsweep records differs {names}"),
        changes => format!("what differs {names}: {changes}"),
    })
}

/// The load of a member of the family, if there are several loads.
pub(crate) fn at_load(compared: &ComparisonDesign, asked: &AskedMetric) -> String {
    match compared.loads.len() {
        1 => String::new(),
        _ => format!(" at {}", short_label(&compared.loads[asked.load])),
    }
}

/// The ratio of a finding with its interval and its number of pairs, or the reason why it has none.
pub(crate) fn ratio(asked: &AskedMetric, finding: &Finding) -> String {
    let pairs = show_many(finding.pairs as u64, "pair");
    match finding.ratio {
        Some(ratio) => format!("{} in {pairs}", shown(ratio, finding.interval)),
        None if finding.verdict == Verdict::Undecided => "fewer than four pairs have figures above 0".to_owned(),
        None => {
            let side = if asked.member.is_worse_above() { "base" } else { "new" };
            format!("0 in {side} in {pairs}")
        }
    }
}

/// Formats a ratio with its interval: `-5.1 % (-6.3 to -3.9 %)`.
fn shown(ratio: Estimate, interval: Option<Interval>) -> String {
    let interval = interval.map(|interval| (interval.low.exp(), interval.high.exp()));
    change_within(ratio.log.exp(), interval)
}
