//! Reads probes from measured runs.

use super::Vary;
use super::probe::{Probe, Question};
use super::reading::{Reading, RequestLatencies};
use super::target::Target;
use super::watch::Cut;

impl Probe {
    /// Reads the criteria of the targets from a run's figures and its requests, which are in the order of sending. If the run was cut,
    /// reads the facts that were certain by then. Requests around which the generator stalled are read as they would have been without the
    /// stalls.
    pub fn read(
        question: Question,
        targets: &[Target],
        vary: Vary,
        metric: impl Fn(&str) -> Option<f64>,
        requests: &[RequestLatencies],
        cut: Option<&Cut>,
    ) -> Probe {
        let wave = match vary {
            Vary::MaxConcurrency => question.value as usize,
            Vary::RequestRate => 0,
        };
        let criteria = targets.iter().flat_map(|target| &target.criteria);
        let readings = criteria.filter_map(|criterion| {
            let text = criterion.to_string();
            let measured = criterion.read(vary, &metric, requests);
            let reading = match cut {
                Some(cut) => Reading::clear(*cut.certain.get(&text)?, measured.map(|reading| reading.ratio)),
                None => criterion.read_without_stalls(vary, requests, wave).or(measured)?,
            };
            Some((text, reading))
        });
        let served = metric("request_throughput").filter(|_| cut.is_none());
        Probe {
            is_outrun: question.outruns(vary, served, requests),
            question,
            stopped: cut.map(|cut| cut.verdict),
            readings: readings.collect(),
            served,
            throughput: metric("output_throughput").filter(|_| cut.is_none()),
            disturbances: Vec::new(),
        }
    }
}
