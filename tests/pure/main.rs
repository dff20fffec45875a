//! What needs no server: plans and their expansion, the laws of the search, the engine model beside published figures, faulty
//! files, and the house rules.

mod calibration;
mod circles;
#[path = "../support/deadline.rs"]
mod deadline;
mod doubts;
mod layers;
mod mangled_files;
mod matrix;
mod plans;
mod search;
mod servers;

/// How many cases to try: `PROPTEST_CASES` for campaigns, which a number in the code would overrule.
fn cases(usual: u32) -> proptest::prelude::ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    proptest::prelude::ProptestConfig::with_cases(asked.unwrap_or(usual))
}
