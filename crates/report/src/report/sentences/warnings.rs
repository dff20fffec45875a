//! Warnings before the recommended server is deployed, a sentence each.

use super::parts::{percent, target};
use vsweep_answer::answer::Warning;
use vsweep_plan::units::show_many;

/// The warnings, in their order. A simulated server is named in the head of every text.
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
        Warning::FailedRequests { failed, requests } => {
            format!("Warning: {failed} of its {} failed.", show_many(*requests, "request"))
        }
        Warning::Disturbed { disturbed, of } => {
            format!("Warning: {disturbed} of {} disturbed.", were(*of))
        }
        Warning::OtherNodes { own, others } => format!(
            "It was measured on {}, others on {}; a difference may be that of the nodes.",
            own.join(", "),
            others.join(", ")
        ),
        Warning::Simulated => return None,
        Warning::StartNoiseAssumed { deviation } => format!(
            "That takes starts of a server to differ by about {:.1} %, which was not measured here.",
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

fn was(count: u32, of: &str) -> String {
    match count {
        1 => format!("1 {of} was"),
        count => format!("{count} {of} were"),
    }
}

fn were(of: u32) -> String {
    match of {
        1 => "1 run was".to_owned(),
        of => format!("{of} runs were"),
    }
}
