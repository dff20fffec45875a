//! Parameters of both sides of a plan by their names, and the table that ties them to each other.

use schemars::JsonSchema;
use std::fmt;

/// Which side of the plan a parameter belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// `[serve.params]`
    Serve,
    /// `[bench.params]`
    Bench,
}

impl Side {
    /// The name of its table in a plan.
    pub fn table(self) -> &'static str {
        match self {
            Side::Serve => "serve",
            Side::Bench => "bench",
        }
    }
}

/// A parameter named as `serve.max_num_seqs` or `bench.max_concurrency`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParamRef {
    /// Its side.
    pub side: Side,
    /// Its name without the side.
    pub name: String,
}

impl fmt::Display for ParamRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.side.table(), self.name)
    }
}

/// Parameters that are tied to each other, named as `serve.max_num_seqs` or `bench.max_concurrency`.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(rename = "LinkTable", deny_unknown_fields)]
pub struct Link {
    /// Groups of parameters; only pairs of server and load in which all parameters of a group are equal are kept.
    #[schemars(with = "Option<Vec<Vec<String>>>")]
    pub equal: Vec<Vec<ParamRef>>,
    /// Groups of axes that advance together, first value with first value and so on.
    #[schemars(with = "Option<Vec<Vec<String>>>")]
    pub zip: Vec<Vec<ParamRef>>,
}
