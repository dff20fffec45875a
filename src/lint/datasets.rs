//! Draws prompts from the files of a plan's datasets before the first server starts, because a row that cannot be used would fail every
//! run.

use super::loads;
use super::loads::problem;
use crate::bench::native::settings::NativeSettings;
use crate::dataset::{Draw, MOST_PROMPTS, Material, Vocabulary};
use crate::matrix::Matrix;
use crate::plan::{Diagnostics, Params, Plan, spelling};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Reports dataset files that cannot be used, at their place in the plan. Missing files are reported only if they `must_be_here`.
pub(super) fn check(plan: &Plan, matrix: &Matrix, must_be_here: bool, found: &mut Diagnostics) {
    let mut keys = ["dataset_path", "dataset-path"]
        .map(|name| ["bench", "params", name])
        .into_iter();
    let place = match keys.find(|keys| plan.origin.has(keys)) {
        Some(keys) => plan.origin.value_span(&keys),
        None => plan.origin.key_span(&["bench"]),
    };
    for (path, loads) in loads_by_file(matrix) {
        if !Path::new(&path).exists() {
            if must_be_here {
                let message = format!("there is no dataset file {path}");
                found.object(place, message, "correct the path; it starts where vsweep is run");
            }
            continue;
        }
        let problems: BTreeSet<String> = loads.values().filter_map(|(_, load)| draw(load).err()).collect();
        for why in &problems {
            found.add(problem(place, why));
        }
    }
}

/// Returns the load with the most prompts, and their number, for each local dataset file and each name of a dataset that is read from it.
fn loads_by_file(matrix: &Matrix) -> BTreeMap<String, BTreeMap<String, (usize, Params)>> {
    let file = |load: &Params| {
        let text = |name: &str| spelling::find(load, name).and_then(|value| value.as_str().map(str::to_owned));
        // With `hf`, the path is a name on the Hub.
        let name = text("dataset_name").filter(|name| name != "hf")?;
        Some((text("dataset_path")?, name))
    };
    // A number of 0 means every row.
    let most = |settings: NativeSettings| settings.count().filter(|count| *count > 0).unwrap_or(MOST_PROMPTS);
    let mut found: BTreeMap<String, BTreeMap<String, (usize, Params)>> = BTreeMap::new();
    for load in loads(matrix) {
        let Some((path, name)) = file(&load) else { continue };
        let count = NativeSettings::read(&load).map_or(0, most);
        let of_file = found.entry(path).or_default();
        if of_file.get(&name).is_none_or(|(largest, _)| *largest < count) {
            of_file.insert(name, (count, load));
        }
    }
    found
}

/// Draws the prompts of a run if that needs no tokenizer. The error is the reason why they cannot be drawn.
fn draw(load: &Params) -> Result<(), String> {
    // Problems of parameters are reported elsewhere.
    let Ok(settings) = NativeSettings::read(load) else {
        return Ok(());
    };
    let traits = settings.dataset.traits();
    if traits.depends_on_counts || traits.made_of != Material::Text {
        return Ok(());
    }
    let count = settings.count().unwrap_or(MOST_PROMPTS);
    let draw = Draw {
        backend: settings.api.backend(),
        ..Draw::of(
            settings.prompts.sampling(count, settings.prompts.seed.into()),
            &Vocabulary::Words,
        )
    };
    settings.dataset.draw(&draw).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Format, World, parse};

    #[test]
    fn each_dataset_of_a_file_is_drawn_with_the_most_rows() {
        let combo = |lines: &str| format!("[[bench.combos]]\ndataset_name = {lines}\n");
        let combos = [
            "\"custom\"\nnum_prompts = 0",
            "\"custom\"\nnum_prompts = 5000",
            "\"sharegpt\"",
            "\"sharegpt\"\nnum_prompts = 9",
        ];
        let head = "[serve]\ncommand = \"vllm serve m\"\n[bench.params]\ndataset_path = \"rows.jsonl\"\n";
        let text = format!("{head}{}", combos.map(combo).concat());
        let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let matrix = Matrix::expand(&plan).expect("loads");
        let counts = loads_by_file(&matrix)["rows.jsonl"].clone();
        let counts = counts.into_iter().map(|(name, (count, _))| (name, count));
        let expected = [("custom", MOST_PROMPTS), ("sharegpt", 1000)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts.collect::<Vec<_>>(), expected);
    }
}
