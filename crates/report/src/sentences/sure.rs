//! The certainty of an answer in words, and what would make it surer.

use super::parts::{self, margin, percent};
use super::{MOST_TIES, too_large};
use crate::texts::words::join_some;
use itertools::Itertools;
use vsweep_answer::{Advice, Answer, Goal, QuestionAnswer, Warning, Winner};
use vsweep_base::units::{duration_of, show_duration, show_many};

/// Describes the certainty: `97 % within 1 % of the best of 32 servers; perhaps as good: TP 4`.
pub fn certainty(answer: &Answer, answered: &QuestionAnswer, winner: &Winner) -> Option<String> {
    if answered.entrants.len() < 2 {
        if let Some(first) = first(answer) {
            return Some(first.to_owned());
        }
        let too_large = match too_large(answer, answered).as_str() {
            "" => String::new(),
            names => format!("; too large for these GPUs: {names}"),
        };
        return (answer.configs.len() > 1).then(|| format!("no other server competes{too_large}"));
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
    let assumed = answered.warnings.iter().find_map(|warning| match warning {
        Warning::StartNoiseAssumed { deviation } => Some(deviation * 100.0),
        _ => None,
    });
    if let Some(percent) = assumed {
        text += &format!(" (assuming restarts differ by {percent:.1} %)");
    }
    text += &ties(answer, answered, winner);
    if let Some(advice) = &answered.advice {
        let time = match time(advice) {
            none if none.is_empty() => none,
            time => time + ",",
        };
        let again = match advice.starts {
            1 => "again".to_owned(),
            more => format!("{more} more times"),
        };
        text += &format!(
            "; `--confirm` starts each of {} servers {again}{time} to make it {} sure",
            advice.configs.len(),
            percent(advice.expected)
        );
    }
    Some(text)
}

/// A remark about the first measured server, while others are still to come.
pub fn first(answer: &Answer) -> Option<&'static str> {
    let is_first = answer.configs.len() == 1 && !super::is_only(answer);
    is_first.then_some("no other server was measured so far")
}

/// Ids of other configs that meet the target even at the highest load allowed.
pub fn at_top<'a>(answered: &'a QuestionAnswer, winner: &'a Winner) -> impl Iterator<Item = &'a String> {
    let others = answered.entrants.iter();
    let others = others.filter(|other| other.at_ceiling && other.config != winner.config);
    others.map(|other| &other.config)
}

/// Names the servers that may be as good or better: `; perhaps as good: TP 4 and 2 more; at the highest load allowed, perhaps beyond it: TP
/// 2`; empty if there are none.
fn ties(answer: &Answer, answered: &QuestionAnswer, winner: &Winner) -> String {
    let list = |configs: &[&String]| {
        let named = configs.iter().map(|tie| parts::tie(answer, answered, winner, tie));
        join_some(named, MOST_TIES, "; ")
    };
    let mut text = String::new();
    if !answered.ties.is_empty() {
        text += &format!("; perhaps as good: {}", list(&answered.ties.iter().collect_vec()));
    }
    let at_top = at_top(answered, winner).collect_vec();
    if !at_top.is_empty() {
        text += &format!("; at the highest load allowed, perhaps beyond it: {}", list(&at_top));
    }
    text
}

/// The effect of `--confirm` on one of several recommendations: ` (96 % after --confirm)`.
pub fn confirmed(answered: &QuestionAnswer) -> String {
    answered.advice.as_ref().map_or(String::new(), |advice| {
        format!(" ({} after `--confirm`)", percent(advice.expected))
    })
}

/// The time that the advised starts take: `, about 25.7 s`; empty if the duration of a start is unknown.
fn time(advice: &Advice) -> String {
    let time = advice.seconds.map(duration_of);
    time.map_or(String::new(), |time| format!(", about {}", show_duration(time)))
}

/// States a certainty: `97 % sure to be within 1 % of the best.`
pub fn certainty_sentence(answer: &Answer, probability: f64, near: &str) -> String {
    format!(
        "{} sure to be within {near} of the best{}{}.",
        percent(probability),
        if answer.optimization.is_some() {
            " of those measured"
        } else {
            ""
        },
        so_far(answer)
    )
}

/// The difference from the best that does not matter: `1 %`, or `one user of each server` if that is more.
pub fn near(answer: &Answer, answered: &QuestionAnswer, winner: &Winner) -> String {
    match &answered.goal {
        Goal::Load { unit, .. } if winner.value.value * answer.margin < unit * f64::from(winner.replicas) => {
            let each = if winner.replicas > 1 { " of each server" } else { "" };
            format!("one user{each}")
        }
        _ => margin(answer.margin),
    }
}

/// Returns ` so far` while planned runs have no result, else an empty text.
pub fn so_far(answer: &Answer) -> &'static str {
    if answer.open > 0 { " so far" } else { "" }
}
