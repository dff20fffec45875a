//! All configurations of one side, decoded by index: the axes are held, the product of them never is.

use crate::plan::{Combo, Derived, Params, spelling};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// What gives a parameter its value.
#[derive(Debug, Clone)]
pub(super) enum Slot {
    /// One value.
    Fixed(Value),
    /// The values of an axis, chosen by the position along a dimension.
    Axis { dimension: usize, values: Vec<Value> },
    /// Computed from another parameter.
    Derived(Derived),
}

/// The configurations of one side in row-major order: the combinations vary slowest, then the axes as written.
#[derive(Debug, Clone, Default)]
pub(super) struct Space {
    /// Parameters in the order of the plan.
    pub slots: Vec<(String, Slot)>,
    /// Named combinations; if there are any they are dimension 0.
    pub combos: Vec<Combo>,
    /// Length of each dimension.
    pub lengths: Vec<usize>,
    /// Names that the other side has too, as they are shown: `serve.seed`.
    pub shown_as: HashMap<String, String>,
}

impl Space {
    /// A parameter of the table by any of its spellings.
    pub fn slot(&self, name: &str) -> Option<&(String, Slot)> {
        self.slots.iter().find(|(slot, _)| spelling::same(slot, name))
    }

    /// Number of configurations, or `None` beyond what 128 bits count.
    pub fn count(&self) -> Option<u128> {
        self.lengths
            .iter()
            .try_fold(1u128, |count, length| count.checked_mul(*length as u128))
    }

    /// The same of a space that is not too large.
    pub fn len(&self) -> usize {
        self.lengths.iter().product()
    }

    /// The position along a dimension.
    pub fn position(&self, index: usize, dimension: usize) -> usize {
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

    /// Every parameter with its value.
    pub fn params(&self, index: usize) -> Params {
        self.params_with(index, &[])
    }

    /// The same with some parameters given from outside: they win, and what is derived from them follows them.
    pub fn params_with(&self, index: usize, given: &[(&str, Value)]) -> Params {
        let is_given = |name: &str| given.iter().any(|(given, _)| spelling::same(given, name));
        let combo = self.combo(index);
        let mut params = Params::new();
        for (name, slot) in &self.slots {
            match slot {
                Slot::Fixed(value) => params.insert(name.clone(), value.clone()),
                Slot::Axis { dimension, values } => {
                    params.insert(name.clone(), values[self.position(index, *dimension)].clone())
                }
                // Holds the place until what it follows is known.
                Slot::Derived(_) => params.insert(name.clone(), Value::Null),
            };
        }
        for (name, value) in combo.into_iter().flat_map(|combo| &combo.params) {
            let name = self.slot(name).map_or(name, |(slot, _)| slot);
            params.insert(name.clone(), value.clone());
        }
        for (name, value) in given {
            let known = params.keys().find(|known| spelling::same(known, name)).cloned();
            params.insert(known.unwrap_or_else(|| (*name).to_owned()), value.clone());
        }
        for (name, slot) in &self.slots {
            if let Slot::Derived(derived) = slot
                && !is_given(name)
                && combo.is_none_or(|combo| spelling::find(&combo.params, name).is_none())
            {
                let followed = spelling::find(&params, &derived.per).and_then(|value| derived.value(name, value));
                params.insert(name.clone(), followed.unwrap_or(Value::Null));
            }
        }
        params
    }

    /// One parameter at an index; `None` where the combination does not have it.
    pub fn value<'a>(&'a self, index: usize, name: &str) -> Option<Cow<'a, Value>> {
        if let Some(value) = self.combo(index).and_then(|combo| spelling::find(&combo.params, name)) {
            return Some(Cow::Borrowed(value));
        }
        let (name, slot) = self.slot(name)?;
        match slot {
            Slot::Fixed(value) => Some(Cow::Borrowed(value)),
            Slot::Axis { dimension, values } => Some(Cow::Borrowed(&values[self.position(index, *dimension)])),
            Slot::Derived(derived) => {
                let followed = self.value(index, &derived.per)?;
                derived.value(name, &followed).map(Cow::Owned)
            }
        }
    }

    /// How a parameter follows another, if it does.
    pub fn derived(&self, name: &str) -> Option<&Derived> {
        match &self.slot(name)?.1 {
            Slot::Derived(derived) => Some(derived),
            _ => None,
        }
    }

    /// The names of all parameters, those of combinations last.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.slots.iter().map(|(name, _)| name.as_str()).collect();
        for name in self.combos.iter().flat_map(|combo| combo.params.keys()) {
            if !names.iter().any(|known| spelling::same(known, name)) {
                names.push(name);
            }
        }
        names
    }

    /// The dimension of an axis, if the parameter is one.
    pub fn dimension(&self, name: &str) -> Option<usize> {
        match self.slot(name)?.1 {
            Slot::Axis { dimension, .. } => Some(dimension),
            _ => None,
        }
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
        let of_params = |combo: &Combo| super::text(&combo.params.iter().map(named).collect());
        let combo = combo.map(|combo| combo.name.clone().unwrap_or_else(|| of_params(combo)));
        let axes = self.slots.iter().filter_map(|(name, slot)| match slot {
            Slot::Axis { dimension, values } if values.len() > 1 => {
                Some(named((name, &values[self.position(index, *dimension)])))
            }
            _ => None,
        });
        let axes = super::text(&axes.collect());
        match (combo, axes.is_empty()) {
            (Some(combo), true) => combo,
            (Some(combo), false) => format!("{combo} {axes}"),
            (None, false) => axes,
            (None, true) => String::from("default"),
        }
    }
}
