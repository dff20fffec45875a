//! The figures of each class of a mixed load: those of its requests alone, with its name in front, as in `chat.p99_ttft_ms`. Rates are over
//! the whole run, so those of all classes add up.

use super::{extra_keys, flow, more_errors, rates, write_metrics};
use crate::bench::native::settings::NativeSettings;
use crate::metrics::confidence::{self, Errors, SHARE};
use crate::metrics::{Histogram, Nanos, Samples, Summary, seconds};
use crate::plan::Params;
use crate::stats::figure_of;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The names of the classes in their order.
fn names(settings: &NativeSettings) -> impl Iterator<Item = &str> {
    let classes = settings.mix.iter().flat_map(|mix| &mix.classes);
    classes.map(|class| class.name.as_str())
}

/// Calls `make` with the index and the requests of each class. Returns everything that it made, with the class in front of each name.
fn of_each<V, I: IntoIterator<Item = (String, V)>>(
    settings: &NativeSettings,
    samples: &Samples,
    make: impl Fn(u8, &Samples) -> I,
) -> impl Iterator<Item = (String, V)> {
    (0..).zip(names(settings)).flat_map(move |(index, class)| {
        let made = make(index, &samples.of_class(index)).into_iter();
        made.map(move |(name, value)| (figure_of(Some(class), &name), value))
    })
}

/// The figures of all classes.
pub(super) fn figures(settings: &NativeSettings, samples: &Samples, duration: Nanos) -> Params {
    let goodput = settings.figures.goodput();
    let make = |_, own: &Samples| {
        let summary = Summary::of(own, seconds(duration), goodput.as_ref());
        let mut figures = rates(&summary);
        // The duration is that of the whole run, and is not repeated for each class.
        figures.shift_remove("duration");
        figures.insert(SHARE.to_owned(), json!(own.len() as f64 / samples.len() as f64));
        write_metrics(settings, own, &mut figures);
        extra_keys::latencies(settings, own, &mut figures);
        figures
    };
    of_each(settings, samples, make).collect()
}

/// The sampling errors of the figures of all classes.
pub(super) fn errors(settings: &NativeSettings, samples: &Samples, duration: Nanos) -> Errors {
    let (goodput, flow) = (settings.figures.goodput(), flow(settings, samples));
    let (metrics, percents) = (settings.metrics(), settings.percentiles());
    let make = |index, own: &Samples| {
        let class = (index, own);
        let mut errors = confidence::of_class(samples, class, flow, duration, metrics, percents, goodput.as_ref());
        more_errors(settings, own, 1, &mut errors);
        errors
    };
    of_each(settings, samples, make).collect()
}

/// The distributions of all classes.
pub(super) fn histograms(settings: &NativeSettings, samples: &Samples) -> BTreeMap<String, Histogram> {
    of_each(settings, samples, |_, own| super::histograms(settings, own)).collect()
}

/// The class of each request, if the load has classes.
pub(super) fn column(settings: &NativeSettings, samples: &Samples) -> Option<(String, Value)> {
    let names: Vec<&str> = names(settings).collect();
    let name = |class: u8| names.get(usize::from(class)).copied();
    let column = || {
        samples
            .in_order()
            .map(|sample| Value::from(name(sample.class)))
            .collect()
    };
    (!names.is_empty()).then(|| ("classes".to_owned(), column()))
}
