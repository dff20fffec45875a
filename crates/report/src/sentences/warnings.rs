//! Warnings to read before deploying the recommended server, a sentence each.

use super::parts::{change, percent, target};
use crate::texts::words::name;
use itertools::Itertools;
use vsweep_answer::{Alone, Answer, Facts, Warning};
use vsweep_base::closed_list::in_words;
use vsweep_base::units::show_many;

/// The warnings in words, in their order. The one about simulation is left out, because the head of every text has it.
pub fn sentences<'a>(warnings: impl Iterator<Item = &'a Warning>) -> Vec<String> {
    warnings.filter_map(sentence).collect()
}

fn sentence(warning: &Warning) -> Option<String> {
    Some(match warning {
        Warning::Deaths { deaths, launches } => {
            format!(
                "Warning: {deaths} of its {} failed or died.",
                show_many((*launches).into(), "launch")
            )
        }
        Warning::Retries { retries } => {
            format!("Warning: {} tried again.", was(*retries, "of its runs"))
        }
        Warning::FailedRuns { failed, of } => {
            format!(
                "Warning: {failed} of its {} at this load failed.",
                show_many((*of).into(), "run")
            )
        }
        Warning::FailedRequests { failed, requests } => {
            format!("Warning: {failed} of its {} failed.", show_many(*requests, "request"))
        }
        Warning::Disturbed { disturbed, of } => {
            format!(
                "Warning: {} disturbed.",
                was(*disturbed, &format!("of {}", show_many((*of).into(), "run")))
            )
        }
        Warning::Doubtful { codes } => {
            let codes = codes.iter().map(|code| in_words(code));
            format!("Its figure is in doubt: {}.", codes.format(", "))
        }
        Warning::MayNotLast { reasons } => format!("Warning: its load may not last: {}.", reasons.join("; ")),
        Warning::OtherNodes { own, others } => format!(
            "It was measured on {}, others on {}; a difference may come from the nodes.",
            own.join(", "),
            others.join(", ")
        ),
        Warning::OtherVersions { own, .. } if own.len() > 1 => format!(
            "Warning: its server was measured with versions {}, and each load counts the runs of the latest that it has; measure anew with \
             --fresh.",
            own.join(" and ")
        ),
        Warning::OtherVersions { own, others } => format!(
            "Warning: its server has version {}, and other sessions measured version {}; a difference may come from the version, so \
             measure anew with --fresh.",
            own.join(" and "),
            others.join(" and ")
        ),
        Warning::OtherwiseAlone { figures } => {
            let figure = |figure: &Alone| format!("{} {}", name(&figure.metric), change(figure.ratio));
            format!(
                "Warning: its figures were measured next to other servers and differ without them: {}.",
                figures.iter().map(figure).join(", ")
            )
        }
        Warning::Simulated => return None,
        Warning::StartNoiseAssumed { deviation } => format!(
            "This assumes that starts of a server differ by about {:.1} %, since too few were measured.",
            deviation * 100.0
        ),
        Warning::TargetUncertain {
            target: asked,
            probability,
        } => format!(
            "It meets {} with a probability of {}.",
            target(asked),
            percent(*probability)
        ),
    })
}

/// Deaths of servers that are not recommended: `3 other servers: 2 of 9 launches failed or died`. `None` if no launch did.
pub fn losers(answer: &Answer) -> Option<String> {
    let winners = answer.questions.iter().filter_map(|answered| answered.winner.as_ref());
    let winners: Vec<&str> = winners.map(|winner| &*winner.config).collect();
    let others = answer.configs.iter().filter(|config| !winners.contains(&&*config.id));
    let lost = others
        .map(|config| &config.facts)
        .filter(|facts| facts.deaths > 0)
        .collect_vec();
    let count = |of: fn(&Facts) -> u32| lost.iter().map(|facts| of(facts)).sum::<u32>();
    let (all, deaths) = (count(|facts| facts.launches), count(|facts| facts.deaths));
    let other = if winners.is_empty() { "server" } else { "other server" };
    let servers = show_many(lost.len() as u64, other);
    let launches = show_many(all.into(), "launch");
    (deaths > 0).then(|| format!("{servers}: {deaths} of {launches} failed or died"))
}

fn was(count: u32, of: &str) -> String {
    match count {
        1 => format!("1 {of} was"),
        count => format!("{count} {of} were"),
    }
}
