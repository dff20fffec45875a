//! Draws prompts from the files of a plan's datasets before the first server starts, because a row that cannot be used would fail every
//! run.

use super::loads;
use super::loads::problem;
use crate::bench::native::settings::NativeSettings;
use crate::dataset::{Draw, MOST_PROMPTS, Material, Vocabulary};
use crate::matrix::Matrix;
use crate::plan::{Diagnostics, Params, Plan, spelling};
use std::collections::BTreeMap;
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
    for (path, load) in loads_by_file(matrix) {
        if !Path::new(&path).exists() {
            if must_be_here {
                let message = format!("there is no dataset file {path}");
                found.object(place, message, "correct the path; it starts where vsweep is run");
            }
        } else if let Err(why) = draw(&load) {
            found.add(problem(place, &why));
        }
    }
}

/// Returns the load with the most prompts for each local dataset file, by the path of the file.
fn loads_by_file(matrix: &Matrix) -> BTreeMap<String, Params> {
    let path = |load: &Params| {
        let text = |name: &str| spelling::find(load, name).and_then(|value| value.as_str().map(str::to_owned));
        // With `hf`, the path is a name on the Hub.
        text("dataset_path").filter(|_| text("dataset_name").is_some_and(|name| name != "hf"))
    };
    let prompts = |load: &Params| spelling::find(load, "num_prompts").and_then(serde_json::Value::as_u64);
    let mut found: BTreeMap<String, Params> = BTreeMap::new();
    for load in loads(matrix) {
        let Some(path) = path(&load) else { continue };
        if found.get(&path).is_none_or(|most| prompts(most) < prompts(&load)) {
            found.insert(path, load);
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
