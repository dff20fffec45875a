//! The answer in a few lines, made of the document alone: the recommendation, how sure it is, and what made the difference.

use super::effects::briefly;
use super::{capital, cost, figure, lower, near, none, parts, percent, server, so_far, unit, warnings};
use itertools::Itertools;
use serde::Serialize;
use vsweep_answer::answer::{Answer, Answered, Warning, Winner};
use vsweep_plan::units::{show_duration, show_many};

/// Recommendations that have a line each.
const MOST: usize = 4;
/// Ties that are named.
const MOST_TIES: usize = 2;

/// The lines.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Brief {
    /// The recommendation for the main question of each workload or target.
    pub run: Vec<String>,
    /// The number of further recommendations.
    pub more: usize,
    /// Certainty of a single recommendation.
    pub sure: Option<String>,
    /// The settings that made the difference to it, and those that made none.
    pub why: Option<String>,
    /// The other questions about a single workload that other servers win.
    pub other: Option<String>,
    /// Warnings about the recommended servers.
    pub warnings: Vec<String>,
}

/// The best server of a sweep that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Best {
    /// The id of its config.
    pub config: String,
    /// The recommendation with how sure it is.
    pub text: String,
}

/// The best server, if one question leads and has several entrants.
pub fn best(answer: &Answer) -> Option<Best> {
    let leading = answer.leading();
    let answered = leading.iter().exactly_one().ok()?;
    let winner = answered.winner.as_ref().filter(|_| answered.entrants.len() > 1)?;
    let text = recommendation(answer, answered, true);
    Some(Best {
        config: winner.config.clone(),
        text: format!("{text} ({} sure{})", percent(winner.probability), so_far(answer)),
    })
}

/// The brief answer.
pub fn brief(answer: &Answer) -> Brief {
    let leading = answer.leading();
    let single = leading.iter().exactly_one().ok();
    let won = |answered: &&&Answered| answered.winner.is_some();
    let shown = leading.iter().take(MOST);
    Brief {
        run: shown
            .map(|answered| recommendation(answer, answered, single.is_some()))
            .collect(),
        more: leading.len().saturating_sub(MOST),
        sure: single.and_then(|answered| sureness(answer, answered, answered.winner.as_ref()?)),
        why: single.filter(won).and_then(|answered| briefly(answered)),
        other: single.filter(won).and_then(|answered| others(answer, answered)),
        warnings: warnings::sentences(
            leading
                .iter()
                .flat_map(|answered| &answered.warnings)
                .filter(is_about_servers),
        )
        .into_iter()
        .unique()
        .collect(),
    }
}

/// False of what is said with the sureness.
fn is_about_servers(warning: &&Warning) -> bool {
    !matches!(warning, Warning::StartNoiseAssumed { .. })
}

/// `4 × TP 2, seqs 256: 156,120 tokens/s at concurrency 1,024 on 8 GPUs, $0.036 per million output tokens`.
fn recommendation(answer: &Answer, answered: &Answered, is_single: bool) -> String {
    let question = match (is_single, answered.workload.as_str()) {
        (true, _) => String::new(),
        (false, "") => format!("{}: ", lower(&answered.question)),
        (false, workload) if answered.is_load() => format!("{}, {workload}: ", lower(&answered.question)),
        (false, workload) => format!("{workload}: "),
    };
    let Some(winner) = &answered.winner else {
        return question + &none(answer, answered);
    };
    let ties = answered
        .ties
        .iter()
        .take(MOST_TIES)
        .map(|tie| answer.name_of(tie))
        .join("; ");
    let ties = if ties.is_empty() {
        ties
    } else {
        format!(", not told apart from it: {ties}")
    };
    let sure = match (is_single, answered.entrants.len()) {
        (false, 2..) => format!(" ({} sure{ties})", percent(winner.probability)),
        _ => String::new(),
    };
    // With a single config there is no choice.
    let server = match answer.configs.len() {
        1 => String::new(),
        _ => server(answer, winner) + ": ",
    };
    format!("{question}{server}{}{sure}", result(answer, answered, winner))
}

/// The winner's figure, its load, the GPUs and the cost.
fn result(answer: &Answer, answered: &Answered, winner: &Winner) -> String {
    let at = match answered.is_load() {
        true => String::new(),
        false => parts::at_load(&winner.load),
    };
    let gpus = answer.gpus.filter(|_| winner.replicas > 1);
    let gpus = gpus.map_or(String::new(), |gpus| format!(" on {gpus} GPUs"));
    let cost = cost(answer, answered, winner);
    let cost = cost.map_or(String::new(), |cost| format!(", ${cost} per million output tokens"));
    figure(answered, winner) + &at + &gpus + &cost
}

/// Describes the certainty: `97 % within 1 % of the best of 32 servers; not told apart from it: TP 4`.
fn sureness(answer: &Answer, answered: &Answered, winner: &Winner) -> Option<String> {
    if answered.entrants.len() < 2 {
        return (answer.configs.len() > 1).then(|| "no other server competes".to_owned());
    }
    let kind = match answer.optimization {
        Some(_) => "measured server",
        None => "server",
    };
    let mut text = format!(
        "{} within {} of the best of {}{}",
        percent(winner.probability),
        near(answer, answered, winner),
        show_many(answered.entrants.len() as u64, kind),
        so_far(answer)
    );
    if unit(answer).is_some() {
        text += "; figures are of one server each: name your GPUs with `gpus` in [report]";
    }
    if !answered.ties.is_empty() {
        let named = answered.ties.iter().take(MOST_TIES).map(|tie| answer.name_of(tie));
        text += &format!("; not told apart from it: {}", named.format("; "));
        match answered.ties.len().saturating_sub(MOST_TIES) {
            0 => {}
            more => text += &format!(" and {more} more"),
        }
    }
    let assumed = answered.warnings.iter().find_map(|warning| match warning {
        Warning::StartNoiseAssumed { deviation } => Some(deviation * 100.0),
        _ => None,
    });
    if let Some(percent) = assumed {
        text += &format!("; assumes that starts of a server differ by about {percent:.1} %");
    }
    if let Some(advice) = &answered.advice {
        let time = advice.seconds.map(std::time::Duration::from_secs_f64);
        let time = time.map_or(String::new(), |time| format!(", about {},", show_duration(time)));
        text += &format!(
            "; --confirm starts {} again{time} for {}",
            show_many(advice.configs.len() as u64, "server"),
            percent(advice.expected)
        );
    }
    Some(text)
}

/// The questions about the same workload that another server wins.
fn others(answer: &Answer, leading: &Answered) -> Option<String> {
    let config = |answered: &Answered| answered.winner.as_ref().map(|winner| winner.config.clone());
    let others = answer
        .questions
        .iter()
        .filter(|other| !other.is_load() && other.workload == leading.workload);
    let mut others = others
        .filter(|other| config(other) != config(leading))
        .filter_map(|other| {
            let winner = other.winner.as_ref()?;
            let at = other.load.as_deref().map_or(String::new(), parts::at_load);
            let figure = match other.load {
                Some(_) => figure(other, winner),
                None => result(answer, other, winner),
            };
            Some(format!(
                "{}{at}: {}, {figure}",
                lower(&other.question),
                server(answer, winner)
            ))
        });
    let text = others.join("; ");
    (!text.is_empty()).then(|| capital(&text))
}
