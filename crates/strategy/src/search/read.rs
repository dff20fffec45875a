//! What a measured run says to a search.

use super::Vary;
use super::probe::{Probe, Question};
use super::reading::{Reading, RequestLatencies};
use super::target::Target;
use super::watch::Cut;

impl Probe {
    /// What a run says about the criteria of the targets: by its figures and requests, in the order of sending, or by what was
    /// certain when it was cut.
    pub fn read(
        question: Question,
        targets: &[Target],
        vary: Vary,
        metric: impl Fn(&str) -> Option<f64>,
        requests: &[RequestLatencies],
        cut: Option<&Cut>,
    ) -> Probe {
        let criteria = targets.iter().flat_map(|target| &target.criteria);
        let readings = criteria.filter_map(|criterion| {
            let text = criterion.to_string();
            let measured = criterion.read(vary, &metric, requests);
            let reading = match cut {
                Some(cut) => Reading::clear(*cut.certain.get(&text)?, measured.map(|reading| reading.ratio)),
                None => measured?,
            };
            Some((text, reading))
        });
        Probe {
            question,
            stopped: cut.map(|cut| cut.verdict),
            readings: readings.collect(),
            served: metric("request_throughput").filter(|_| cut.is_none()),
            disturbances: Vec::new(),
        }
    }
}
