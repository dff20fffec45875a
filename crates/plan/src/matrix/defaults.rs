//! The default settings of the servers, with which an optimisation begins and compares the best one.

use super::space::{Space, TableParam, own_default};
use super::{Matrix, ServerConfig};
use crate::{Combo, ServeCommand, spelling};
use serde_json::Value;

impl Matrix {
    /// Returns the position of the first server that has the default settings: every parameter that varies is left out, except the command
    /// and degrees of parallelism, which have defaults of their own.
    pub fn default_of(&self, servers: &[ServerConfig]) -> Option<usize> {
        let space = &self.sides.serve;
        let defaults = space.defaults();
        servers
            .iter()
            .position(|server| space.has_default_settings(server.index, &defaults))
    }

    /// Returns true if the separate configuration with the default settings keeps a point; `None` without such a configuration.
    pub(super) fn keeps_defaults(&self) -> Option<bool> {
        let is_kept = || self.points_of_server.last().is_some_and(|points| *points > 0);
        self.sides.serve.has_defaults.then(is_kept)
    }

    /// Drops the separate configuration with the default settings if a configuration of the axes is the same server, for example because
    /// the command has a flag with one of the values.
    pub(super) fn settle_defaults(&mut self) {
        let space = &self.sides.serve;
        let Some(last) = space.len().checked_sub(1).filter(|_| space.has_defaults) else {
            return;
        };
        let ServerConfig { id: defaults, argv, .. } = self.server(last);
        // Another configuration can be the same server only if the command states the flag, or if a value of the axis leaves it out. All
        // configurations are compared only then, because that takes long.
        let can_be_equal = |param: &TableParam| {
            let says_nothing = |value: &Value| value.is_null() || *value == Value::Bool(false);
            let is_flag = !param.name.contains('.');
            let is_stated = !is_flag || ServeCommand::of(&argv).has(&param.name);
            is_stated || param.axis.values().iter().any(says_nothing)
        };
        if !space.left_out().all(can_be_equal) {
            return;
        }
        let same = (0..last).find(|index| self.server(*index).id == defaults);
        self.sides.serve.has_defaults = same.is_none();
        self.sides.serve.same_as_defaults = same;
    }
}

impl Space {
    /// Returns the parameters that vary, each with its default value, if it has one.
    fn defaults(&self) -> Vec<(String, Option<Value>)> {
        let names = self
            .names()
            .into_iter()
            .map(|name| (name.to_owned(), self.values_of(name)));
        let varied = names.filter(|(_, values)| values.iter().any(|value| *value != values[0]));
        varied
            .map(|(name, values)| {
                let own = own_default(&name, &values).cloned();
                (name, own)
            })
            .collect()
    }

    /// Returns true if a configuration has the default settings. If no configuration was added for them, these are the ones in which every
    /// parameter that varies has its default value or is left out.
    fn has_default_settings(&self, index: usize, defaults: &[(String, Option<Value>)]) -> bool {
        let has_default = |(name, default): &(String, Option<Value>)| {
            let own = self.value(index, name).filter(|value| !value.is_null());
            own.is_none_or(|own| default.as_ref() == Some(&*own))
        };
        match (self.has_defaults, self.same_as_defaults) {
            (true, _) => self.is_defaults(index),
            (false, Some(same)) => same == index,
            (false, None) => defaults.iter().all(has_default),
        }
    }

    /// Returns the values of a parameter in the combinations and on its axis; `None` for each combination that lacks it.
    fn values_of<'s>(&'s self, name: &str) -> Vec<Option<&'s Value>> {
        let axis = || self.param(name).map_or(&[][..], |param| param.axis.values());
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
