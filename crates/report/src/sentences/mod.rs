//! The answer in sentences, made of the document alone: what to run for each question, how much better that is than the next server and
//! the default settings, how sure it is, and what to know before deploying it.

mod best;
mod brief;
mod effects;
mod none;
mod optimization;
pub(super) mod parts;
mod sure;
mod together;
mod untried;
mod warnings;

pub use best::{Best, best};
pub use brief::{Pick, brief, picks};
pub use effects::{choice, findings};
pub use optimization::optimization;
pub use warnings::losers;

use crate::texts::template::plain;
use crate::texts::words::{lower_first, say, short_setting_of, show_number, show_ratio};
use itertools::Itertools;
use minijinja::context;
use none::{too_large, why_no_winner};
use parts::{estimate, margin, percent};
use serde::Serialize;
use sure::{certainty_sentence, near};
use vsweep_answer::{Answer, Better, Entrant, Estimate, Goal, QuestionAnswer, Warning, WinReason, Winner};
use vsweep_base::units::{duration_of, show_duration, show_many};

/// The metric of the cost of a million output tokens. It exists if GPUs have a price.
const COST: &str = "cost_per_million_output_tokens";
/// Share of the best figure above which a figure counts as the best.
const COUNTS_AS_BEST: f64 = 0.9995;
/// Most ties that are named.
const MOST_TIES: usize = 4;

/// The sentence about one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sentence {
    /// `Run`, or the question: `For the lowest latency, run`.
    pub lead: String,
    /// The server; empty if none is recommended.
    pub server: String,
    /// Its figure, how far others are behind, and how sure that is.
    pub why: String,
}

impl Sentence {
    /// The whole sentence.
    pub fn text(&self) -> String {
        match self.server.is_empty() {
            true => format!("{}: {}", self.lead, self.why),
            false => format!("{} {}: {}", self.lead, self.server, self.why),
        }
    }
}

/// A sentence for each question about the points of a workload, in their order.
pub fn sentences(answer: &Answer, workload: &str) -> Vec<Sentence> {
    let questions = answer.questions.iter();
    let own = questions.filter(|answered| answered.workload == workload && !answered.is_load());
    own.map(|answered| sentence(answer, answered)).collect()
}

/// The sentences about several workloads together.
pub fn together(answer: &Answer) -> Vec<Sentence> {
    let sentence = |together: &vsweep_answer::Together| {
        let config = together.config.as_ref()?;
        let shares = together.shares.iter();
        let mut questions = answer.questions.iter();
        let first = questions.find(|own| own.question == together.question);
        let better = first.map_or(Better::Higher, |own| own.better);
        let mut shares = shares.map(|share| {
            let part = match better {
                _ if share.share > COUNTS_AS_BEST && share.winner == *config => "the best".to_owned(),
                _ if share.share > COUNTS_AS_BEST => "as good as the best".to_owned(),
                Better::Higher => format!("{} of the best", percent(share.share)),
                Better::Lower => match (1.0 / share.share - 1.0) * 100.0 {
                    more if more < 1.0 => "within 1 % of the best".to_owned(),
                    more => format!("{more:.0} % above the best"),
                },
            };
            format!("{part} for {}", share.workload)
        });
        Some(Sentence {
            lead: format!(
                "For the {} of all workloads together, run",
                lower_first(&together.question)
            ),
            server: answer.name_of(config).to_owned(),
            why: format!(
                "{}. {}",
                shares.join(", "),
                capital(&certainty_sentence(
                    answer,
                    together.probability,
                    &margin(answer.margin)
                ))
            ),
        })
    };
    answer.together.iter().filter_map(sentence).collect()
}

/// The sentence about a question, without the warnings that earlier questions have.
pub fn sentence(answer: &Answer, answered: &QuestionAnswer) -> Sentence {
    sentence_with(answer, answered, new_warnings(answer, answered).collect())
}

/// The sentence about a question with all its warnings, for a place without the other sentences.
pub fn whole_sentence(answer: &Answer, answered: &QuestionAnswer) -> Sentence {
    sentence_with(answer, answered, answered.warnings.iter().collect())
}

fn sentence_with(answer: &Answer, answered: &QuestionAnswer, warnings: Vec<&Warning>) -> Sentence {
    let questions = answer
        .questions
        .iter()
        .filter(|other| other.workload == answered.workload);
    let is_first = questions
        .clone()
        .next()
        .is_none_or(|first| first.question == answered.question);
    let choices = questions.filter(|other| other.entrants.len() > 1).count();
    let at = answered.load.as_deref().map_or(String::new(), parts::at_load);
    // Only a target names its workload: questions about points are listed below the workload's name.
    let workload = match (answered.is_load(), answered.workload.as_str()) {
        (true, workload) if !workload.is_empty() => format!(", {workload}"),
        _ => String::new(),
    };
    let asked = format!("{}{at}{workload}", lower_first(&answered.question));
    // A target is named if there are several questions.
    let is_alone = !answered.is_load() || answer.questions.len() == 1;
    match &answered.winner {
        None => Sentence {
            lead: capital(&asked),
            server: String::new(),
            why: why_no_winner(answer, answered, true),
        },
        Some(winner) => Sentence {
            lead: match (answered.entrants.len(), choices) {
                (..=1, _) if !is_only(answer) => format!("{},", capital(&asked)),
                (..=1, _) => capital(&asked),
                (_, 1) if is_first && is_alone && workload.is_empty() => "Run".to_owned(),
                _ => format!("For the {asked}, run"),
            },
            server: match is_only(answer) {
                // There is nothing to choose.
                true => String::new(),
                false => server(answer, winner),
            },
            why: why(answer, answered, winner, warnings),
        },
    }
}

/// Returns true if a single config was measured and no other can follow: the sweep has ended, or the plan has only one server.
fn is_only(answer: &Answer) -> bool {
    match answer.configs.as_slice() {
        [only] => answer.open == 0 || only.name == parts::ONLY_SERVER,
        _ => false,
    }
}

/// The winning server with its number of replicas: `4 × TP 2`.
fn server(answer: &Answer, winner: &Winner) -> String {
    let name = answer.name_of(&winner.config);
    match winner.replicas {
        1 => name.to_owned(),
        several => format!("{several} × {name}"),
    }
}

fn why(answer: &Answer, answered: &QuestionAnswer, winner: &Winner, warnings: Vec<&Warning>) -> String {
    let others = || answered.entrants.iter().filter(|other| other.config != winner.config);
    let describe_lead = |other: &Entrant| {
        let ratio = other.winner_over?;
        let load = (other.load != winner.load && !answered.is_load()).then(|| other.load.clone());
        let name = answer.name_of(&other.config);
        let ratio = difference(ratio.value, answered.better);
        Some(context! { name, defaults => parts::defaults(name), ratio, load })
    };
    let next = next(answered, winner);
    let default = others().find(|other| other.is_default && other.winner_over.is_some());
    let own = answered.entrants.iter().find(|own| own.config == winner.config);
    let has_defaults = own.is_some_and(|own| own.is_default);
    let is_next_default = next.is_some_and(|next| next.is_default);
    let chosen = preferred(winner);
    let own_name = answer.name_of(&winner.config);
    let ties = answered.ties.iter();
    let ties = ties.map(|tie| parts::tie(answer, answered, winner, tie));
    let advice = answered.advice.as_ref().map(|advice| {
        context! {
            starts => show_many(advice.starts.into(), "more start"),
            servers => show_many(advice.configs.len() as u64, "server"),
            time => advice.seconds.map(|seconds| show_duration(duration_of(seconds))),
            expected => percent(advice.expected),
        }
    });
    let is_at_load = !answered.is_load() && !winner.load.is_empty();
    let parts = context! {
        figure => figure(answered, winner),
        where => match is_at_load && answered.load.is_none() {
            true => parts::at_load_of(winner),
            false => String::new(),
        },
        gpus => parts::on_gpus(answer, winner),
        cost => cost(answer, answered, winner),
        // The reason already names the server that the winner was preferred to.
        next => next.filter(|next| chosen.is_none_or(|(best, _)| *best != next.config)).and_then(describe_lead),
        default => default.filter(|_| !is_next_default).and_then(describe_lead),
        is_next_default,
        is_default => has_defaults && answered.entrants.len() > 1 && own_name != parts::DEFAULT_SETTINGS,
        chosen => chosen.map(|(best, why)| context! { best => answer.name_of(best), why }),
        margin => near(answer, answered, winner),
        sure => match answered.entrants.len() {
            2.. => Some(certainty_sentence(answer, winner.probability, &near(answer, answered, winner))),
            _ => sure::first(answer).map(|first| format!("{first}.")),
        },
        ties => ties.clone().take(MOST_TIES).join("; "),
        more_ties => answered.ties.len().saturating_sub(MOST_TIES),
        too_large => too_large(answer, answered),
        warnings => warnings::sentences(warnings.into_iter()),
        unit => unit(answer).filter(|_| answer.questions.first() == Some(answered)),
        advice,
    };
    plain(include_str!("sentence.txt.jinja"), parts)
}

/// The entrant to which the winner was preferred although its estimate is better, and the reason.
fn preferred(winner: &Winner) -> Option<(&String, &'static str)> {
    match &winner.chosen {
        WinReason::Best => None,
        WinReason::FewerFailures { best } => Some((best, "failed less")),
        WinReason::MoreTargets { best } => Some((best, "meets more of the other targets")),
        WinReason::MorePerGpu { best } => Some((best, "has more throughput per GPU")),
        WinReason::FewerChanges { best } => Some((best, "needs fewer changes from the defaults")),
    }
}

/// The best of the other servers, if it differs from the winner by more than noise.
fn next<'a>(answered: &'a QuestionAnswer, winner: &Winner) -> Option<&'a Entrant> {
    let mut others = answered.entrants.iter().filter(|other| other.config != winner.config);
    let next = others.find(|other| other.meets && other.winner_over.is_some());
    // No ratio is stated for a server that may be as good as the winner. The ties are the smallest set that includes the best, so they may
    // lack a server that is as good as one of them.
    let is_tied = |next: &Entrant| {
        let ties = &answered.ties;
        ties.contains(&next.config) || (!ties.is_empty() && answered.as_good.contains(&next.config))
    };
    next.filter(|next| !is_tied(next))
}

/// The warnings about a question's winner, without those that an earlier question about the workload has about the same server. Assumed
/// noise is reported once.
fn new_warnings<'a>(answer: &'a Answer, answered: &'a QuestionAnswer) -> impl Iterator<Item = &'a Warning> {
    let config = |own: &'a QuestionAnswer| own.winner.as_ref().map(|winner| &winner.config);
    let earlier = answer.questions.iter().take_while(move |other| *other != answered);
    let earlier = earlier
        .filter(|other| other.workload == answered.workload)
        .collect_vec();
    let is_said = move |warning: &Warning| {
        earlier.iter().any(|other| match warning {
            Warning::StartNoiseAssumed { .. } => {
                let mut said = other.warnings.iter();
                said.any(|said| matches!(said, Warning::StartNoiseAssumed { .. }))
            }
            warning => config(other) == config(answered) && other.warnings.contains(warning),
        })
    };
    answered.warnings.iter().filter(move |warning| !is_said(warning))
}

/// The ratio of the winner's figure to another in words: `2.37 times`, `24 % more than`, or `43 % less than` for a figure that is better
/// low.
fn difference(ratio: f64, better: Better) -> String {
    match better {
        Better::Lower if ratio < 0.99 => format!("{:.0} % less than", (1.0 - ratio) * 100.0),
        _ if (1.01..2.0).contains(&ratio) => format!("{:.0} % more than", (ratio - 1.0) * 100.0),
        _ => show_ratio(ratio),
    }
}

/// The winner's figure in words: `7,915 output tokens/s (7,700 to 8,130)`, or `up to 99 concurrent requests (99 to 119)`.
fn figure(answered: &QuestionAnswer, winner: &Winner) -> String {
    let (value, range) = estimate(&winner.value);
    match &answered.goal {
        Goal::Metric { name, .. } => say(name, &value) + &range,
        Goal::Load { parameter, .. } => {
            // Each number is formatted alone, because a load and the ends of its interval may need different numbers of decimals.
            let Estimate { value, low, high } = winner.value;
            let replicas = winner.replicas.max(1);
            let whole = |end: f64| match parameter.as_str() {
                "max_concurrency" => parts::whole(end, replicas),
                _ => end,
            };
            let each = show_number(value / f64::from(replicas));
            let [value, low, high] = [value, whole(low), whole(high)].map(show_number);
            let range = match low == high {
                true => String::new(),
                false => format!(" ({low} to {high})"),
            };
            let load = match parameter.as_str() {
                "max_concurrency" => format!("{value} concurrent requests"),
                "request_rate" => format!("{value} requests/s"),
                other => short_setting_of(other, &value),
            };
            match winner.at_ceiling {
                true if replicas > 1 => {
                    format!("{load} or more, {replicas} × {each}, the highest load allowed for each server")
                }
                true => load + " or more, the highest load allowed",
                false => format!("up to {load}{range}"),
            }
        }
    }
}

fn cost(answer: &Answer, answered: &QuestionAnswer, winner: &Winner) -> Option<String> {
    let is_asked = matches!(&answered.goal, Goal::Metric { name, .. } if name == COST);
    let mut points = answer.estimates.iter();
    let point = points.find(|own| Some(&own.point) == winner.point.as_ref())?;
    let cost = untried::figure(answer, point, COST).filter(|_| !is_asked)?;
    Some(show_number(cost.value))
}

/// A remark if servers of different sizes compete one by one, because the number of GPUs was not given.
fn unit(answer: &Answer) -> Option<&'static str> {
    let sizes = answer.configs.iter().map(|config| config.gpus).filter(|gpus| *gpus > 0);
    let differ = answer.gpus.is_none() && sizes.unique().count() > 1;
    differ.then_some(
        "Figures are of one server each, though the servers differ in their GPUs; name yours with `gpus` in [report].",
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
