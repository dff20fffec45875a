//! The figures of each class of a mixed load: those of its requests alone, behind its name, as in `chat.p99_ttft_ms`. Rates are over the
//! whole run, so those of all classes add up.

use super::{extra_keys, flow, more_errors, rates, write_metrics};
use crate::bench::native::settings::NativeSettings;
use crate::metrics::confidence::{self, Errors, SHARE};
use crate::metrics::{Nanos, Samples, Summary, seconds};
use crate::plan::Params;
use crate::stats::figure_of;
use serde_json::{Value, json};

/// The classes with their places.
fn classes(settings: &NativeSettings) -> impl Iterator<Item = (u8, &str)> {
    let classes = settings.mix.iter().flat_map(|mix| &mix.classes);
    (0..).zip(classes.map(|class| class.name.as_str()))
}

/// The figures of all classes.
pub(super) fn figures(settings: &NativeSettings, samples: &Samples, duration: Nanos) -> Params {
    let goodput = settings.figures.goodput();
    let of_class = |(place, name)| {
        let own = samples.of_class(place);
        let summary = Summary::of(&own, seconds(duration), goodput.as_ref());
        let mut figures = rates(&summary);
        // It is that of the run.
        figures.shift_remove("duration");
        figures.insert(SHARE.to_owned(), json!(own.len() as f64 / samples.len() as f64));
        write_metrics(settings, &own, &mut figures);
        extra_keys::latencies(settings, &own, &mut figures);
        let named = move |(figure, value): (String, Value)| (figure_of(Some(name), &figure), value);
        figures.into_iter().map(named)
    };
    classes(settings).flat_map(of_class).collect()
}

/// The sampling errors of these figures.
pub(super) fn errors(settings: &NativeSettings, samples: &Samples, duration: Nanos) -> Errors {
    let (goodput, flow) = (settings.figures.goodput(), flow(settings, samples));
    let (metrics, percents) = (settings.metrics(), settings.percentiles());
    let of_class = |(place, name)| {
        let own = samples.of_class(place);
        let class = (place, &own);
        let mut errors = confidence::of_class(samples, class, flow, duration, metrics, percents, goodput.as_ref());
        more_errors(settings, &own, 1, &mut errors);
        let named = move |(figure, error): (String, f64)| (figure_of(Some(name), &figure), error);
        errors.into_iter().map(named)
    };
    classes(settings).flat_map(of_class).collect()
}

/// The class of each request, if the load has classes.
pub(super) fn column(settings: &NativeSettings, samples: &Samples) -> Option<(String, Value)> {
    let names: Vec<&str> = classes(settings).map(|(_, name)| name).collect();
    let name = |class: u8| names.get(usize::from(class)).copied();
    let column = || {
        samples
            .in_order()
            .map(|sample| Value::from(name(sample.class)))
            .collect()
    };
    (!names.is_empty()).then(|| ("classes".to_owned(), column()))
}
