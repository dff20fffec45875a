//! The share of a run's requests within limits, which an `attainment` of `[[assert]]` bounds: read from the latencies of single
//! requests in the run's file, and only where a plan asks, since they are many.

use serde::Deserialize;
use std::collections::BTreeMap;
use vsweep_plan::plan::{Required, Requirement};
use vsweep_record::table::Cell;
use vsweep_strategy::search::{Latency, Quantity, RequestLatencies, RequestLimit, attained};

/// The shares that a plan asks for, by their columns' names.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares(BTreeMap<String, Vec<RequestLimit>>);

/// Lists with an entry a request, in seconds; keys of `vllm bench serve`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Lists {
    ttfts: Vec<f64>,
    latencies: Vec<f64>,
    itls: Vec<Vec<f64>>,
    output_lens: Vec<f64>,
    errors: Vec<String>,
}

impl Shares {
    /// Those of these requirements.
    pub fn asked_by(required: &[Requirement]) -> Shares {
        let assertions = required.iter().filter_map(|required| match &required.what {
            Required::Points(assertion) => Some(assertion),
            Required::Target(_) => None,
        });
        let criteria = assertions.flat_map(|assertion| &assertion.criteria);
        let shares = criteria.filter_map(|criterion| match &criterion.quantity {
            Quantity::Attainment(limits) => Some((criterion.figure(), limits.clone())),
            Quantity::Metric(_) => None,
        });
        Shares(shares.collect())
    }

    /// Those that the content of a run's file tells; one without the lists that it needs is left out.
    pub fn read(&self, content: &[u8]) -> Vec<(Box<str>, Cell)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let lists: Lists = serde_json::from_slice(content).unwrap_or_default();
        let share = |(name, limits): (&String, &Vec<RequestLimit>)| {
            let share = attained(limits, &lists.requests(limits)?)?;
            Some((name.as_str().into(), Cell::Float(share)))
        };
        self.0.iter().filter_map(share).collect()
    }
}

impl Lists {
    /// Every request with the latencies that these limits are about; `None` if a list of them is missing.
    fn requests(&self, limits: &[RequestLimit]) -> Option<Vec<RequestLatencies>> {
        let needs = |wanted: &[Latency]| limits.iter().any(|limit| wanted.contains(&limit.latency));
        let count = self.latencies.len().max(self.ttfts.len());
        let has_ttft = self.ttfts.len() == count;
        let has_end = self.latencies.len() == count || (has_ttft && self.itls.len() == count);
        let is_known = (has_ttft || !needs(&[Latency::Ttft, Latency::Tpot]))
            && (has_end || !needs(&[Latency::E2el, Latency::Tpot]))
            && (self.output_lens.len() == count || !needs(&[Latency::Tpot]));
        is_known.then(|| (0..count).map(|at| self.request(at)).collect())
    }

    fn request(&self, at: usize) -> RequestLatencies {
        let get = |list: &[f64]| list.get(at).copied();
        let ttft = get(&self.ttfts).unwrap_or_default();
        let of_gaps = || ttft + self.itls.get(at).map_or(0.0, |gaps| gaps.iter().sum());
        let latency = get(&self.latencies).unwrap_or_else(of_gaps);
        // A failed request has no latency.
        let has_failed = self.errors.get(at).is_some_and(|error| !error.is_empty());
        if has_failed || latency <= 0.0 {
            return RequestLatencies::FAILED;
        }
        let tokens = get(&self.output_lens).unwrap_or_default();
        let tpot = if tokens > 1.0 {
            (latency - ttft) / (tokens - 1.0)
        } else {
            0.0
        };
        RequestLatencies {
            ttft_ms: ttft * 1000.0,
            tpot_ms: tpot * 1000.0,
            e2el_ms: latency * 1000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_plan::plan::{Assertion, Servers};
    use vsweep_strategy::search::Criterion;

    fn shares(limits: &[(&str, &str)]) -> Shares {
        let limits = limits
            .iter()
            .map(|(name, limit)| RequestLimit::parse(name, limit).expect("a limit"));
        let criterion = Criterion::attainment(limits.collect(), ">=75%").expect("a share");
        Shares::asked_by(&[Requirement {
            what: Required::Points(Assertion {
                criteria: vec![criterion],
                ..Assertion::default()
            }),
            servers: Servers::Any,
        }])
    }

    #[test]
    fn a_share_counts_failed_requests_and_needs_its_lists() {
        let detailed = br#"{"ttfts":[0.1,0.2,0.9,0.0],"latencies":[1.1,1.2,1.9,0.0],"output_lens":[101,101,101,0],
            "errors":["","","","gone"]}"#;
        let plain = br#"{"latencies":[1.1,1.2,1.9,0.0]}"#;
        let of = |shares: Shares, content: &[u8]| shares.read(content).first().map(|(_, share)| share.number());
        let both = || shares(&[("ttft_ms", "<500"), ("tpot_ms", "<=10.5")]);
        assert_eq!(of(both(), detailed), Some(Some(0.5)));
        assert_eq!(of(both(), plain), None);
        let whole = || shares(&[("e2el_ms", "<=1900")]);
        assert_eq!(of(whole(), plain), Some(Some(0.75)));
        let of_vllm = br#"{"ttfts":[0.1,0.5],"itls":[[0.4,0.4],[0.7,0.8]],"output_lens":[3,3],"errors":["",""]}"#;
        assert_eq!(of(whole(), of_vllm), Some(Some(0.5)));
    }
}
