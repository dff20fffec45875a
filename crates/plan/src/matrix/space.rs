//! All configurations of both sides, each computed from its index. The axes are in memory; their product never is.

use crate::{Axis, Combo, Derived, Link, ParamRef, Params, Plan, Side, commands::COMMAND, number, spelling};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// Maximum number of pairs of a plan. A larger plan is refused before anything is built.
pub const MOST_PAIRS: u128 = 10_000_000;

/// The configurations of both sides.
#[derive(Debug, Clone)]
pub(super) struct Sides {
    pub serve: Space,
    pub bench: Space,
}

impl Sides {
    /// Sides of a plan. A parameter that is on both sides is shown with its side.
    pub fn of_plan(plan: &Plan) -> Sides {
        let [mut serve, mut bench] = [Side::Serve, Side::Bench].map(|side| Space::of_plan(plan, side));
        serve.has_defaults = plan.optimize.is_some() && serve.adds_defaults();
        let (of_serve, of_bench) = (serve.names(), bench.names());
        let mut shown: [HashMap<String, String>; 2] = Default::default();
        for name in of_serve {
            if let Some(other) = of_bench.iter().find(|other| spelling::same(name, other)) {
                shown[0].insert(name.to_owned(), format!("serve.{name}"));
                shown[1].insert((*other).to_owned(), format!("bench.{other}"));
            }
        }
        [serve.shown_as, bench.shown_as] = shown;
        Sides { serve, bench }
    }

    pub fn of(&self, side: Side) -> &Space {
        match side {
            Side::Serve => &self.serve,
            Side::Bench => &self.bench,
        }
    }

    /// Returns the number of pairs, without building any; `None` if it does not fit 128 bits.
    pub fn pairs(&self) -> Option<u128> {
        let mut lengths = self.serve.lengths.iter().chain(&self.bench.lengths);
        lengths.try_fold(1u128, |count, length| count.checked_mul(*length as u128))
    }

    /// Returns true if the number of pairs is within the limit of a matrix.
    pub fn fit(&self) -> bool {
        self.pairs().is_some_and(|pairs| pairs <= MOST_PAIRS)
    }
}

/// The configurations of one side in row-major order: the combinations vary slowest, then the axes as written.
#[derive(Debug, Clone, Default)]
pub(super) struct Space {
    /// Parameters in the order of the plan.
    pub table_params: Vec<TableParam>,
    /// The combinations; if there are any, they are dimension 0.
    pub combos: Vec<Combo>,
    /// Length of each dimension.
    pub lengths: Vec<usize>,
    /// True if the default settings follow all other configurations. They have only those varied parameters for which [`default_of`] gives
    /// a value.
    pub has_defaults: bool,
    /// Index of a configuration of the axes that turned out to be the same server as the default settings, which then are no further one.
    pub same_as_defaults: Option<usize>,
    /// Parameters that the other side has too, with the names that are shown for them: `serve.seed`.
    shown_as: HashMap<String, String>,
}

/// A parameter of a side's table.
#[derive(Debug, Clone)]
pub(super) struct TableParam {
    pub name: String,
    /// Source of its value.
    pub axis: Axis,
    /// Index of the dimension along which it takes its values, if it has several.
    pub dimension: Option<usize>,
}

impl Space {
    /// Returns the space of one side. Zipped axes share a dimension.
    fn of_plan(plan: &Plan, side: Side) -> Space {
        let mut space = Space {
            combos: combos(plan, side),
            ..Space::default()
        };
        if !space.combos.is_empty() {
            space.lengths.push(space.combos.len());
        }
        let mut zipped: HashMap<usize, usize> = HashMap::new();
        for (name, axis) in plan.params(side) {
            let dimension = matches!(axis, Axis::Values(_)).then(|| {
                let group = zip_group(&plan.link, side, name);
                let shared = group.and_then(|group| zipped.get(&group).copied());
                let dimension = shared.unwrap_or_else(|| {
                    space.lengths.push(axis.values().len());
                    space.lengths.len() - 1
                });
                zipped.extend(group.map(|group| (group, dimension)));
                dimension
            });
            space.table_params.push(TableParam {
                name: name.clone(),
                axis: axis.clone(),
                dimension,
            });
        }
        space
    }

    /// A parameter of the table by any of its spellings.
    pub fn param(&self, name: &str) -> Option<&TableParam> {
        self.table_params.iter().find(|param| spelling::same(&param.name, name))
    }

    /// Returns the number of configurations. The space must not be too large: the product would overflow.
    pub fn len(&self) -> usize {
        self.product() + usize::from(self.has_defaults)
    }

    fn product(&self) -> usize {
        self.lengths.iter().product()
    }

    pub fn is_defaults(&self, index: usize) -> bool {
        self.has_defaults && index == self.product()
    }

    /// Returns true if the default settings are an additional configuration: the side has no combinations, some varied parameter can be
    /// left out, and no configuration of the axes leaves out all varied parameters by `null`.
    fn adds_defaults(&self) -> bool {
        let has_null = |param: &TableParam| param.axis.values().iter().any(Value::is_null);
        self.combos.is_empty() && self.left_out().next().is_some() && !self.varied().all(has_null)
    }

    fn varied(&self) -> impl Iterator<Item = &TableParam> {
        self.table_params.iter().filter(|param| param.dimension.is_some())
    }

    /// Returns the parameters that take their values along a dimension.
    pub fn along(&self, dimension: usize) -> impl Iterator<Item = &TableParam> {
        self.varied().filter(move |param| param.dimension == Some(dimension))
    }

    /// Returns the varied parameters that the default settings leave out.
    pub fn left_out(&self) -> impl Iterator<Item = &TableParam> {
        self.varied().filter(|param| default_of(param).is_none())
    }

    /// Returns the position of a configuration along a dimension; for the default settings, one past the last.
    pub fn position(&self, index: usize, dimension: usize) -> usize {
        if self.is_defaults(index) {
            return self.lengths[dimension];
        }
        let stride: usize = self.lengths[dimension + 1..].iter().product();
        index / stride % self.lengths[dimension]
    }

    /// The combination at an index.
    pub fn combo(&self, index: usize) -> Option<&Combo> {
        (!self.combos.is_empty()).then(|| &self.combos[self.position(index, 0)])
    }

    /// The name of the combination at an index, if the plan names one.
    pub fn combo_name(&self, index: usize) -> Option<String> {
        self.combo(index)?.name.clone()
    }

    /// Returns the value that a parameter's own axis has for a configuration; `None` for a derived parameter, and for a
    /// parameter that the default settings leave out.
    fn stated<'a>(&self, param: &'a TableParam, index: usize) -> Option<&'a Value> {
        if self.is_defaults(index) && param.dimension.is_some() {
            return default_of(param);
        }
        let position = param.dimension.map(|dimension| self.position(index, dimension));
        param.axis.values().get(position.unwrap_or(0))
    }

    /// Every parameter with its value.
    pub fn params(&self, index: usize) -> Params {
        self.params_with(index, &[])
    }

    /// Parameters of a configuration in which the given values replace the plan's. Derived parameters follow the given values.
    pub fn params_with(&self, index: usize, given: &[(&str, Value)]) -> Params {
        let is_given = |name: &str| given.iter().any(|(given, _)| spelling::same(given, name));
        let combo = self.combo(index);
        // A derived parameter is null until the value that it follows is known.
        let value = |param: &TableParam| self.stated(param, index).cloned().unwrap_or_default();
        let is_there =
            |param: &&TableParam| !self.is_defaults(index) || param.dimension.is_none() || default_of(param).is_some();
        let table_params = self.table_params.iter().filter(is_there);
        let mut params: Params = table_params.map(|param| (param.name.clone(), value(param))).collect();
        for (name, value) in combo.into_iter().flat_map(|combo| &combo.params) {
            let name = self.param(name).map_or(name, |param| &param.name);
            params.insert(name.clone(), value.clone());
        }
        for (name, value) in given {
            let known = params.keys().find(|known| spelling::same(known, name)).cloned();
            params.insert(known.unwrap_or_else(|| (*name).to_owned()), value.clone());
        }
        for TableParam { name, axis, .. } in &self.table_params {
            if let Axis::Derived(derived) = axis
                && !is_given(name)
                && combo.is_none_or(|combo| spelling::find(&combo.params, name).is_none())
            {
                let followed = spelling::find(&params, &derived.per).and_then(|value| derived.value(name, value));
                if followed.is_none() && self.is_defaults(index) {
                    params.remove(name);
                    continue;
                }
                params.insert(name.clone(), followed.unwrap_or(Value::Null));
            }
        }
        params
    }

    /// Returns the value of one parameter of a configuration, or `None` if the configuration lacks it.
    pub fn value<'a>(&'a self, index: usize, name: &str) -> Option<Cow<'a, Value>> {
        if let Some(value) = self.own_value(index, name) {
            return Some(Cow::Borrowed(value));
        }
        // A plan whose parameters follow each other is refused, and is still searched for other problems.
        let followed = self.own_value(index, &self.derived(name)?.per)?;
        self.derived(name)?.value(name, followed).map(Cow::Owned)
    }

    /// Like `value`, without derived values.
    fn own_value(&self, index: usize, name: &str) -> Option<&Value> {
        let of_combo = self.combo(index).and_then(|combo| spelling::find(&combo.params, name));
        of_combo.or_else(|| self.stated(self.param(name)?, index))
    }

    /// Returns how a parameter is derived from another one, if it is.
    pub fn derived(&self, name: &str) -> Option<&Derived> {
        match &self.param(name)?.axis {
            Axis::Derived(derived) => Some(derived),
            _ => None,
        }
    }

    /// The names of all parameters, those of combinations last.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.table_params.iter().map(|param| param.name.as_str()).collect();
        for name in self.combos.iter().flat_map(|combo| combo.params.keys()) {
            if !names.iter().any(|known| spelling::same(known, name)) {
                names.push(name);
            }
        }
        names
    }

    /// The index with a given position along one dimension and 0 along all others.
    pub fn index_at(&self, dimension: usize, position: usize) -> usize {
        position * self.lengths[dimension + 1..].iter().product::<usize>()
    }

    /// Short text of what distinguishes the configuration: the combination's name, then the axes.
    pub fn label(&self, index: usize) -> String {
        let combo = self
            .combo(index)
            .filter(|_| self.combos.len() > 1 || self.combos[0].name.is_some());
        let named = |(name, value): (&String, &Value)| (self.shown_as.get(name).unwrap_or(name).clone(), value.clone());
        let of_params = |combo: &Combo| super::settings_text(&combo.params.iter().map(named).collect());
        let combo = combo.map(|combo| combo.name.clone().unwrap_or_else(|| of_params(combo)));
        let varied = self.table_params.iter().filter(|param| param.axis.values().len() > 1);
        let varied = varied.filter_map(|param| Some(named((&param.name, self.stated(param, index)?))));
        let axes = super::settings_text(&varied.collect());
        match (combo, axes.is_empty()) {
            (Some(combo), true) => combo,
            (Some(combo), false) => format!("{combo} {axes}"),
            (None, false) => axes,
            (None, true) => String::from("default"),
        }
    }
}

/// Returns the value of a varied parameter in the default settings: the first command, or the smallest degree of parallelism if that is
/// above 1, because the model may not fit on fewer GPUs. Every other parameter is left out.
fn default_of(param: &TableParam) -> Option<&Value> {
    let values: Vec<Option<&Value>> = param.axis.values().iter().map(Some).collect();
    own_default(&param.name, &values).filter(|value| number(value).is_none_or(|degree| degree > 1.0))
}

/// Returns the first command, or the smallest degree of parallelism if no configuration leaves the degree out; `None` for other parameters.
pub(super) fn own_default<'v>(name: &str, values: &[Option<&'v Value>]) -> Option<&'v Value> {
    if name == COMMAND {
        return values.iter().flatten().next().copied();
    }
    let is_left_out = |value: &Option<&Value>| value.is_none_or(Value::is_null);
    if !spelling::is_degree(name) || values.iter().any(is_left_out) {
        return None;
    }
    let size = |value: &&Value| number(value).unwrap_or(f64::INFINITY);
    let degrees = values.iter().copied().flatten();
    degrees.min_by(|one, other| size(one).total_cmp(&size(other)))
}

/// Returns the combinations of one side. A parameter that is spelled in several ways gets its first spelling everywhere.
fn combos(plan: &Plan, side: Side) -> Vec<Combo> {
    let typed = plan.params(side).iter().map(|(name, _)| name);
    let mut spelled: HashMap<String, String> = typed.map(|name| (spelling::canonical(name), name.clone())).collect();
    let mut respell = |(name, value): (&String, &Value)| {
        let first = spelled.entry(spelling::canonical(name)).or_insert_with(|| name.clone());
        (first.clone(), value.clone())
    };
    let respelled = plan.combos(side).iter().map(|combo| Combo {
        name: combo.name.clone(),
        params: combo.params.iter().map(&mut respell).collect(),
    });
    respelled.collect()
}

/// Returns the index of the zip group of a parameter, if it has one.
pub(super) fn zip_group(link: &Link, side: Side, name: &str) -> Option<usize> {
    let member = |param: &ParamRef| param.side == side && param.name == name;
    link.zip.iter().position(|group| group.iter().any(member))
}
