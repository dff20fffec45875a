//! The effect of each setting at the recommended point, in words: its size, its interval, and better or worse. Settings that make no
//! difference, and those that are not known to make one, are listed separately.

use super::parts::change;
use crate::texts::changes::brief_change;
use crate::texts::words::{name, say_setting, short_name, title};
use itertools::Itertools;
use serde::Serialize;
use vsweep_answer::{Answer, Effect, QuestionAnswer, Verdict};
use vsweep_base::units::show_many;

/// The effects on one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The metric's title.
    pub metric: String,
    /// A sentence for each change that makes a difference, then one for all that make none, and one for the undecided ones.
    pub sentences: Vec<String>,
}

/// The effects at the winner of a question, by metric.
pub fn findings(answered: &QuestionAnswer) -> Vec<Finding> {
    let metrics = answered.effects.iter().map(|effect| &effect.metric).unique();
    let finding = |metric: &String| {
        let own = answered.effects.iter().filter(|effect| effect.metric == *metric);
        let own = own.collect_vec();
        let mut sentences = own
            .iter()
            .filter(|effect| is_known(effect))
            .map(|effect| difference(effect))
            .collect_vec();
        let settings = |verdict: Verdict| {
            let alike = own.iter().filter(|effect| effect.verdict == verdict);
            alike.map(|effect| choice(effect)).join("; ")
        };
        let named = [
            (Verdict::Same, "no difference"),
            (Verdict::Undecided, "not known to make a difference"),
        ];
        for (verdict, words) in named {
            let settings = settings(verdict);
            if !settings.is_empty() {
                sentences.push(format!("{words}: {settings}"));
            }
        }
        Finding {
            metric: title(metric),
            sentences,
        }
    };
    metrics.map(finding).collect()
}

/// Most settings with a difference in a brief answer.
const MOST: usize = 3;

/// The largest effect of each setting in one line, ordered by the change of the first metric, largest first: `TP 2 instead of 1: output
/// throughput +71 %, p99 E2EL -40 %; no difference: seqs`. Settings that make the first metric worse are left out. With `only_first`, only
/// the first part is kept, with its first metric and the metrics that became worse.
pub fn briefly(answer: &Answer, answered: &QuestionAnswer, only_first: bool) -> Option<String> {
    let settings = if only_first { 1 } else { MOST + 1 };
    let choices = answered.effects.iter().map(choice).unique();
    let choices = choices.map(|of| {
        answered
            .effects
            .iter()
            .filter(|effect| choice(effect) == of)
            .collect_vec()
    });
    let (known, others): (Vec<_>, Vec<_>) = choices.partition(|own| own.iter().any(|effect| is_known(effect)));
    let first = &answered.effects.first()?.metric;
    let of_first = |own: &Vec<&Effect>| own.iter().any(|effect| effect.metric == *first && is_known(effect));
    let has_none = !known.is_empty() && !known.iter().any(of_first);
    let size = |own: &Vec<&Effect>| -own[0].ratio.value.ln().abs();
    let is_reason = |own: &Vec<&Effect>| {
        let mut of_first = own.iter().filter(|effect| effect.metric == *first);
        of_first.all(|effect| effect.verdict != Verdict::Regressed)
    };
    // If all differences speak against the recommendation, settings without a difference do not explain it.
    if !known.is_empty() && !known.iter().any(is_reason) {
        return None;
    }
    let known = known
        .into_iter()
        .filter(is_reason)
        .sorted_by(|a, b| size(a).total_cmp(&size(b)))
        .unique_by(|own| &own[0].setting)
        .take(MOST);
    let change = |effect: &&&Effect| {
        format!(
            "{} {}{}",
            name(&effect.metric),
            brief_change(effect.ratio.value),
            if effect.verdict == Verdict::Regressed {
                " (worse)"
            } else {
                ""
            }
        )
    };
    let changes = known.map(|own| {
        let known = own.iter().filter(|effect| is_known(effect)).enumerate();
        let shown = known.filter(|(at, effect)| !only_first || *at == 0 || effect.verdict == Verdict::Regressed);
        let sizes = sizes(answer, answered, own[0]);
        format!(
            "{}{sizes}: {}",
            choice(own[0]),
            shown.map(|(_, effect)| change(&effect)).join(", ")
        )
    });
    let settings_of = others.iter().map(|own| &own[0].setting).unique();
    let same = settings_of.filter_map(|setting| alike(answered, setting)).join(", ");
    let same = (!same.is_empty()).then(|| format!("no difference: {same}"));
    let text = changes.chain(same).take(settings).join("; ");
    let text = match has_none {
        true => format!("no setting is known to change {}; but {text}", name(first)),
        false => text,
    };
    (!text.is_empty()).then_some(text)
}

/// Names a setting in the list of those that make no difference. If no value of the setting makes a difference, its name is enough.
/// Otherwise it is named with the winner's value and the values that are alike in every figure: `seqs 32 instead of 64, 128`; `None` if
/// there are none.
fn alike(answered: &QuestionAnswer, setting: &str) -> Option<String> {
    let own = answered.effects.iter().filter(|effect| effect.setting == setting);
    let own = own.collect_vec();
    let choices = own.iter().map(|effect| &effect.other).unique();
    let choices = choices.map(|other| own.iter().filter(|effect| effect.other == *other).collect_vec());
    let (same, others): (Vec<_>, Vec<_>) =
        choices.partition(|figures| figures.iter().all(|effect| effect.verdict == Verdict::Same));
    if others.is_empty() {
        return Some(short_name(setting));
    }
    let mut same = same.into_iter().map(|figures| figures[0]);
    let first = choice(same.next()?);
    Some(
        [first]
            .into_iter()
            .chain(same.map(|effect| value(&effect.other)))
            .join(", "),
    )
}

/// The note ` (4 times the GPUs)`, if figures are those of one server and the two servers differ in their GPUs; else empty.
fn sizes(answer: &Answer, answered: &QuestionAnswer, effect: &Effect) -> String {
    let gpus = |id: &str| {
        answer
            .configs
            .iter()
            .find(|config| config.id == id)
            .map_or(0, |config| config.gpus)
    };
    let own = answered.winner.as_ref().map_or(0, |winner| gpus(&winner.config));
    match gpus(&effect.config) {
        other if answer.gpus.is_none() && own > 0 && other > 0 && own != other => match (own % other, other % own) {
            (0, _) => format!(" ({} times the GPUs)", own / other),
            (_, 0) => format!(" (1/{} of the GPUs)", other / own),
            _ => format!(" ({} instead of {other})", show_many(own.into(), "GPU")),
        },
        _ => String::new(),
    }
}

fn is_known(effect: &Effect) -> bool {
    matches!(effect.verdict, Verdict::Improved | Verdict::Regressed)
}

/// Describes an effect: `seqs 64 instead of 8: +137 % (+120 to +150 %), better`.
fn difference(effect: &Effect) -> String {
    let word = if effect.verdict == Verdict::Improved {
        "better"
    } else {
        "worse"
    };
    format!("{}: {}, {word}", choice(effect), change(effect.ratio))
}

/// The winner's value of a setting against the other: `seqs 64 instead of 8`.
pub fn choice(effect: &Effect) -> String {
    let name = short_name(&effect.setting);
    let own = match effect.own.as_deref() {
        Some(value) => say_setting(&name, value),
        None => format!("{name} unset"),
    };
    format!("{own} instead of {}", value(&effect.other))
}

fn value(of: &Option<String>) -> String {
    of.clone().unwrap_or_else(|| "unset".to_owned())
}
