//! Words that several sentences share.

use crate::report::words::show_number;
use vsweep_answer::answer::{Estimate, Target};

/// An interval behind its figure: ` (7,700 to 8,130)`; nothing of one without extent.
pub fn estimate(estimate: &Estimate) -> String {
    match estimate.high > estimate.low {
        true => format!(" ({} to {})", show_number(estimate.low), show_number(estimate.high)),
        false => String::new(),
    }
}

/// A probability or a share: `97 %`, `over 99 %`, `under 1 %`.
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        percent if percent > 99.0 => "over 99 %".to_owned(),
        percent if percent > 0.0 && percent < 1.0 => "under 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// ` at concurrency 8`; nothing without a load.
pub fn at_load(load: &str) -> String {
    match load {
        "" => String::new(),
        load => format!(" at {load}"),
    }
}

/// `p99_ttft_ms<=500`.
pub fn target(target: &Target) -> String {
    format!("{}{}{}", target.metric, target.bound, target.limit)
}
