//! Reads the source of a run's prompts from its parameters: one dataset, or several as the classes of a mixed load. A class is a table with
//! a name, a share, and parameters of its prompts that replace those of the load.

use crate::bench::params::Table;
use crate::dataset::{self, Class, Dataset, KINDS, MOST_CLASSES, Mix, PromptParams, TurnParams};
use crate::load::Backend;
use crate::params::{FromParam, Param, ParamReader, Takes, json_of};
use crate::plan::{Params, nearest, show, spelling};
use crate::stats::is_class_name;
use itertools::Itertools;
use serde_json::Value;
use std::sync::Arc;

crate::params! {
    /// The classes of a mixed load.
    pub struct MixParams {
        /// Classes of requests in one load: a list of objects with name, share and parameters of their prompts.
        given: Option<ClassTables> = param("mix").otherwise("all requests alike"),
    }
}

/// The tables of the classes.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassTables(Vec<Params>);

impl FromParam for ClassTables {
    const TAKES: Takes = Takes::Json;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        serde_json::from_value(json_of(value))
            .map(ClassTables)
            .map_err(|_| param.wrong(value, "a list of objects, each with a name and a share"))
    }
}

/// Parameters that a class may have besides those of its dataset.
const OF_CLASS: [&str; 6] = [
    DATASET,
    PATH,
    "input_len",
    "output_len",
    "disable_shuffle",
    "no_oversample",
];
const DATASET: &str = "dataset_name";
const PATH: &str = "dataset_path";
const NAME: &str = "name";
const SHARE: &str = "share";

/// The names of all parameters that a class may have.
fn names_of_class() -> impl Iterator<Item = &'static str> {
    let of_datasets = dataset::groups().flat_map(|group| group.params).map(|param| param.name);
    OF_CLASS.into_iter().chain(of_datasets).unique()
}

/// Parameters of the whole load. A class inherits those that it does not set itself.
pub(super) struct WholeLoad<'a> {
    pub params: &'a Params,
    pub prompts: &'a PromptParams,
    pub turns: &'a TurnParams,
    pub backend: Backend,
    pub table: &'a Table,
}

impl WholeLoad<'_> {
    /// Returns the mix that is asked for, if there is one. Reports its problems.
    pub fn mix(&self, asked: &MixParams, reader: &mut ParamReader<'_>) -> Option<Arc<Mix>> {
        let ClassTables(tables) = asked.given.as_ref()?;
        if self.turns.is_wanted {
            reader.problem(
                "multi_turn sends conversations, but the classes of a mix send single requests; remove multi_turn or mix",
            );
        }
        if !self.backend.generates() {
            reader.problem("a mix needs a backend that generates text; set backend to openai or openai-chat");
        }
        if tables.is_empty() {
            reader.problem("mix has no class; add one, or remove it");
        }
        if tables.len() > MOST_CLASSES {
            reader.problem(format!(
                "mix has {} classes; leave at most {MOST_CLASSES}",
                tables.len()
            ));
        }
        self.prompts.check_number(false, reader);
        let weights: Vec<Option<f64>> = (1..).zip(tables).map(|(n, table)| weight(n, table, reader)).collect();
        let total_weight: f64 = weights.iter().flatten().sum();
        let names: Vec<Option<&str>> = tables.iter().map(|table| table.get(NAME)?.as_str()).collect();
        let classes = (1..).zip(tables).zip(&weights).map(|((n, table), weight)| {
            let name = name(n, table, &names[..n - 1], reader);
            let share = weight.map_or(1.0, |weight| weight / total_weight);
            let class = self.class(n, table, share, reader)?;
            let (name, weight) = name.zip(*weight)?;
            Some(Class { name, weight, ..class })
        });
        // All classes are read before the first faulty one ends the reading, so that all problems are reported.
        let classes: Vec<Option<Class>> = classes.collect();
        let classes = classes.into_iter().collect::<Option<Vec<Class>>>()?;
        (!classes.is_empty()).then(|| Arc::new(Mix { classes }))
    }

    /// Reads the dataset of the `n`-th class. The caller sets the name and the weight of the class.
    fn class(&self, n: usize, table: &Params, share: f64, reader: &mut ParamReader<'_>) -> Option<Class> {
        let own = self.own_params(n, table, reader)?;
        let mut merged = self.inherited(&own);
        merged.extend(own.clone());
        if let Some(given) = self.prompts.given.filter(|given| *given > 0) {
            let part = (given as f64 * share).ceil() as u64;
            merged.insert("num_prompts".to_owned(), part.into());
        }
        let mut class_reader = self.table.reader(&merged);
        let prompts = PromptParams::read(&mut class_reader);
        let turns = TurnParams::read(&mut class_reader);
        let dataset = dataset_of(&prompts, &turns, self.backend, &mut class_reader);
        if dataset.traits().is_timed {
            class_reader.wrong(
                DATASET,
                "one without times of its own; choose another, or send the trace alone",
            );
        }
        let class = Class {
            name: String::new(),
            weight: 0.0,
            dataset,
            prompts,
        };
        match class_reader.finish(class) {
            Ok(class) => Some(class),
            Err(problems) => {
                for problem in problems {
                    let about = problem.split(' ').next().unwrap_or_default();
                    // A problem with an inherited value is reported once for all classes.
                    match spelling::find(self.params, about).is_some() && !own.contains_key(about) {
                        true => reader.problem(problem),
                        false => reader.problem(format!("class {n} of mix: {problem}")),
                    }
                }
                None
            }
        }
    }

    /// Returns the parameters that the table of a class sets, by their names.
    fn own_params(&self, n: usize, table: &Params, reader: &mut ParamReader<'_>) -> Option<Params> {
        let mut own = Params::new();
        let mut is_sound = true;
        let mut refuse = |problem: String| {
            is_sound = false;
            reader.problem(format!("class {n} of mix {problem}"));
        };
        for (key, value) in table.iter().filter(|(key, _)| *key != NAME && *key != SHARE) {
            let known = self.table.find(key).map(|param| param.name);
            match known.filter(|known| names_of_class().any(|name| name == *known)) {
                Some(_) if value.is_null() => {}
                Some(name) => {
                    if own.insert(name.to_owned(), value.clone()).is_some() {
                        refuse(format!("has {name} twice, in two spellings; keep one"));
                    }
                }
                None if known.is_some() => refuse(format!(
                    "cannot have {key}, which is about the load as a whole; move it to the other parameters"
                )),
                None => {
                    let near = nearest(&key.replace('-', "_"), names_of_class().chain([NAME, SHARE]));
                    let remedy = match near.as_slice() {
                        [] => "remove it; a class takes dataset_name and the parameters of its dataset".to_owned(),
                        near => format!("did you mean \"{}\"?", near.join("\" or \"")),
                    };
                    refuse(format!("has no parameter {key}; {remedy}"));
                }
            }
        }
        is_sound.then_some(own)
    }

    /// Returns the parameters of the load that a class inherits. `own` are the parameters that the class sets itself.
    fn inherited(&self, own: &Params) -> Params {
        let known = self
            .params
            .iter()
            .filter_map(|(key, value)| Some((self.table.find(key)?, value)));
        let inherited = known.filter(|(param, _)| {
            // A general length of the class replaces a specific one of the load, and a dataset of the class replaces the load's file.
            let is_replaced = param.general.is_some_and(|general| own.contains_key(general))
                || (param.name == PATH && own.contains_key(DATASET));
            names_of_class().any(|name| name == param.name) && !is_replaced
        });
        inherited
            .map(|(param, value)| (param.name.to_owned(), value.clone()))
            .collect()
    }
}

/// Returns the weight of the `n`-th class, or reports the problem with it.
fn weight(n: usize, table: &Params, reader: &mut ParamReader<'_>) -> Option<f64> {
    let Some(value) = table.get(SHARE) else {
        reader.problem(format!(
            "class {n} of mix has no share; add its weight among all, such as share = 70"
        ));
        return None;
    };
    let weight = value.as_f64().filter(|weight| *weight > 0.0 && *weight <= 1e9);
    if weight.is_none() {
        let shown = show(value);
        reader.problem(format!(
            "class {n} of mix: share is {shown}; it must be a number above 0 and at most 1e9, its weight among all"
        ));
    }
    weight
}

/// Returns the name of the `n`-th class, which must differ from the `earlier` ones, or reports the problem with it.
fn name(n: usize, table: &Params, earlier: &[Option<&str>], reader: &mut ParamReader<'_>) -> Option<String> {
    let Some(value) = table.get(NAME) else {
        reader.problem(format!(
            "class {n} of mix has no name; add one, such as name = \"chat\""
        ));
        return None;
    };
    let name = value.as_str().filter(|name| is_class_name(name));
    let Some(name) = name else {
        reader.problem(format!(
            "class {n} of mix: name is {value}; it must start with a letter, contain only letters, digits, _ and -, and must not be \
             serve, bench or a percentile such as p99"
        ));
        return None;
    };
    if let Some(first) = earlier.iter().position(|earlier| *earlier == Some(name)) {
        let first = first + 1;
        reader.problem(format!(
            "class {n} of mix: name {name} is that of class {first} too; rename one"
        ));
        return None;
    }
    Some(name.to_owned())
}

/// Returns the dataset that the parameters name. Reports its problems.
pub(super) fn dataset_of(
    prompts: &PromptParams,
    turns: &TurnParams,
    backend: Backend,
    reader: &mut ParamReader<'_>,
) -> Arc<dyn Dataset> {
    if prompts.kind().is_none() {
        refuse_dataset(&prompts.dataset_name, reader);
    }
    prompts.dataset(turns, backend, reader)
}

fn refuse_dataset(name: &str, reader: &mut ParamReader<'_>) {
    let known = || KINDS.iter().map(|kind| kind.name);
    let remedy = match nearest(name, known()).first() {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "others need a command such as \"vllm bench serve\"".to_owned(),
    };
    let names: Vec<&str> = known().collect();
    reader.wrong(DATASET, &format!("one of {}; {remedy}", names.join(", ")));
}

#[cfg(test)]
mod tests {
    use crate::bench::native::settings::NativeSettings;
    use serde_json::{Value, json};

    fn read(params: Value) -> Result<NativeSettings, Vec<String>> {
        NativeSettings::read(params.as_object().expect("an object"))
    }

    fn lengths(params: Value) -> Vec<Vec<(u64, u64)>> {
        let mix = read(params).expect("sound").mix.expect("a mix");
        let sampling = crate::dataset::Sampling {
            num_prompts: 1,
            seed: 0,
            shuffle: true,
            oversample: true,
        };
        let classes = mix.classes.iter();
        classes
            .map(|class| class.dataset.lengths(&sampling, 1000).expect("known"))
            .collect()
    }

    #[test]
    fn a_class_has_the_parameters_of_the_load_but_for_its_own() {
        let mixed = |load: Value| {
            let mut load = load;
            load["mix"] = json!([
                {"name": "chat", "share": 7},
                {"name": "docs", "share": 3, "random-input-len": 900},
                {"name": "code", "share": 1, "output_len": 5},
            ]);
            lengths(load)
        };
        let load = json!({"random_input_len": 100, "random_output_len": 20});
        assert_eq!(mixed(load), [[(100, 20)], [(900, 20)], [(100, 5)]]);
        assert_eq!(mixed(json!({"input_len": 7})), [[(7, 128)], [(900, 128)], [(7, 5)]]);
    }

    #[test]
    fn everything_wrong_with_a_mix_is_found_at_once() {
        let wrong = json!({
            "dataset_path": "rows.jsonl", "random-input-len": "long", "multi_turn": true,
            "mix": [
                {"name": "chat", "share": 0, "max_concurrency": 4},
                {"name": "p99", "random_inptu_len": 3},
                {"share": "much", "random_output_len": 0, "dataset_name": "custom"},
                {"name": "chat", "share": 2, "dataset_name": "timed_trace", "dataset_path": "x"},
                {"name": "last", "share": 2, "dataset_name": "random"},
            ],
        });
        let problems = read(wrong).expect_err("wrong").join("\n");
        insta::assert_snapshot!(problems);
        for (mix, says) in [
            (json!([]), "mix has no class; add one, or remove it"),
            (
                json!({"a": 1}),
                "mix is {\"a\":1}; it must be a list of objects, each with a name and a share",
            ),
            (
                json!("[{"),
                "mix is \"[{\"; it must be a list of objects, each with a name and a share",
            ),
        ] {
            assert_eq!(read(json!({"mix": mix})).expect_err("wrong"), [says]);
        }
    }
}
