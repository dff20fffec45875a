//! The reason why nothing is recommended.

use super::parts::{self, estimate, percent, target};
use crate::texts::words::say;
use itertools::Itertools;
use vsweep_answer::{Answer, Goal, QuestionAnswer};

/// The names of the servers that need more GPUs than there are.
pub(super) fn too_large(answer: &Answer, answered: &QuestionAnswer) -> String {
    let mut names = answered.too_large.iter().map(|config| answer.name_of(config));
    names.join("; ")
}

/// The reason why nothing is recommended, and the servers that do not count because they are too large. If `is_titled` is true, the title
/// names the target of a load, so the reason does not.
pub(super) fn why_no_winner(answer: &Answer, answered: &QuestionAnswer, is_titled: bool) -> String {
    let too_large = too_large(answer, answered);
    if answered.too_large.len() == answer.configs.len() && !answer.configs.is_empty() {
        return format!("every server is too large for these GPUs: {too_large}.");
    }
    match too_large.as_str() {
        "" => no_winner(answer, answered, is_titled, "no server"),
        too_large => {
            let reason = no_winner(answer, answered, is_titled, "no server that fits these GPUs");
            format!("{reason} Too large for them: {too_large}.")
        }
    }
}

/// The reason why no server that fits the GPUs is recommended. `nobody` begins the sentence: `no server`.
fn no_winner(answer: &Answer, answered: &QuestionAnswer, is_titled: bool, nobody: &str) -> String {
    let asked = match &answered.goal {
        Goal::Load { .. } if is_titled => "it".to_owned(),
        Goal::Load { target, .. } => format!("target {target}"),
        Goal::Metric { .. } => answered.targets.iter().map(target).unique().join(", "),
    };
    let is_unmeasured = !answer
        .estimates
        .iter()
        .any(|point| point.workload == answered.workload && point.runs > 0);
    let Some(nearest) = &answered.nearest else {
        return match asked.as_str() {
            asked if answered.is_load() && answer.open == 0 => {
                format!("{nobody} is known to meet {asked} at any load; sla.csv has the end of each search.")
            }
            _ if answered.is_load() => {
                "no search has found a load yet; `vsweep status` says how far they are.".to_owned()
            }
            asked if answer.open == 0 && answer.optimization.is_none() && (is_unmeasured || asked.is_empty()) => {
                match answered.too_large.is_empty() {
                    true => "no run of any server gave a figure.".to_owned(),
                    false => format!("{nobody} gave a figure."),
                }
            }
            asked if is_unmeasured || asked.is_empty() => "nothing is known yet.".to_owned(),
            asked => format!("{nobody} meets {asked}."),
        };
    };
    let missed = nearest.meets.iter().filter(|meeting| !meeting.is_met);
    let mut missed = missed.map(|meeting| {
        let (value, range) = estimate(&meeting.value);
        match answered.is_load() {
            // The figure is approximate, because the run may have been cut short.
            true => say(&meeting.target.metric, &format!("about {value}")),
            false => say(&meeting.target.metric, &value) + &range,
        }
    });
    if answered.is_load() {
        let (load, missed) = (parts::at_load(&nearest.load), missed.join(", "));
        let missed = if missed.is_empty() {
            missed
        } else {
            format!(", with {missed}")
        };
        return match answer.configs.len() {
            1 => format!("{nobody} meets {asked}, even{load}{missed}."),
            _ => format!(
                "{nobody} meets {asked}, even{load}. The nearest is {}{missed}.",
                answer.name_of(&nearest.config)
            ),
        };
    }
    let missed = match missed.join(", ") {
        none if none.is_empty() => "where not all of these figures were measured".to_owned(),
        missed => format!("with {missed}"),
    };
    format!(
        "{nobody} meets {asked}. The nearest is {}{}, {missed}; it meets them with a probability of {}.",
        answer.name_of(&nearest.config),
        parts::at_load(&nearest.load),
        percent(nearest.probability)
    )
}

#[cfg(test)]
mod tests {
    use super::super::untried::tests::answer;
    use super::*;
    use vsweep_answer::Config;

    #[test]
    fn servers_that_do_not_fit_are_named_where_no_other_is_recommended() {
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        let config = |id: &str| -> Config {
            serde_json::from_value(serde_json::json!({
                "id": id, "name": id, "settings": {}, "changes": 0, "gpus": 2, "seconds_per_start": null,
                "facts": {"launches": 1, "deaths": 0, "retries": 0, "requests": 0, "failed_requests": 0, "simulated": false},
            }))
            .expect("a config")
        };
        answer.configs = vec![config("a"), config("b")];
        let mut answered = answer.questions[0].clone();
        answered.winner = None;
        answered.too_large = vec!["b".to_owned()];
        let text = why_no_winner(&answer, &answered, false);
        assert_eq!(
            text,
            "no server that fits these GPUs gave a figure. Too large for them: b."
        );
        answered.goal = Goal::Load {
            target: "chat".to_owned(),
            parameter: "max_concurrency".to_owned(),
            unit: 1.0,
        };
        let text = why_no_winner(&answer, &answered, false);
        assert!(
            text.starts_with("no server that fits these GPUs is known to meet target chat"),
            "{text}"
        );
        assert!(text.ends_with("Too large for them: b."), "{text}");
        answered.too_large.push("a".to_owned());
        assert_eq!(
            why_no_winner(&answer, &answered, false),
            "every server is too large for these GPUs: b; a."
        );
    }
}
