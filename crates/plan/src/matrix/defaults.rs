//! The default settings of the servers, with which an optimisation begins and compares the best one.

use super::space::{Space, own_default};
use super::{Matrix, ServerConfig};
use crate::{Combo, spelling};
use serde_json::Value;

impl Matrix {
    /// Returns true if a server has the default settings: every parameter that varies is left out, except the command and degrees of
    /// parallelism, which have defaults of their own.
    pub fn is_default(&self, server: &ServerConfig) -> bool {
        self.sides.serve.has_default_settings(server.index)
    }

    /// Removes the default settings as a configuration of their own, if a configuration of the axes is the same server, for example because
    /// the command has a flag with one of the values.
    pub(super) fn settle_defaults(&mut self) {
        let space = &self.sides.serve;
        let Some(last) = space.len().checked_sub(1).filter(|_| space.has_defaults) else {
            return;
        };
        let defaults = self.server(last).id;
        let same = (0..last).find(|index| self.server(*index).id == defaults);
        self.sides.serve.has_defaults = same.is_none();
        self.sides.serve.same_as_defaults = same;
    }
}

impl Space {
    /// Returns true if a configuration has the default settings. If no configuration was added for them, these are the ones in which every
    /// parameter that varies has its default value or is left out.
    pub fn has_default_settings(&self, index: usize) -> bool {
        let has_default = |name: &str| {
            let values = self.values_of(name);
            let is_varied = values.iter().any(|value| *value != values[0]);
            let own = self.value(index, name).filter(|value| is_varied && !value.is_null());
            own.is_none_or(|own| own_default(name, &values) == Some(&*own))
        };
        match (self.has_defaults, self.same_as_defaults) {
            (true, _) => self.is_defaults(index),
            (false, Some(same)) => same == index,
            (false, None) => self.names().into_iter().all(has_default),
        }
    }

    /// Returns the values of a parameter in the combinations and on its axis; `None` for each combination that lacks it.
    fn values_of<'s>(&'s self, name: &str) -> Vec<Option<&'s Value>> {
        let axis = || self.slot(name).map_or(&[][..], |slot| slot.axis.values());
        let of_axis = || axis().iter().map(Some);
        let of_combo = |combo: &'s Combo| match spelling::find(&combo.params, name) {
            None if !axis().is_empty() => of_axis().collect(),
            own => vec![own],
        };
        match self.combos.is_empty() {
            true => of_axis().collect(),
            false => self.combos.iter().flat_map(of_combo).collect(),
        }
    }
}
