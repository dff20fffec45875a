//! Words that several sentences share.

use crate::report::words::show_number;
use std::collections::BTreeMap;
use vsweep_answer::answer::{Answer, Bound, Config, Estimate, Target};

/// The configs of a document by their ids.
pub struct Names<'a>(BTreeMap<&'a str, &'a Config>);

impl<'a> Names<'a> {
    /// Those of a document.
    pub fn of(answer: &'a Answer) -> Names<'a> {
        Names(answer.configs.iter().map(|config| (&*config.id, config)).collect())
    }

    /// The name of a config; its id without one.
    pub fn config<'n>(&self, id: &'n str) -> &'n str
    where
        'a: 'n,
    {
        match self.0.get(id) {
            Some(config) if !config.name.is_empty() => &config.name,
            _ => id,
        }
    }

    /// True if a config leaves every setting that varies at the default of its program.
    pub fn is_default(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|config| config.changes == 0)
    }
}

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
    let sign = match target.bound {
        Bound::AtMost => "<=",
        Bound::Below => "<",
        Bound::AtLeast => ">=",
        Bound::Above => ">",
    };
    format!("{}{sign}{}", target.metric, target.limit)
}
