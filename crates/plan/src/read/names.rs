//! Parameters by their names, as links, exclusions and conditions refer to them.

use super::{Combo, Reader};
use crate::condition::bound;
use crate::{Axis, Condition, Entry, Node, ParamRef, Problem, Side, Span, nearest, spelling, suggest};
use itertools::Itertools;

/// The parameters of both sides, to check references against.
#[derive(Debug, Default)]
pub(crate) struct Names {
    params: Vec<ParamRef>,
    /// The parameters in the plan's own tables, with the positions of their keys.
    places: Vec<(ParamRef, Span)>,
    /// True if names may be missing, because a parameter file could not be read.
    pub may_lack_some: bool,
    /// True if [serve] was read.
    has_servers: bool,
}

impl Names {
    /// Adds all parameters of a side: those of its table, its command lines and environment, and those of combinations.
    pub fn add(&mut self, side: Side, table: &Node, params: &[(String, Axis)], combos: &[Combo]) {
        self.has_servers |= side == Side::Serve;
        let typed = table.child("params").map(Node::entries).unwrap_or_default();
        let place = |entry: &Entry| {
            let name = entry.key.clone();
            (ParamRef { side, name }, entry.key_span)
        };
        self.places.extend(typed.iter().map(place));
        let typed = typed.iter().map(|entry| &entry.key);
        let read = params.iter().map(|(name, _)| name);
        let of_combos = combos.iter().flat_map(|combo| combo.params.keys());
        let names = typed.chain(read).chain(of_combos).sorted().dedup().cloned();
        self.params.extend(names.map(|name| ParamRef { side, name }));
    }

    /// Returns the parameter of this name on a side, in any spelling.
    pub fn find(&self, side: Side, name: &str) -> Option<&ParamRef> {
        let is_it = |param: &&ParamRef| param.side == side && spelling::same(&param.name, name);
        self.params.iter().find(is_it)
    }

    /// Returns the parameter that a name means, with its side or without; `None` if the name means no parameter, or several.
    fn only(&self, name: &str) -> Option<&ParamRef> {
        let meant = self.params.iter().filter(|param| param.is_meant_by(name));
        meant.exactly_one().ok()
    }

    /// Returns true if no side has a parameter of this name, given without its side.
    fn lack(&self, name: &str) -> bool {
        // A plan without [serve] is reported for that, not for each name of a server's parameter.
        let is_complete = self.has_servers && !self.may_lack_some;
        is_complete && !self.params.iter().any(|param| param.is_meant_by(name))
    }

    /// Returns the remedy for a name that does not exist.
    fn suggest(&self, name: &str) -> String {
        suggest(name, self.params.iter().map(ToString::to_string))
    }

    /// Returns the positions of the names that are most similar to an unknown name, because the mistake may be there.
    fn places_like(&self, name: &str) -> Vec<Span> {
        let names: Vec<String> = self.places.iter().map(|(param, _)| param.to_string()).collect();
        let meant = nearest(name, names.iter().map(String::as_str));
        let places = self.places.iter().zip(&names);
        let similar = places.filter(|(_, name)| meant.contains(&name.as_str()));
        similar.map(|((_, place), _)| *place).collect()
    }
}

impl Reader<'_> {
    /// Reads the conditions of a table, each a value or a comparison of a parameter. Messages call the table `what`. The side of a
    /// parameter may be left out if only one side has it.
    pub(crate) fn conditions(&mut self, node: &Node, what: &str, remedy: &str) -> Vec<Condition> {
        let entries = self.table(node, what, remedy).unwrap_or_default();
        let read = |entry: &Entry| {
            let param = match self.names.only(&entry.key) {
                Some(only) => Some(only.clone()),
                None => self.param_ref(&entry.key, entry.key_span),
            };
            self.condition(entry, param)
        };
        entries.iter().filter_map(read).collect()
    }

    /// Reads the value of an entry as a condition on a parameter.
    pub(crate) fn condition(&mut self, entry: &Entry, param: Option<ParamRef>) -> Option<Condition> {
        let value = self.scalar(&entry.value, &entry.key)?;
        match bound(&value) {
            Ok((op, value)) => param.map(|param| Condition { param, op, value }),
            Err(why) => {
                let remedy = "write a value, or a comparison such as \">64\"";
                self.refuse(entry.value.span, why, remedy)
            }
        }
    }

    /// Reads a reference such as `serve.max_num_seqs` to a parameter that must exist.
    pub(crate) fn param_ref(&mut self, text: &str, span: Span) -> Option<ParamRef> {
        let Some((side, name)) = Side::split(text) else {
            if self.names.lack(text) {
                return self.unknown(text, span);
            }
            if self.names.may_lack_some && !self.names.params.iter().any(|param| param.is_meant_by(text)) {
                return None;
            }
            let message = format!("`{text}` does not say which side it is on");
            let remedy = match self.names.only(text) {
                Some(only) => format!("write `{}.{text}`", only.side.table()),
                None => self.names.suggest(text),
            };
            return self.refuse(span, message, remedy);
        };
        match self.names.find(side, name) {
            Some(known) => Some(known.clone()),
            // A plan without [serve] is reported for that, not for each name of a server's parameter.
            None if self.names.may_lack_some || (side == Side::Serve && !self.names.has_servers) => Some(ParamRef {
                side,
                name: name.to_owned(),
            }),
            None => self.unknown(text, span),
        }
    }

    /// Reports a reference to a parameter that does not exist.
    fn unknown(&mut self, text: &str, span: Span) -> Option<ParamRef> {
        let remedy = self.names.suggest(text);
        self.found.add(Problem {
            explained_at: self.names.places_like(text),
            ..Problem::new(span, format!("no parameter is called `{text}`"), remedy)
        });
        None
    }
}
