//! Requirements of a plan on its results: `[[assert]]` for its points, and `required` for the answers of its searches. They are evaluated
//! where results are shown, not here.

use super::sla::of_class;
use crate::written::{Scalar, words};
use crate::{Condition, FromNode, Node, Params, Reader, Side, Table, table};
use itertools::Itertools;
use std::collections::BTreeMap;
use std::fmt;
use vsweep_strategy::search::Criterion;

/// A condition on the results, which must hold for each workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// The condition that must hold.
    pub what: ServerCondition,
    /// The servers for which it must hold.
    pub servers: Servers,
}

impl Requirement {
    /// Returns the assertion; `None` for a required target.
    pub fn assertion(&self) -> Option<&Assertion> {
        match &self.what {
            ServerCondition::Points(assertion) => Some(assertion),
            ServerCondition::Target(_) => None,
        }
    }

    /// Returns the bounds of the assertion; empty for a required target.
    pub fn criteria(&self) -> &[Criterion] {
        self.assertion().map_or(&[], |assertion| &assertion.criteria)
    }
}

/// A condition on a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerCondition {
    /// Some load meets the target of this name.
    Target(String),
    /// Every point of the server meets every criterion, if the assertion applies to the point.
    Points(Assertion),
}

words! {
    /// The servers that must meet a requirement.
    pub enum Servers("WhichServers") {
        /// One is enough.
        Any = "any",
        /// Each.
        All = "all",
    }
    default Any
}

table! {
    /// A requirement of ordinary points, judged for each workload that it covers by the estimate of each point. A server meets it if each
    /// of its points does. Every further key is a bound as in `[[sla.target]]`, such as `p99_ttft_ms = "<=500"`. An `attainment` with
    /// `ttft_ms` or `tpot_ms` needs `save_detailed = true` in `[bench.params]`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Assertion("AssertTable", "assert.") {
        /// Name shown with the verdict. Default: the requirement's text.
        pub name: Option<String>,
        /// The class that the bounds are about. Default: all requests.
        pub class: Option<String>,
        /// Points that it applies to: values of parameters, or comparisons (`max_concurrency = "<=64"`), all of which must hold. Prefix a
        /// name that both sides have with `serve.` or `bench.`. Default: every point.
        pub conditions as "where": Vec<Condition> = by::<BTreeMap<String, Scalar>, _>(conditions),
        /// Servers that must meet it: `any` (default) for at least one, with two in `[compare]` the new one, or `all`.
        pub servers: Servers = one_of::<Servers, _>(),
        ..String
    }
    internal {
        /// The criteria for each point.
        pub criteria: Vec<Criterion>,
    }
    then Assertion::check
}

impl Assertion {
    /// Returns true if the assertion applies to a point with these parameters. A missing parameter meets no condition.
    pub fn is_about(&self, serve: &Params, bench: &Params) -> bool {
        self.conditions.iter().all(|condition| match condition.param.side {
            Side::Serve => condition.holds(serve),
            Side::Bench => condition.holds(bench),
        })
    }

    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        let bounds = Assertion::others(node);
        let criteria = reader.criteria("this requirement", node, &bounds);
        self.criteria = of_class(criteria, self.class.as_deref());
    }
}

/// Formats the requirement for people: `target chat`, `p99_ttft_ms<=500 where bench.max_concurrency = 8`.
impl fmt::Display for ServerCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerCondition::Target(name) => write!(f, "target {name}"),
            ServerCondition::Points(Assertion { name: Some(name), .. }) => f.write_str(name),
            ServerCondition::Points(Assertion {
                criteria, conditions, ..
            }) => {
                write!(f, "{}", criteria.iter().join(", "))?;
                match conditions.as_slice() {
                    [] => Ok(()),
                    all => write!(f, " where {}", all.iter().join(", ")),
                }
            }
        }
    }
}

fn conditions(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<Condition>> {
    Some(reader.conditions(node, what, "write it as where = { max_concurrency = 8 }"))
}

/// Reads the `[[assert]]` blocks of a plan.
pub(crate) fn assertions(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<Requirement>> {
    let assertions: Vec<Assertion> = Vec::from_node(reader, node, what)?;
    let required = assertions.into_iter().map(|assertion| Requirement {
        servers: assertion.servers,
        what: ServerCondition::Points(assertion),
    });
    Some(required.collect())
}
