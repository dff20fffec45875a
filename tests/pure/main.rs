//! Tests that need no server: plans and their expansion, the laws of the search, the engine model compared with published figures, faulty
//! files, and the rules of the architecture.

mod calibration;
mod circles;
#[path = "../support/deadline.rs"]
mod deadline;
mod doubts;
mod duration;
mod layers;
mod mangled_files;
mod matrix;
mod mix;
#[path = "../../benches/support/nodes.rs"]
mod nodes;
mod plans;
#[path = "../../benches/support/random.rs"]
mod random;
mod search;
mod servers;
mod texts;
mod twin;
mod types;
mod wording;

/// Number of cases for a property test. `PROPTEST_CASES` overrides `usual`, for long campaigns.
fn cases(usual: u32) -> proptest::prelude::ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    proptest::prelude::ProptestConfig::with_cases(asked.unwrap_or(usual))
}
