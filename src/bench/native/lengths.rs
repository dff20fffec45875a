//! Whether answers were as long as was asked for.

use super::settings::Settings;
use crate::load::Load;
use crate::metrics::Samples;
use crate::validity::{Code, Doubt};

/// Body keys that overrule the length a dataset asks for.
const LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// So much shorter than asked for, all answers together are another load.
const SHORTER: f64 = 0.99;

/// What to object to if the server counted more output tokens than were asked for, which makes its counts doubtful, or fewer although
/// answers were to go on after the end of sequence.
pub(super) fn doubt(settings: &Settings, load: &Load, samples: &Samples) -> Option<Doubt> {
    if !settings.api.backend().generates() || LIMITS.iter().any(|key| settings.api.extra_body.contains_key(*key)) {
        return None;
    }
    let asked: Vec<u64> = match &load.turns {
        Some(turns) => turns.each.iter().map(|turn| turn.output_len).collect(),
        None => load.requests.output_lens().collect(),
    };
    let answers = samples.in_order().zip(asked).filter(|(sample, _)| sample.is_ok());
    let counted = answers.filter_map(|(sample, asked)| Some((sample.output_tokens?, asked)));
    let counted: Vec<(u64, u64)> = counted.filter(|(_, asked)| *asked > 0).collect();
    let doubt = |detail| Some(Doubt::new(Code::OutputLengthsDiffer, detail));
    let exceeding = || counted.iter().filter(|(counted, asked)| counted > asked);
    if let Some((tokens, asked)) = exceeding().max_by_key(|(counted, asked)| counted - asked) {
        return doubt(format!(
            "the server counted more output tokens than were asked for in {} of {} requests ({tokens} instead of {asked} in one)",
            exceeding().count(),
            samples.len()
        ));
    }
    let (told, asked) = counted
        .iter()
        .fold((0, 0), |sum, (counted, asked)| (sum.0 + counted, sum.1 + asked));
    let is_shorter = settings.ignores_eos() && (told as f64) < SHORTER * asked as f64;
    match is_shorter {
        true => doubt(format!("{told} output tokens came of {asked} that were asked for")),
        false => None,
    }
}
