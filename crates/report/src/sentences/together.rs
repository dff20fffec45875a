//! Sentences about the servers that are best for all workloads together.

use super::{COUNTS_AS_BEST, parts, percent};
use crate::texts::words::{lower_first, show_ratio};
use itertools::Itertools;
use vsweep_answer::{Answer, Better, QuestionAnswer};

/// The other questions about all workloads together whose winner wins no leading question.
pub(super) fn others_together(answer: &Answer, leading: &[&QuestionAnswer]) -> Vec<String> {
    let winners = leading.iter().filter_map(|answered| answered.winner.as_ref());
    let winners = winners.map(|winner| &winner.config).collect_vec();
    let others = answer.together.iter().skip(1);
    let others = others.filter_map(|own| Some((own.config.as_ref()?, lower_first(&own.question))));
    let others = others.filter(|(config, _)| !winners.contains(config));
    // Questions with the same winner are joined.
    let others = others.into_group_map().into_iter().sorted();
    let text = |(config, questions): (&String, Vec<String>)| {
        format!("{} overall: {}", questions.join(", "), answer.name_of(config))
    };
    others.map(text).collect()
}

/// The server for all workloads together, with its share of the best of each, for the first of several targets by name; `None` if it wins
/// each of them anyway.
pub(super) fn joint(answer: &Answer, leading: &[&QuestionAnswer]) -> Option<String> {
    let together = answer.together.first()?;
    let config = together.config.as_ref()?;
    let is_own = |answered: &&QuestionAnswer| answered.winner.as_ref().is_some_and(|winner| winner.config == *config);
    let least = together.shares.iter().map(|share| share.share).reduce(f64::min)?;
    let asked = answer.questions.iter().find(|own| own.question == together.question);
    let part = match asked.map(|own| own.better) {
        _ if least > COUNTS_AS_BEST && together.shares.iter().all(|share| share.winner == *config) => {
            "the best".to_owned()
        }
        _ if least > COUNTS_AS_BEST => "as good as the best".to_owned(),
        Some(Better::Lower) => format!("at most {} the best server's", show_ratio(1.0 / least)),
        _ if least > 0.99 => format!("{} of the best", percent(least)),
        _ => format!("at least {} of the best", percent(least)),
    };
    let (name, sure) = (answer.name_of(config), percent(together.probability));
    let within = parts::margin(answer.margin);
    let title = match asked.is_some_and(QuestionAnswer::is_load) && answer.together.len() > 1 {
        true => lower_first(&together.question) + ": ",
        false => String::new(),
    };
    let text = format!("{title}{name}: {part} for each workload, {sure} sure within {within} of the best");
    (!leading.iter().all(is_own)).then_some(text)
}
