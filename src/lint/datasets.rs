//! Looks at the files of a plan's datasets before the first server starts, because a row that cannot be used, or a trace that takes too
//! long, would fail every run.

use super::loads;
use super::loads::problem;
use crate::bench::judge::fills;
use crate::bench::native::settings::NativeSettings;
use crate::dataset::{Dataset, Draw, MOST_PROMPTS, Material, Sampling, Vocabulary};
use crate::matrix::Matrix;
use crate::plan::{Diagnostics, MIX, Plan, Span};
use crate::units::show_many;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Reports dataset files that cannot be used, at their place in the plan. Missing files are reported only if they `must_be_here`.
pub(super) fn check(plan: &Plan, matrix: &Matrix, must_be_here: bool, found: &mut Diagnostics) {
    for (path, sources) in sources_by_file(matrix) {
        if !Path::new(&path).exists() {
            // A data set of the Hub is downloaded later.
            let mut missing = sources
                .values()
                .filter(|source| source.dataset().0.to_download().is_none());
            if let Some(source) = missing.next().filter(|_| must_be_here) {
                let message = format!("there is no dataset file {path}");
                let remedy = "correct the path; it starts where vsweep is run";
                found.object(source.place(plan), message, remedy);
            }
            continue;
        }
        let unusable = sources
            .values()
            .filter_map(|source| Some((source, source.draw().err()?)));
        let late = sources
            .values()
            .filter_map(|source| Some((source, source.outlasts(plan)?)));
        let problems = unusable.chain(late).map(|(source, why)| (source.place(plan), why));
        for (place, why) in problems.collect::<BTreeSet<(Span, String)>>() {
            found.add(problem(place, &why));
        }
    }
}

/// A dataset that loads read from a file.
#[derive(Clone)]
struct Source {
    /// The load that draws the most prompts from it.
    settings: Arc<NativeSettings>,
    /// Its position in the mix, if the load has one.
    class: Option<usize>,
    /// Most prompts that a load draws from it.
    count: usize,
    /// Most requests that a load should keep in flight with each row once; 0 if rows are used again.
    slots: usize,
}

/// Returns the datasets that are read from each file, by their names and parameters and the duration of sending.
fn sources_by_file(matrix: &Matrix) -> BTreeMap<String, BTreeMap<String, Source>> {
    let mut found: BTreeMap<String, BTreeMap<String, Source>> = BTreeMap::new();
    // Problems of parameters are reported elsewhere.
    for settings in loads(matrix).filter_map(|load| NativeSettings::read(&load).ok()) {
        let settings = Arc::new(settings);
        // A number of 0 means every row.
        let all = settings.count().filter(|count| *count > 0).unwrap_or(MOST_PROMPTS);
        let is_once = settings.prompts.no_oversample && !settings.is_open_loop();
        let slots = settings.concurrency().filter(|_| is_once).unwrap_or(0);
        let classes = settings.mix.iter().flat_map(|mix| &mix.classes);
        let weight: f64 = classes.clone().map(|class| class.weight).sum();
        let classes = classes.enumerate().map(|(place, class)| {
            let count = (all as f64 * class.weight / weight) as usize;
            (Some(place), &class.prompts, &class.dataset, count.max(1), 0)
        });
        let whole = (None, &settings.prompts, &settings.dataset, all, slots);
        let whole = settings.mix.is_none().then_some(whole);
        for (class, prompts, dataset, count, slots) in classes.chain(whole) {
            let Some(path) = prompts.dataset_path.clone() else {
                continue;
            };
            let of_file = found.entry(path).or_default();
            let key = format!("{} {dataset:?} {:?}", prompts.dataset_name, settings.arrival.duration);
            let known = of_file.entry(key).or_insert_with(|| Source {
                settings: settings.clone(),
                class,
                count,
                slots,
            });
            if known.count < count {
                (known.settings, known.class, known.count) = (settings.clone(), class, count);
            }
            known.slots = known.slots.max(slots);
        }
    }
    found
}

impl Source {
    /// Place of the file's path in the plan.
    fn place(&self, plan: &Plan) -> Span {
        let names = ["dataset_path", "dataset-path"];
        let class = self.class.map(|class| class.to_string());
        let of_class = class
            .iter()
            .flat_map(|class| names.map(|name| vec!["bench", MIX, class.as_str(), name]));
        let mut places = of_class.chain(names.map(|name| vec!["bench", "params", name]));
        match places.find(|keys| plan.origin.has(keys)) {
            Some(keys) => plan.origin.value_span(&keys),
            None => plan.origin.key_span(&["bench"]),
        }
    }

    /// Returns the dataset, and the choice of its rows, each of them once.
    fn dataset(&self) -> (&dyn Dataset, Sampling) {
        let settings = &self.settings;
        let whole = settings.prompts.sampling(self.count, settings.prompts.seed.into());
        let (dataset, sampling) = match settings.mix.as_ref().zip(self.class) {
            Some((mix, place)) => {
                let class = &mix.classes[place];
                (&class.dataset, class.sampling(whole, place, self.count))
            }
            None => (&settings.dataset, whole),
        };
        let sampling = Sampling {
            oversample: false,
            ..sampling
        };
        (&**dataset, sampling)
    }

    /// Draws the prompts of a run if that needs no tokenizer. The error is the reason why they cannot be drawn, or are too few.
    fn draw(&self) -> Result<(), String> {
        let (dataset, sampling) = self.dataset();
        let traits = dataset.traits();
        if traits.depends_on_counts || traits.made_of != Material::Text {
            return Ok(());
        }
        let draw = Draw {
            backend: self.settings.api.backend(),
            ..Draw::of(sampling, &Vocabulary::Words)
        };
        let drawn = dataset.draw(&draw)?.iter().filter(|item| item.turn == 0).count();
        if drawn < self.count && !fills(drawn as f64, self.slots as f64) {
            return Err(format!(
                "{} of its file cannot keep {} in flight (max_concurrency); remove no_oversample, or lower max_concurrency",
                show_many(drawn as u64, "row"),
                self.slots
            ));
        }
        Ok(())
    }

    /// Returns the reason why a run by the times of the file takes longer than `bench.timeout`. A search may end its runs earlier.
    fn outlasts(&self, plan: &Plan) -> Option<String> {
        let is_searched = plan.sla.is_some() || plan.explore.is_some();
        let settings = Some(&self.settings).filter(|settings| settings.is_self_timed() && !is_searched)?;
        let sending = settings.arrival.sending().map(|sending| sending.lasts.as_secs_f64());
        let lasts = self.dataset().0.lasts_s(self.count)?;
        let (lasts, limit) = (lasts.min(sending.unwrap_or(lasts)), plan.bench.timeout.as_secs_f64());
        (lasts > limit).then(|| {
            format!(
                "the last request of the trace is due after {lasts:.0} s, and bench.timeout is {limit:.0} s; send fewer prompts, lower \
                 timed_trace_sec_multiplier, or raise bench.timeout"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Format, World, parse};

    fn sources(bench: &str) -> BTreeMap<String, BTreeMap<String, Source>> {
        let text = format!("[serve]\ncommand = \"vllm serve m\"\n{bench}");
        let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        sources_by_file(&Matrix::expand(&plan).expect("loads"))
    }

    #[test]
    fn each_dataset_of_a_file_is_drawn_once_with_the_most_rows() {
        let combo = |lines: &str| format!("[[bench.combos]]\ndataset_name = {lines}\n");
        let combos = [
            "\"custom\"\nnum_prompts = 0",
            "\"custom\"\nnum_prompts = 5000",
            "\"sharegpt\"",
            "\"sharegpt\"\nnum_prompts = 9",
            "\"timed_trace\"\nnum_prompts = 8",
            "\"timed_trace\"\nnum_prompts = 7\ntimed_trace_sec_multiplier = 2",
        ];
        let head = "[bench.params]\ndataset_path = \"rows.jsonl\"\n";
        let sources = sources(&format!("{head}{}", combos.map(combo).concat()));
        let counts = sources["rows.jsonl"]
            .values()
            .map(|source| (source.settings.prompts.dataset_name.as_str(), source.count));
        let expected = [
            ("custom", MOST_PROMPTS),
            ("sharegpt", 1000),
            ("timed_trace", 8),
            ("timed_trace", 7),
        ];
        assert_eq!(counts.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_classes_of_a_mix_have_their_own_files() {
        let class = |name: &str, share: u32, path: &str| {
            format!("[[bench.mix]]\nname = \"{name}\"\nshare = {share}\ndataset_path = \"{path}\"\n")
        };
        let head = "[bench.params]\ndataset_name = \"custom\"\nnum_prompts = 40\n";
        let sources = sources(&format!(
            "{head}{}{}",
            class("a", 1, "a.jsonl"),
            class("b", 3, "b.jsonl")
        ));
        let known = |path: &str| sources[path].values().next().expect("a dataset").clone();
        assert_eq!((known("a.jsonl").class, known("a.jsonl").count), (Some(0), 10));
        assert_eq!((known("b.jsonl").class, known("b.jsonl").count), (Some(1), 30));
    }
}
