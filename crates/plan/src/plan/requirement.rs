//! What a plan requires of its results: `[[assert]]` for the points of the plan, and `required` for what its searches find.
//! Whether it holds is judged where results are shown, not here.

use super::{Condition, Params, Side};
use schemars::JsonSchema;
use std::fmt;
use vsweep_strategy::search::Criterion;

/// Something that must hold of the results of each workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// What must hold.
    pub what: Required,
    /// How many servers it must hold for.
    pub servers: Servers,
}

/// What must hold of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Required {
    /// Some load meets the target of this name.
    Target(String),
    /// Each of these points meets every criterion.
    Points(Assertion),
}

/// Which servers must meet a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "WhichServers", rename_all = "snake_case")]
pub enum Servers {
    /// One is enough.
    Any,
    /// Each.
    All,
}

/// An `[[assert]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What each point must meet.
    pub criteria: Vec<Criterion>,
    /// Which points it is about: those for which every condition holds.
    pub conditions: Vec<Condition>,
}

impl Assertion {
    /// Whether it is about a point with these parameters. One that a point does not have meets no condition.
    pub fn is_about(&self, serve: &Params, bench: &Params) -> bool {
        self.conditions.iter().all(|condition| match condition.param.side {
            Side::Serve => condition.holds(serve),
            Side::Bench => condition.holds(bench),
        })
    }
}

/// As people read it: `target chat`, `p99_ttft_ms<=500 where bench.max_concurrency = 8`.
impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |parts: Vec<String>| parts.join(", ");
        match self {
            Required::Target(name) => write!(f, "target {name}"),
            Required::Points(Assertion { name: Some(name), .. }) => f.write_str(name),
            Required::Points(assertion) => {
                f.write_str(&list(assertion.criteria.iter().map(ToString::to_string).collect()))?;
                match assertion.conditions.as_slice() {
                    [] => Ok(()),
                    all => write!(f, " where {}", list(all.iter().map(ToString::to_string).collect())),
                }
            }
        }
    }
}
