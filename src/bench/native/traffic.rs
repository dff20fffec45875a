//! Describes the load of a native benchmark before it is sent, in the words of `vllm bench serve`.

use super::settings::NativeSettings;
use crate::bench::params::time_span::TimeSpan;
use crate::load::arrival::Ramp;
use crate::units::show_duration;

/// The sentences about the load to come.
pub(super) fn traffic(settings: &NativeSettings) -> Vec<String> {
    if settings.is_self_timed() {
        return vec!["Self timing is set, using the timestamps from the trace file.".to_owned()];
    }
    let arrivals = settings.arrival.arrivals();
    let shape = if arrivals.burstiness == 1.0 {
        "Poisson process"
    } else {
        "Gamma distribution"
    };
    let mut sentences = match arrivals.ramp {
        Some(Ramp { shape, start, end }) => vec![
            format!("Traffic ramp-up strategy: {}.", shape.name()),
            format!("Will increase RPS from {start} to {end} RPS over the duration of the benchmark."),
        ],
        None => vec![format!("Traffic request rate: {:?}", arrivals.rate)],
    };
    sentences.push(format!("Burstiness factor: {:?} ({shape})", arrivals.burstiness));
    let limit = settings
        .concurrency()
        .map_or("None".to_owned(), |limit| limit.to_string());
    sentences.push(format!("Maximum request concurrency: {limit}"));
    if let Some(TimeSpan(duration)) = settings.arrival.duration {
        sentences.push(format!("Requests are sent for: {}", show_duration(duration)));
    }
    if let Some(rate) = settings.side.probe_rate() {
        sentences.push(format!("Probe request rate: {rate:?} req/s"));
    }
    sentences
}
