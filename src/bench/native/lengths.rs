//! Whether answers were as long as was asked for.

use super::settings::NativeSettings;
use crate::bench::judge;
use crate::load::Load;
use crate::metrics::Samples;
use crate::validity::Doubt;

/// Body keys that overrule the length a dataset asks for.
const LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// What is to be said against the lengths of the answers; nothing where they were not to have any.
pub(super) fn doubt(settings: &NativeSettings, load: &Load, samples: &Samples) -> Option<Doubt> {
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
    judge::lengths(&counted, settings.ignores_eos())
}
