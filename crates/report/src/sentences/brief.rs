//! The answer in a few lines, made of the document alone: the recommendations, how sure they are, and what made the difference.

use super::effects::briefly;
use super::sure::{at_top, certainty, confirmed, near, so_far};
use super::together::{joint, others_together};
use super::{
    MOST_TIES, capital, cost, difference, figure, is_only, next, parts, percent, preferred, sentence, server, unit,
    untried, warnings, why_no_winner,
};
use crate::texts::words::{join_some, lower_first, say};
use itertools::Itertools;
use serde::Serialize;
use vsweep_answer::{Answer, Goal, QuestionAnswer, SURE, Warning, Winner};

/// Most recommendations that have a line each.
const MOST: usize = 4;
/// Most recommendations for which reasons are given.
const MOST_REASONS: usize = 2;

/// The recommendation for one leading question, and the facts that support it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pick {
    /// `For the highest throughput, run`.
    pub lead: String,
    /// The target, or the workload: `Target chat`, `512 in, 16 out`.
    pub title: String,
    /// The server; empty if none is recommended or there is only one.
    pub server: String,
    /// Its figure at its load, or the reason why nothing is recommended.
    pub figure: String,
    /// Its cost, if GPUs have a price.
    pub cost: Option<String>,
    /// Its certainty.
    pub sure: Option<String>,
    /// The settings that made the difference to it, and those that made none.
    pub why: Option<String>,
    /// The distance to the next server, if no setting is known to make a difference.
    pub lead_over: Option<String>,
    /// The other questions about its workload that other servers win.
    pub others: Vec<Alternative>,
    /// Warnings about its server.
    pub warnings: Vec<String>,
    /// Its load and settings that are the largest tested.
    pub largest: Option<String>,
}

/// The winner of another question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alternative {
    /// `lowest latency at concurrency 64`; several questions with the same winner are `most throughput per GPU, cheapest tokens`.
    pub question: String,
    /// `TP 2, p99 E2EL 479 ms (431 to 533)`.
    pub text: String,
}

/// The lines of a brief answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Brief {
    /// The recommendation for the main question of each workload or target.
    pub run: Vec<String>,
    /// True if there is one config, so that nothing is to be chosen.
    pub has_no_choice: bool,
    /// The number of further recommendations.
    pub more: usize,
    /// The recommendation for all workloads together, unless each workload has the same one.
    pub together: Option<String>,
    /// Certainty of a single recommendation.
    pub sure: Option<String>,
    /// The reasons for one or two recommendations, a line each that begins with a label; empty for more recommendations.
    pub why: Vec<String>,
    /// The other questions about a single workload that other servers win.
    pub other: Option<String>,
    /// Warnings about the recommended servers: `recommended server: 2 of 3 runs were disturbed`; of several recommendations, with the target
    /// or the workload of each.
    pub warned: Option<String>,
    /// The load and the settings of a single recommendation that are the largest tested.
    pub largest: Option<String>,
    /// A remark on figures of servers of different sizes.
    pub unit: Option<&'static str>,
}

/// The recommendations, in the order of the leading questions.
pub fn picks(answer: &Answer) -> Vec<Pick> {
    let leading = answer.leading().into_iter();
    leading.map(|answered| pick(answer, answered)).collect()
}

fn pick(answer: &Answer, answered: &QuestionAnswer) -> Pick {
    let winner = answered.winner.as_ref();
    let why = winner.and_then(|_| briefly(answer, answered, false));
    let sentence = sentence(answer, answered);
    Pick {
        lead: sentence.lead.trim_end_matches(',').to_owned(),
        title: match answered.is_load() {
            true => capital(&answered.title()),
            false => answered.workload.clone(),
        },
        server: sentence.server,
        figure: winner.map_or_else(
            || why_no_winner(answer, answered, true),
            |winner| doubted(measured(answer, answered, winner, true), answered),
        ),
        cost: winner.and_then(|winner| paid(answer, answered, winner)),
        sure: winner.and_then(|winner| certainty(answer, answered, winner)),
        lead_over: winner
            .filter(|_| why.is_none())
            .and_then(|winner| next_best(answer, answered, winner)),
        why,
        others: winner.map_or_else(Vec::new, |winner| others(answer, answered, winner)),
        warnings: about_servers(&[answered]),
        largest: winner.and_then(|winner| untried::largest(answer, answered, winner)),
    }
}

/// The brief answer.
pub fn brief(answer: &Answer) -> Brief {
    let leading = answer.leading();
    let single = leading.iter().exactly_one().ok();
    let picks = leading.iter().take(MOST_REASONS + 1);
    let picks = picks.map(|answered| pick(answer, answered)).collect_vec();
    let why = match picks.len() {
        ..=MOST_REASONS => {
            let each = leading.iter().zip(&picks);
            each.filter_map(|(answered, own)| reason(answer, answered, own, single.is_some()))
                .collect()
        }
        _ => Vec::new(),
    };
    let pick = picks.into_iter().exactly_one().ok();
    let (sure, others, largest) = pick.map_or_else(Default::default, |pick| (pick.sure, pick.others, pick.largest));
    let others = others.iter().map(|other| format!("{}: {}", other.question, other.text));
    let others = others.chain(others_together(answer, &leading));
    let other = capital(&others.collect_vec().join("; "));
    let shown = leading.iter().take(MOST);
    Brief {
        run: shown
            .enumerate()
            .map(|(n, answered)| recommendation(answer, answered, single.is_some(), leading[..n].last().copied()))
            .collect(),
        has_no_choice: is_only(answer) && leading.iter().any(|answered| answered.winner.is_some()),
        more: leading.len().saturating_sub(MOST),
        together: joint(answer, &leading),
        sure,
        why,
        other: (!other.is_empty()).then_some(other),
        warned: warned(answer, &leading),
        largest,
        unit: unit(answer),
    }
}

/// The reason for a recommendation, else how far ahead it is: `Why: TP 1 instead of 2: …`, `Lead: 18 % more than the next best server`. If
/// there are several recommendations, the title follows the label, and only the largest effect is named.
fn reason(answer: &Answer, answered: &QuestionAnswer, pick: &Pick, is_single: bool) -> Option<String> {
    let is_preferred = || {
        answered
            .winner
            .as_ref()
            .is_some_and(|winner| preferred(winner).is_some())
    };
    let (label, text) = match (&pick.why, &pick.lead_over) {
        (Some(_), _) => ("Why", briefly(answer, answered, !is_single)?),
        (None, Some(lead)) => (if is_preferred() { "Why" } else { "Lead" }, lead.clone()),
        (None, None) => return None,
    };
    Some(match is_single {
        true => format!("{label}: {text}"),
        false => format!("{label}: {}: {text}", short_title(answered)),
    })
}

/// The target, or the workload by the name that the user chose: `target chat`, `512 in, 16 out`.
pub(super) fn short_title(answered: &QuestionAnswer) -> String {
    match answered.is_load() {
        true => lower_first(&answered.title()),
        false => answered.workload.clone(),
    }
}

fn warned(answer: &Answer, leading: &[&QuestionAnswer]) -> Option<String> {
    let warned = leading.iter().map(|answered| (answered, about_servers(&[answered])));
    let warned = warned
        .filter(|(_, warnings)| !warnings.is_empty())
        .map(|(answered, warnings)| {
            let short = |warning: &String| lower_first(warning.trim_start_matches("Warning: ").trim_end_matches('.'));
            let title = match leading.len() {
                1 => "recommended server".to_owned(),
                _ => short_title(answered),
            };
            format!("{title}: {}", warnings.iter().map(short).join(", "))
        });
    let warned = warned.chain(too_large(answer, leading)).join("; ");
    (!warned.is_empty()).then_some(warned)
}

/// The servers that compete for no recommendation because they need too many GPUs. A recommendation without a rival names them itself, and
/// so does the reason why there is none.
fn too_large(answer: &Answer, leading: &[&QuestionAnswer]) -> Option<String> {
    let is_silent = |own: &&&QuestionAnswer| own.winner.is_some() && (leading.len() > 1 || own.entrants.len() > 1);
    let names = leading.iter().filter(is_silent).flat_map(|own| &own.too_large);
    let names = names.unique().map(|config| answer.name_of(config)).collect_vec();
    (!names.is_empty()).then(|| {
        format!(
            "too large for these GPUs: {}",
            join_some(names.into_iter(), MOST_TIES, "; ")
        )
    })
}

/// The distance to the next server: `20 % more than the next best server, TP 2`; `None` if no other server is known to be worse. If the
/// winner was preferred to a server with a better estimate, the reason for that is returned instead.
fn next_best(answer: &Answer, answered: &QuestionAnswer, winner: &Winner) -> Option<String> {
    if let Some((best, why)) = preferred(winner) {
        let near = near(answer, answered, winner);
        return Some(format!("within {near} of {}, and {why}", answer.name_of(best)));
    }
    let next = next(answered, winner)?;
    let ratio = difference(next.winner_over?.value, answered.better);
    let at = match answered.is_load() || next.load == winner.load {
        true => String::new(),
        false => parts::at_load(&next.load),
    };
    Some(format!(
        "{ratio} the next best server, {}{at}",
        answer.name_of(&next.config)
    ))
}

/// The warnings about the servers that win some questions, each once.
fn about_servers(questions: &[&QuestionAnswer]) -> Vec<String> {
    let all = questions.iter().flat_map(|answered| &answered.warnings);
    let sentences = warnings::sentences(all.filter(is_about_servers));
    sentences.into_iter().unique().collect()
}

/// Returns false for a warning that is stated with the certainty.
fn is_about_servers(warning: &&Warning) -> bool {
    !matches!(warning, Warning::StartNoiseAssumed { .. })
}

/// A recommendation in one line: `4 × TP 2, seqs 256: 156,120 tokens/s at concurrency 1,024 on 8 GPUs, $0.036 per million output tokens`.
/// The server is not named again if the recommendation `before` has the same server.
fn recommendation(
    answer: &Answer,
    answered: &QuestionAnswer,
    is_single: bool,
    before: Option<&QuestionAnswer>,
) -> String {
    let question = match (is_single, answered.workload.as_str()) {
        (true, "") => String::new(),
        (true, workload) => format!("{workload}: "),
        (false, "") => format!("{}: ", lower_first(&answered.question)),
        (false, workload) if answered.is_load() => format!("{}, {workload}: ", lower_first(&answered.question)),
        (false, workload) => format!("{workload}: "),
    };
    let Some(winner) = &answered.winner else {
        return question + &why_no_winner(answer, answered, !is_single);
    };
    let sure = match (is_single, answered.entrants.len()) {
        (false, 2..) => {
            let near = near(answer, answered, winner);
            let near = before.is_none().then(|| format!(" within {near} of the best"));
            let count = |count: usize, what: &str| (count > 0).then(|| format!("; {count} {what}"));
            let ties = count(answered.ties.len(), "perhaps as good");
            let at_top = count(
                at_top(answered, winner).count(),
                "perhaps beyond the highest load allowed",
            );
            let (sure, so_far) = (percent(winner.probability), so_far(answer));
            format!(
                ", {sure} sure{}{so_far}{}{}{}",
                near.unwrap_or_default(),
                confirmed(answered),
                ties.unwrap_or_default(),
                at_top.unwrap_or_default()
            )
        }
        _ => String::new(),
    };
    let is_same = before
        .and_then(|before| before.winner.as_ref())
        .is_some_and(|before| (&before.config, before.replicas) == (&winner.config, winner.replicas));
    let (server, gpus) = match (is_only(answer), is_same) {
        (true, _) => (String::new(), true),
        (_, true) => ("the same server: ".to_owned(), false),
        (_, false) => (server(answer, winner) + ": ", true),
    };
    let result = match is_single {
        true => result(answer, answered, winner, gpus),
        false => one_of_several(answer, answered, winner, gpus),
    };
    let result = doubted(result, answered);
    format!("{question}{server}{result}{sure}")
}

/// The certainty of a further recommendation, if it is not sure: ` (76 % sure)`.
fn unsure(answered: &QuestionAnswer, winner: &Winner) -> String {
    match answered.entrants.len() {
        2.. if winner.probability < SURE => format!(" ({} sure)", percent(winner.probability)),
        _ => String::new(),
    }
}

/// Marks the text of a figure of a question whose winner has warnings. A bracket at its end is continued.
pub(super) fn doubted(figure: String, answered: &QuestionAnswer) -> String {
    match (about_servers(&[answered]).is_empty(), figure.strip_suffix(')')) {
        (true, _) => figure,
        (false, Some(open)) => format!("{open}; in doubt)"),
        (false, None) => figure + " (in doubt)",
    }
}

/// The winner's figure, its load, the GPUs if `has_gpus` is true, and the cost.
fn result(answer: &Answer, answered: &QuestionAnswer, winner: &Winner, has_gpus: bool) -> String {
    let cost = paid(answer, answered, winner);
    let cost = cost.map_or(String::new(), |cost| format!(", {cost}"));
    measured(answer, answered, winner, has_gpus) + &cost
}

/// The figure without an interval, followed by its load, the GPUs and the cost, each as short as possible.
pub(super) fn one_of_several(answer: &Answer, answered: &QuestionAnswer, winner: &Winner, has_gpus: bool) -> String {
    let reached = match &answered.goal {
        Goal::Metric { name, .. } => say(name, &parts::estimate(&winner.value).0) + &parts::at_load_of(winner),
        Goal::Load { .. } => figure(answered, winner),
    };
    let gpus = answer.gpus.filter(|_| has_gpus && winner.replicas > 1);
    let gpus = gpus.map_or(String::new(), |gpus| format!(" on {gpus} GPUs (scaled)"));
    let cost = cost(answer, answered, winner);
    let cost = cost.map_or(String::new(), |cost| format!(", ${cost} per million"));
    format!("{reached}{gpus}{cost}")
}

/// The cost in words: `$0.036 per million output tokens`.
fn paid(answer: &Answer, answered: &QuestionAnswer, winner: &Winner) -> Option<String> {
    cost(answer, answered, winner).map(|cost| format!("${cost} per million output tokens"))
}

/// The winner's figure, its load, and the GPUs if `has_gpus` is true.
fn measured(answer: &Answer, answered: &QuestionAnswer, winner: &Winner, has_gpus: bool) -> String {
    let at = match answered.is_load() {
        true => String::new(),
        false => parts::at_load_of(winner),
    };
    let gpus = has_gpus.then(|| parts::on_gpus(answer, winner));
    figure(answered, winner) + &at + &gpus.unwrap_or_default()
}

/// A lower load at which the winner does as much, if there is one, then the questions about the same workload that another server wins.
fn others(answer: &Answer, leading: &QuestionAnswer, winner: &Winner) -> Vec<Alternative> {
    let config = |answered: &QuestionAnswer| answered.winner.as_ref().map(|winner| winner.config.clone());
    let others = answer
        .questions
        .iter()
        .filter(|other| !other.is_load() && other.workload == leading.workload);
    let others = others
        .filter(|other| config(other) != config(leading))
        .filter_map(|other| {
            let winner = other.winner.as_ref()?;
            let at = other.load.as_deref().map_or(String::new(), parts::at_load);
            let figure = match other.load {
                Some(_) => figure(other, winner),
                None => result(answer, other, winner, true),
            };
            let alternative = Alternative {
                question: lower_first(&other.question) + &at,
                text: doubted(
                    format!("{}, {figure}{}", server(answer, winner), unsure(other, winner)),
                    other,
                ),
            };
            Some(((winner.config.clone(), winner.load.clone()), alternative))
        });
    // Consecutive questions with the same winner are joined, with the figure of the first.
    let mut together: Vec<((String, String), Alternative)> = Vec::new();
    for (won, other) in others {
        match together.last_mut() {
            Some((last, known)) if *last == won => known.question += &format!(", {}", other.question),
            _ => together.push((won, other)),
        }
    }
    let lower = untried::lower_load(answer, leading, winner).map(|text| Alternative {
        question: "as much at a lower load".to_owned(),
        text,
    });
    lower
        .into_iter()
        .chain(together.into_iter().map(|(_, other)| other))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sentence;
    use super::super::untried::tests::answer;
    use super::*;
    use vsweep_answer::{Effect, Entrant, Verdict};

    fn entrants(answered: &QuestionAnswer, others: &[&str]) -> Vec<Entrant> {
        let winner = answered.winner.as_ref().expect("a winner");
        let entrant = |config: &str| Entrant {
            config: config.to_owned(),
            point: None,
            load: winner.load.clone(),
            replicas: 1,
            at_ceiling: false,
            meets: true,
            value: winner.value,
            probability: 0.7,
            as_good: 0.7,
            winner_over: (config != winner.config).then_some(winner.value),
            is_default: false,
            is_disturbed: false,
        };
        let others = others.iter().map(|other| entrant(other));
        std::iter::once(entrant(&winner.config)).chain(others).collect()
    }

    #[test]
    fn another_recommendation_says_how_sure_it_is() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        let latency = &mut answer.questions[1];
        latency.entrants = entrants(latency, &["c"]);
        let winner = latency.winner.as_mut().expect("a winner");
        (winner.config, winner.probability) = ("b".to_owned(), 0.76);
        let other = brief(&answer).other.expect("another");
        assert!(other.ends_with(" (76 % sure)"), "{other}");
    }

    #[test]
    fn a_name_that_the_user_chose_keeps_its_capitals() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        for (question, target) in answer.questions.iter_mut().zip(["Chat-RAG", "Gpu"]) {
            question.question = format!("Target {target}");
            question.load = None;
            question.goal = Goal::Load {
                target: target.to_owned(),
                parameter: "max_concurrency".to_owned(),
                unit: 1.0,
            };
        }
        let lines = brief(&answer).run;
        assert!(lines[0].starts_with("target Chat-RAG: "), "{lines:?}");
        assert!(lines[1].starts_with("target Gpu: "), "{lines:?}");
        let sentence = sentence(&answer, &answer.questions[0]);
        assert_eq!(sentence.lead, "Target Chat-RAG,");
    }

    #[test]
    fn the_best_so_far_is_named_for_the_first_of_several_questions() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        answer.questions.truncate(1);
        let first = &mut answer.questions[0];
        first.workload = "chat".to_owned();
        first.entrants = entrants(first, &["c"]);
        let mut other = first.clone();
        other.workload = "code".to_owned();
        answer.questions.push(other);
        let text = crate::sentences::best(&answer).expect("a best server").text;
        assert!(
            text.starts_with("chat: ") && text.ends_with(" (and 1 more workload)"),
            "{text}"
        );
        assert!(!text.contains(" to "), "it has no interval: {text}");
    }

    #[test]
    fn a_doubt_says_which_recommendation_it_is_about() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        answer.questions.truncate(1);
        answer.questions[0].warnings = vec![Warning::Disturbed { disturbed: 2, of: 3 }];
        let warned = brief(&answer).warned;
        assert_eq!(
            warned.as_deref(),
            Some("recommended server: 2 of 3 runs were disturbed")
        );
        let mut other = answer.questions[0].clone();
        (other.workload, answer.questions[0].workload) = ("code".to_owned(), "GPU chat".to_owned());
        other.warnings.clear();
        answer.questions.push(other);
        let warned = brief(&answer).warned;
        assert_eq!(warned.as_deref(), Some("GPU chat: 2 of 3 runs were disturbed"));
        // A server that is too large for each of them is named once.
        for own in &mut answer.questions {
            (own.warnings, own.too_large) = (Vec::new(), vec!["b".to_owned()]);
        }
        let warned = brief(&answer).warned;
        assert_eq!(warned.as_deref(), Some("too large for these GPUs: b"));
    }

    #[test]
    fn a_workload_keeps_its_capitals() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        for (question, workload) in answer.questions.iter_mut().zip(["GPU chat", "code"]) {
            question.workload = workload.to_owned();
        }
        let why = brief(&answer).why;
        assert!(why[0].starts_with("Why: GPU chat: "), "{why:?}");
    }

    #[test]
    fn the_interval_of_a_number_of_users_is_whole() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        let first = &mut answer.questions[0];
        first.goal = Goal::Load {
            target: "chat".to_owned(),
            parameter: "max_concurrency".to_owned(),
            unit: 1.0,
        };
        let winner = first.winner.as_mut().expect("a winner");
        (winner.value.value, winner.value.low, winner.value.high) = (80.0, 79.999_999_999_9, 96.4);
        let run = brief(&answer).run;
        assert!(run[0].contains("up to 80 concurrent requests (80 to 96)"), "{run:?}");
        let winner = answer.questions[0].winner.as_mut().expect("a winner");
        winner.replicas = 16;
        winner.value.high = 111.9;
        let run = brief(&answer).run;
        assert!(run[0].contains("up to 80 concurrent requests (80 to 96)"), "{run:?}");
        answer.questions[0].winner.as_mut().expect("a winner").at_ceiling = true;
        let run = brief(&answer).run;
        let each = "80 concurrent requests or more, 16 × 5, the highest load allowed for each server";
        assert!(run[0].contains(each), "{run:?}");
    }

    #[test]
    fn settings_without_an_effect_are_named_together() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        for (question, workload) in answer.questions.iter_mut().zip(["chat", "code"]) {
            question.workload = workload.to_owned();
            question.effects[0].verdict = Verdict::Same;
            let mut other = question.effects[0].clone();
            other.setting = "max_num_batched_tokens".to_owned();
            question.effects.push(other);
        }
        let why = brief(&answer).why;
        assert_eq!(why[0], "Why: chat: no difference: seqs, batched tokens");
        let effects = &mut answer.questions[0].effects;
        effects[0].verdict = Verdict::Improved;
        effects[1].verdict = Verdict::Improved;
        effects[1].setting = "max_num_seqs".to_owned();
        effects[1].metric = "p99_e2el_ms".to_owned();
        let why = brief(&answer).why;
        assert_eq!(why[0], "Why: chat: seqs 8 instead of 64: output throughput +30 %");
        answer.questions[0].effects[0].verdict = Verdict::Undecided;
        let why = brief(&answer).why;
        assert_eq!(
            why[0],
            "Why: chat: no setting is known to change output throughput; but seqs 8 instead of 64: p99 E2EL +30 %"
        );
        answer.questions[0].effects[0].verdict = Verdict::Improved;
        answer.questions[0].effects[1].verdict = Verdict::Regressed;
        let why = brief(&answer).why;
        assert!(
            why[0].ends_with("output throughput +30 %, p99 E2EL +30 % (worse)"),
            "{}",
            why[0]
        );
        answer.questions[0].effects[0].verdict = Verdict::Regressed;
        let mut other = answer.questions[0].effects[0].clone();
        (other.setting, other.verdict) = ("max_num_batched_tokens".to_owned(), Verdict::Same);
        answer.questions[0].effects.push(other);
        let why = brief(&answer).why;
        let is_explained = |why: &String| {
            ["seqs 8", "no difference"]
                .iter()
                .any(|text| why.contains(&format!("chat: {text}")))
        };
        assert!(!why.iter().any(is_explained), "{why:?}");
    }

    #[test]
    fn a_setting_with_an_effect_is_never_without_one() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        let first = &mut answer.questions[0];
        let effect = |other: &str, metric: &str, verdict: Verdict| Effect {
            other: Some(other.to_owned()),
            metric: metric.to_owned(),
            verdict,
            ..first.effects[0].clone()
        };
        first.effects = [("4", Verdict::Improved), ("16", Verdict::Same), ("32", Verdict::Same)]
            .into_iter()
            .flat_map(|(other, verdict)| {
                let of_tail = if other == "16" { Verdict::Undecided } else { verdict };
                [
                    effect(other, "output_throughput", verdict),
                    effect(other, "p99_e2el_ms", of_tail),
                ]
            })
            .collect();
        let why = brief(&answer).why;
        assert!(why[0].contains("seqs 8 instead of 4: output throughput"), "{why:?}");
        assert!(why[0].ends_with("; no difference: seqs 8 instead of 32"), "{why:?}");
        let effects = &mut answer.questions[0].effects;
        effects.retain(|effect| effect.other != Some("32".to_owned()));
        assert!(
            !brief(&answer).why[0].contains("no difference"),
            "{:?}",
            brief(&answer).why
        );
    }

    #[test]
    fn a_server_as_good_as_a_tie_is_not_the_next() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        let first = &mut answer.questions[0];
        first.entrants = entrants(first, &["c", "b"]);
        let next = |answered: &QuestionAnswer| next(answered, answered.winner.as_ref().expect("a winner")).cloned();
        assert_eq!(next(first).map(|next| next.config), Some("c".to_owned()));
        first.as_good = vec!["b".to_owned(), "c".to_owned()];
        assert!(next(first).is_some(), "without ties the next server is told");
        let is_compared = |answer: &Answer| sentence(answer, &answer.questions[0]).why.contains("next best server");
        assert!(is_compared(&answer));
        let first = &mut answer.questions[0];
        first.ties = vec!["b".to_owned()];
        assert_eq!(next(first), None);
        assert!(!is_compared(&answer), "a tie has no ratio");
    }
}
