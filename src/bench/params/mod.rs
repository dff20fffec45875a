//! The parameters of our benchmarks, one table for each: checks of plans, command lines and their help all read it. `load::params` declares
//! and reads parameters. Each group is declared where it is used, those of a dataset next to the dataset.

pub(in crate::bench) mod docs;
pub(in crate::bench) mod headers;
pub mod server;
pub mod time_span;

pub use crate::params::{FromParam, Param, ParamGroup, Takes};

use crate::dataset;
use crate::params::ParamReader;
use crate::plan::{Params, nearest};
use std::collections::BTreeSet;

/// The parameters of one benchmark.
#[derive(Debug)]
pub struct Table {
    /// Whose they are, as sentences say it.
    pub whose: &'static str,
    /// Its own parameters, in the order of the help.
    pub groups: &'static [ParamGroup],
    /// True if it includes the parameters of all datasets.
    pub has_datasets: bool,
    /// Remedy for an unknown name without similar ones.
    pub remedy: &'static str,
    /// Names that are refused, with the reason.
    pub refused: &'static [(&'static str, &'static str)],
}

impl Table {
    /// Every parameter with the title of its group, each name once.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static Param)> {
        let datasets = dataset::groups().filter(|_| self.has_datasets);
        let mut seen = BTreeSet::new();
        self.groups
            .iter()
            .copied()
            .chain(datasets)
            .flat_map(|ParamGroup { title, params }| params.iter().map(move |param| (title, param)))
            .filter(move |(_, param)| seen.insert(param.name))
    }

    /// The parameter of a name in either spelling.
    pub fn find(&self, name: &str) -> Option<&'static Param> {
        let name = name.replace('-', "_");
        self.all().map(|(_, param)| param).find(|param| param.name == name)
    }

    /// Begins to read parameters.
    pub(in crate::bench) fn reader<'a>(&self, params: &'a Params) -> ParamReader<'a> {
        ParamReader::new(params, |name| self.find(name), |name| self.unknown(name))
    }

    /// Returns the message for an unknown name.
    pub(in crate::bench) fn unknown(&self, name: &str) -> String {
        let wanted = name.replace('-', "_");
        let refused = self.refused.iter().find(|(refused, _)| *refused == wanted);
        let near = nearest(&wanted, self.all().map(|(_, param)| param.name));
        let reason = match (refused, near.as_slice()) {
            (Some((_, reason)), _) => format!(": {reason}"),
            (None, []) => format!("; {}", self.remedy),
            (None, near) => format!("; did you mean \"{}\"?", near.join("\" or \"")),
        };
        format!("{} has no parameter \"{name}\"{reason}", self.whose)
    }
}
