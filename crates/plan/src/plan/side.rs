//! Parameters of both sides of a plan by their names, and the table that ties them to each other.

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

/// The `[link]` table.
#[derive(Debug, Clone, Default)]
pub struct Link {
    /// Each group keeps only the pairs in which all its parameters are equal.
    pub equal: Vec<Vec<ParamRef>>,
    /// Each group advances together: its axes have one length and count as one axis.
    pub zip: Vec<Vec<ParamRef>>,
}
