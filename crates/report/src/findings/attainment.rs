//! The share of a run's requests within limits, which an `attainment` of `[[assert]]` bounds. It is computed from the latencies of single
//! requests in the run's file, and only if a plan asks for it, because they are many.

use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_plan::Requirement;
use vsweep_record::table::Cell;
use vsweep_strategy::search::{Quantity, RequestLimit, SavedRequests, attained};

/// The shares that a plan asks for, by their columns' names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares(BTreeMap<String, (Option<String>, Vec<RequestLimit>)>);

impl Shares {
    /// Shares that these requirements need.
    pub fn asked_by(required: &[Requirement]) -> Shares {
        let criteria = required.iter().flat_map(Requirement::criteria);
        let shares = criteria.filter_map(|criterion| match &criterion.quantity {
            Quantity::Attainment(limits) => Some((criterion.figure(), (criterion.class.clone(), limits.clone()))),
            Quantity::Metric(_) => None,
        });
        Shares(shares.collect())
    }

    /// Reads the shares from the content of a run's file. Shares whose latencies the file lacks are left out.
    pub fn read(&self, content: &[u8]) -> Vec<(Box<str>, Cell)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let saved: SavedRequests = serde_json::from_slice(content).unwrap_or_default();
        let share = |(name, (class, limits)): (&String, &(Option<String>, Vec<RequestLimit>))| {
            let latencies = limits.iter().map(|limit| limit.latency).collect_vec();
            let share = attained(limits, class.as_deref(), &saved.with(&latencies)?)?;
            Some((name.as_str().into(), Cell::Float(share)))
        };
        self.0.iter().filter_map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_plan::{Assertion, ServerCondition, Servers};
    use vsweep_strategy::search::Criterion;

    fn shares(limits: &[(&str, &str)]) -> Shares {
        let limits = limits
            .iter()
            .map(|(name, limit)| RequestLimit::parse(name, limit).expect("a limit"));
        let criterion = Criterion::attainment(limits.collect(), ">=75%").expect("a share");
        Shares::asked_by(&[Requirement {
            what: ServerCondition::Points(Assertion {
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
