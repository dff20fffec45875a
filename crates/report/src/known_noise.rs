//! The noise that experiments in one folder measured on a machine, as their `answer.json` files have it. A new experiment there assumes it
//! until it has repeats of its own.

use super::history::{MOST, experiments};
use std::collections::BTreeMap;
use std::path::Path;
use vsweep_answer::{Answer, Basis, MetricNoise, NoiseEstimate};
use vsweep_base::files;
use vsweep_record::journal::Directory;

/// The noise of each metric that experiments in a folder measured on this host, either by the simulator or on real servers. Unreadable
/// answers are left out.
pub fn known_noise(folder: &Path, host: &str, is_simulated: bool) -> Vec<MetricNoise> {
    let answers = experiments(folder, host)
        .take(MOST)
        .filter_map(|directory| read(&directory));
    pooled(answers.filter(|answer| answer.configs.iter().any(|config| config.facts.simulated) == is_simulated))
}

fn read(directory: &Directory) -> Option<Answer> {
    let text = files::read(&directory.answer_json(), files::MOST_TEXT).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Averages the measured variances, weighted by their repeats. A kind of noise with too few repeats stays assumed.
fn pooled(answers: impl Iterator<Item = Answer>) -> Vec<MetricNoise> {
    let mut found: BTreeMap<String, [Vec<NoiseEstimate>; 2]> = BTreeMap::new();
    for noise in answers.flat_map(|answer| answer.noise) {
        let [runs, starts] = found.entry(noise.metric).or_default();
        runs.push(noise.run);
        starts.push(noise.start);
    }
    let pooled = found.into_iter().map(|(metric, noise)| {
        let [run, start] = noise.map(mean);
        let node = None;
        MetricNoise {
            metric,
            run,
            start,
            node,
        }
    });
    pooled
        .filter(|noise| noise.run.repeats + noise.start.repeats > 0)
        .collect()
}

fn mean(mut noise: Vec<NoiseEstimate>) -> NoiseEstimate {
    noise.retain(|noise| noise.basis == Basis::Measured && noise.deviation.is_finite());
    let repeats = noise.iter().map(|noise| noise.repeats).sum::<usize>();
    let squares = noise.iter().map(|noise| noise.deviation.powi(2) * noise.repeats as f64);
    let squares = squares.fold(0.0, |sum, square| sum + square);
    NoiseEstimate::by((squares / repeats.max(1) as f64).sqrt(), repeats)
}
