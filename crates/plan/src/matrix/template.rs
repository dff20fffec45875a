//! A template for the text of a load's identity, with gaps for the parameters that vary. The template saves time, because most of the text
//! is the same in a million loads. Some plans have no template, such as those with combinations or with several datasets.

use super::identity::{LoadContent, SharedLoad, members};
use super::space::{Space, TableParam};
use crate::{Axis, BenchRunner, MIX, Params, Plan, Secrets};
use serde_json::Value;
use std::borrow::Cow;

/// The template for the content of every load of a plan.
#[derive(Debug, Clone)]
pub(super) struct LoadTemplate {
    /// The members of the JSON object of parameters, in the order of their names.
    pieces: Vec<Piece>,
    /// The content of a load without its parameters.
    frame: LoadContent,
}

#[derive(Debug, Clone)]
enum Piece {
    /// A parameter that is the same in all loads, as a member of a JSON object.
    Fixed(String),
    /// A parameter that varies.
    Varied {
        /// Its index among the parameters of the table.
        param: usize,
        /// Its name in JSON, with the colon: `"seed":`.
        key: String,
        /// True if its name announces a secret.
        is_secret: bool,
    },
}

impl LoadTemplate {
    /// Returns the template of a plan's loads, if they have one.
    pub fn of(plan: &Plan, space: &Space, shared: &SharedLoad, secrets: &Secrets) -> Option<LoadTemplate> {
        let is_plain = |param: &TableParam| match &param.axis {
            Axis::Fixed(_) => true,
            Axis::Values(_) => !shared.decides_dataset(&param.name),
            // If a parameter is derived from another derived one, its value depends on their order in the plan. Such a plan has no
            // template.
            Axis::Derived(derived) => space.derived(&derived.per).is_none() && !shared.decides_dataset(&param.name),
        };
        let names: Vec<String> = space
            .table_params
            .iter()
            .map(|param| secrets.redact(&param.name))
            .collect();
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|at| &names[*at]);
        let are_distinct = order.windows(2).all(|pair| names[pair[0]] != names[pair[1]]);
        let is_command = matches!(plan.bench.runner, BenchRunner::Command(_));
        let has_mix = space.param(MIX).is_some();
        if is_command
            || has_mix
            || !space.combos.is_empty()
            || !are_distinct
            || !space.table_params.iter().all(is_plain)
        {
            return None;
        }
        let fixed = |param: &TableParam| match &param.axis {
            Axis::Fixed(value) => Some((param.name.clone(), value.clone())),
            _ => None,
        };
        let all_fixed: Params = space.table_params.iter().filter_map(fixed).collect();
        let piece = |at: usize| match &space.table_params[at] {
            TableParam {
                name,
                axis: Axis::Fixed(value),
                ..
            } => Piece::Fixed(member(name, value.clone(), secrets)),
            TableParam { name, .. } => Piece::Varied {
                param: at,
                key: format!("{}:", Value::from(names[at].as_str())),
                is_secret: secrets.announces(name),
            },
        };
        Some(LoadTemplate {
            pieces: order.into_iter().map(piece).collect(),
            frame: shared.frame(&all_fixed, None, secrets),
        })
    }

    /// Returns the content of the load at an index.
    pub fn content(&self, space: &Space, index: usize, secrets: &Secrets) -> LoadContent {
        let texts = self.pieces.iter().map(|piece| match piece {
            Piece::Fixed(text) => Cow::Borrowed(text.as_str()),
            Piece::Varied { param, key, is_secret } => {
                let name = &space.table_params[*param].name;
                match space.value(index, name).as_deref() {
                    Some(Value::Number(number)) if !is_secret => Cow::Owned(format!("{key}{number}")),
                    value => Cow::Owned(member(name, value.cloned().unwrap_or_default(), secrets)),
                }
            }
        });
        self.frame.with(texts)
    }
}

fn member(name: &str, value: Value, secrets: &Secrets) -> String {
    members(&Params::from_iter([(name.to_owned(), value)]), secrets)
}

#[cfg(test)]
mod tests {
    use crate::matrix::Matrix;
    use crate::{Format, World, parse};
    use std::path::Path;

    /// Returns true if a plan with this `[bench]` has a template. Also checks the ids that the template gives.
    fn has_template(bench: &str) -> bool {
        let serve = "[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [1, 2]\n";
        let text = format!("version = 1\n{serve}[bench]\n{bench}");
        let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty());
        let plan = plan.unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        let matrix = Matrix::expand(&plan).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        for server in matrix.servers() {
            let whole: Vec<_> = matrix.points_of(&server).map(|point| point.id).collect();
            let ids: Vec<_> = matrix.point_ids_from(&server, 0).map(|(_, id)| id).collect();
            assert_eq!(ids, whole, "{text}");
        }
        matrix.template.is_some()
    }

    #[test]
    fn a_template_gives_the_ids_of_the_whole_parameters() {
        let with = [
            "[bench.params]\nmax_concurrency = [1, 2.5, 1e300]\nnum_prompts = { per = \"max_concurrency\", times = 10 }\nseed = 7\n",
            "[bench.params]\nmax-concurrency = [1, 2]\nb = \"q\\\"ü\"\na = [\"x\", \"y\", true, 3.0]\nlist = { value = [{ z = 1, y = [true, 2] }, \"ü\"] }\n",
            "[bench.params]\napi_key = \"sk-1234567890\"\nauth_token = 12345678\na = [\"of sk-1234567890\", \"b\"]\n",
            "[bench.params]\ndataset_path = \"a.json\"\nnum_prompts = [3, 4]\n",
            "[bench.params]\nnum_prompts = 3\n",
            "runner = \"phases\"\n[bench.params]\ndecode_batch = [1, 2]\n",
        ];
        let without = [
            "[bench.params]\ndataset_path = [\"a.json\", \"b.json\"]\nnum_prompts = 3\n",
            "command = \"prog --n {a}\"\n[bench.params]\na = [1, 2]\n",
            "[bench.params]\na = 1\n[[bench.combos]]\nb = 1\n[[bench.combos]]\nb = 2\n",
        ];
        assert!(with.iter().all(|bench| has_template(bench)));
        assert!(without.iter().all(|bench| !has_template(bench)));
    }
}
