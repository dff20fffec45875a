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
    let mut found: BTreeMap<String, (Sum, Sum)> = BTreeMap::new();
    for noise in answers.flat_map(|answer| answer.noise) {
        let (run, start) = found.entry(noise.metric).or_default();
        run.add(noise.run);
        start.add(noise.start);
    }
    let known = found
        .into_iter()
        .filter(|(_, (run, start))| run.repeats + start.repeats > 0);
    known
        .map(|(metric, (run, start))| MetricNoise {
            metric,
            run: run.mean(),
            start: start.mean(),
            node: None,
        })
        .collect()
}

/// Sum of measured variances of one kind, each times its repeats.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    squares: f64,
    repeats: usize,
}

impl Sum {
    fn add(&mut self, noise: NoiseEstimate) {
        if noise.basis == Basis::Measured && noise.deviation.is_finite() {
            self.squares += noise.deviation.powi(2) * noise.repeats as f64;
            self.repeats += noise.repeats;
        }
    }

    fn mean(self) -> NoiseEstimate {
        let repeats = self.repeats.max(1) as f64;
        NoiseEstimate::by((self.squares / repeats).sqrt(), self.repeats)
    }
}
