//! The figures of a run, by metric. They are a compact list, because an experiment may have a hundred thousand runs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

/// A figure, with its sampling error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// A number with its standard error within the run. The error is relative if the metric has a logarithmic scale, else in the metric's
    /// unit.
    Value {
        /// The number.
        value: f64,
        /// Its standard error from the samples of this run.
        error: f64,
    },
    /// A share of a count of items, such as requests.
    Share {
        /// Number of items that meet the condition.
        met: f64,
        /// Number of all items; the effective number if requests wait for each other.
        of: f64,
    },
}

/// Figures by metric, sorted by the metrics' names. Runs may share the list of names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Figure>", into = "BTreeMap<String, Figure>")]
pub struct RunFigures {
    names: Arc<[Arc<str>]>,
    /// The figure of each name.
    figures: Box<[Figure]>,
}

impl RunFigures {
    /// The figure of a metric, if there is one.
    pub fn get(&self, metric: &str) -> Option<&Figure> {
        self.iter()
            .find_map(|(name, figure)| (name == metric).then_some(figure))
    }

    /// Returns true if there are no figures.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The figures with their metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Figure)> {
        self.names.iter().map(|name| &**name).zip(&self.figures)
    }

    /// The figures with their metrics, for changing them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Figure)> {
        self.names.iter().map(|name| &**name).zip(&mut self.figures)
    }

    /// Adds the figure of a metric, or replaces it.
    pub fn insert(&mut self, metric: impl Into<Arc<str>>, figure: Figure) {
        let metric = metric.into();
        let figures = self.names.iter().cloned().zip(self.figures.iter().copied());
        let others = figures.filter(|(name, _)| *name != metric);
        *self = others.chain([(metric.clone(), figure)]).collect();
    }

    /// Uses the other run's list of names, if both lists are equal, to save memory.
    pub fn share(&mut self, other: &RunFigures) {
        if self.names == other.names {
            self.names = Arc::clone(&other.names);
        }
    }
}

impl Index<&str> for RunFigures {
    type Output = Figure;

    fn index(&self, metric: &str) -> &Figure {
        self.get(metric).expect("the run has a figure of this metric")
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Figure)> for RunFigures {
    fn from_iter<I: IntoIterator<Item = (N, Figure)>>(figures: I) -> RunFigures {
        let figures = figures.into_iter().map(|(name, figure)| (name.into(), figure));
        let mut figures: Vec<(Arc<str>, Figure)> = figures.collect();
        figures.sort_by(|(one, _), (other, _)| one.cmp(other));
        let (names, figures): (Vec<Arc<str>>, Vec<Figure>) = figures.into_iter().unzip();
        RunFigures {
            names: names.into(),
            figures: figures.into(),
        }
    }
}

impl<N: Into<Arc<str>>, const COUNT: usize> From<[(N, Figure); COUNT]> for RunFigures {
    fn from(figures: [(N, Figure); COUNT]) -> RunFigures {
        figures.into_iter().collect()
    }
}

impl From<BTreeMap<String, Figure>> for RunFigures {
    fn from(figures: BTreeMap<String, Figure>) -> RunFigures {
        figures.into_iter().collect()
    }
}

impl From<RunFigures> for BTreeMap<String, Figure> {
    fn from(figures: RunFigures) -> BTreeMap<String, Figure> {
        figures
            .iter()
            .map(|(name, figure)| (name.to_owned(), *figure))
            .collect()
    }
}
