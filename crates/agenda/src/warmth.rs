//! Remembers the loads for which a start of a server is warm: those whose workload it has held with at least the same height. Nothing else
//! is kept.

use vsweep_plan::{Params, number, spelling};
use vsweep_record::table::is_of_load;

/// The loads that a start of a server has held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warmth(Vec<HeldLoad>);

/// A load that it has held.
#[derive(Debug, Clone, PartialEq)]
struct HeldLoad {
    /// Parameters of the requests, without those that set how many come at once.
    workload: Params,
    /// Most requests at once, and requests a second; infinite where nothing limits them.
    height: (f64, f64),
    /// Number of requests.
    requests: f64,
}

impl HeldLoad {
    fn of(params: &Params) -> HeldLoad {
        let limit = |name: &str| spelling::find(params, name).and_then(number).unwrap_or(f64::INFINITY);
        let workload = params.iter().filter(|(name, _)| !is_of_load(name));
        HeldLoad {
            workload: workload.map(|(name, value)| (name.clone(), value.clone())).collect(),
            height: (limit("max_concurrency"), limit("request_rate")),
            requests: limit("num_prompts"),
        }
    }

    /// Returns true if a server that held this load is warm for the other.
    fn covers(&self, other: &HeldLoad) -> bool {
        // Without any limit all requests come at once.
        let is_at_once = other.height == (f64::INFINITY, f64::INFINITY);
        self.workload == other.workload
            && self.height.0 >= other.height.0
            && self.height.1 >= other.height.1
            && (!is_at_once || self.requests >= other.requests)
    }
}

impl Warmth {
    /// Returns true if a load with these bench parameters needs no further warm-up.
    pub fn covers(&self, params: &Params) -> bool {
        let wanted = HeldLoad::of(params);
        self.0.iter().any(|held| held.covers(&wanted))
    }

    /// Notes a load that the server has held.
    pub fn note(&mut self, params: &Params) {
        let held = HeldLoad::of(params);
        self.0.retain(|known| !held.covers(known));
        self.0.push(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn is_warm(held: Value, wanted: Value) -> bool {
        let params = |value: Value| value.as_object().expect("an object").clone();
        let mut warmth = Warmth::default();
        warmth.note(&params(held));
        warmth.covers(&params(wanted))
    }

    #[test]
    fn a_higher_load_of_the_same_workload_warms() {
        let load =
            |slots: u32, input: u32| json!({"max-concurrency": slots, "random_input_len": input, "num_prompts": 9});
        assert!(is_warm(load(8, 5), load(8, 5)) && is_warm(load(8, 5), load(2, 5)));
        assert!(!is_warm(load(8, 5), load(9, 5)), "it was never that high");
        assert!(!is_warm(load(8, 5), load(2, 6)), "another workload");
    }

    #[test]
    fn rates_and_floods_are_heights_too() {
        assert!(is_warm(
            json!({"request_rate": "inf", "num_prompts": 50}),
            json!({"request_rate": 4})
        ));
        assert!(!is_warm(
            json!({"request_rate": 4, "num_prompts": 50}),
            json!({"max_concurrency": 4})
        ));
        assert!(!is_warm(json!({"num_prompts": 50}), json!({"num_prompts": 60})));
        assert!(is_warm(
            json!({"num_prompts": 60, "max_concurrency": 64}),
            json!({"num_prompts": 99, "max_concurrency": 4})
        ));
    }
}
