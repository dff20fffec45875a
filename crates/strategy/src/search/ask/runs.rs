//! The runs of a search that concern one target.

use super::{Search, View};
use crate::search::probe::Probe;

impl View<'_> {
    /// Number of runs that this target asked for.
    pub(super) fn probes_so_far(&self) -> usize {
        self.asked().count()
    }

    pub(super) fn asked(&self) -> impl DoubleEndedIterator<Item = &Probe> {
        let probes = self.search.probes.iter();
        probes.filter(move |probe| probe.question.target == self.target.name)
    }

    /// Number of informative runs among those that this target asked for.
    pub(super) fn runs_so_far(&self) -> usize {
        self.probes_so_far() - self.spoilt().count()
    }

    /// Returns the runs that this target asked for and that give no observation because something disturbed them, or they were bursts.
    pub(super) fn spoilt(&self) -> impl Iterator<Item = &Probe> {
        self.asked().filter(move |probe| self.is_spoilt(probe))
    }

    pub(super) fn is_spoilt(&self, probe: &Probe) -> bool {
        self.target.is_spoilt(probe, self.search.settings.vary)
    }

    /// Returns the number of informative runs at a load, and how many of them missed the target.
    pub(super) fn runs_missing(&self, value: f64) -> (usize, usize) {
        let Search { settings, probes, .. } = self.search;
        self.target.runs_missing(probes, value, settings.vary)
    }
}
