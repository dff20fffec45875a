//! Points in words, the same in every text and page: their settings, the goals that they meet, their doubts and their figures.

use crate::findings::answer::mark;
use crate::findings::variation::settings;
use crate::inputs::Inputs;
use crate::texts::words::{show_figure, show_number};
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_base::validity::Code;
use vsweep_record::table::{Cell, Column};

/// Context for describing points.
pub struct PointWords<'a> {
    /// The inputs of the report. Methods take an index into their points.
    pub inputs: &'a Inputs<'a>,
    /// The parameters that distinguish the points.
    pub params: Vec<&'a Column>,
}

impl PointWords<'_> {
    /// Settings that distinguish a point from the others.
    pub fn settings(&self, at: usize) -> String {
        settings(&self.params, self.inputs.points.points[at].row)
    }

    /// The values of the settings without their names, for a table with the names in its heading: `64/2/fp8`.
    pub fn values(&self, at: usize) -> String {
        let row = self.inputs.points.points[at].row;
        let value = |column: &&Column| match column.cells.at(row) {
            Cell::Missing => "-".to_owned(),
            Cell::Float(number) => show_number(number),
            other => other.to_string(),
        };
        self.params.iter().map(value).join("/")
    }

    /// A point as a value for templates.
    pub fn part(&self, at: usize) -> Value {
        context! {
            settings => self.settings(at),
            meets => (!self.inputs.goals.is_empty()).then(|| self.inputs.goals.met_by(at)),
            mark => mark(&self.inputs.points.points[at]),
        }
    }

    /// The estimate of a figure.
    pub fn value(&self, at: usize, metric: &str) -> Option<f64> {
        Some(self.inputs.points.spread(&self.inputs.points.points[at], metric)?.value)
    }

    /// The estimate of a figure in words, with `~` if it is a percentile of too few requests.
    pub fn figure(&self, at: usize, metric: &str) -> Option<String> {
        let is_rough = self.inputs.points.points[at]
            .doubts_of(metric)
            .contains(&Code::SampleTooSmall);
        let mark = if is_rough { "~" } else { "" };
        Some(mark.to_owned() + &show_figure(self.value(at, metric)?))
    }
}
