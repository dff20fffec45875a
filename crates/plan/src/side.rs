//! The two sides of a plan, and references to their parameters by name.

use super::spelling;
use std::fmt;

/// The side of the plan that a parameter belongs to.
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

    /// Noun for one configuration of the side.
    pub fn noun(self) -> &'static str {
        match self {
            Side::Serve => "server",
            Side::Bench => "load",
        }
    }

    /// Splits a name such as `serve.x` into its side and the name without it.
    pub fn split(text: &str) -> Option<(Side, &str)> {
        let (side, name) = text.split_once('.')?;
        let side = [Side::Serve, Side::Bench]
            .into_iter()
            .find(|known| known.table() == side)?;
        Some((side, name))
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

impl ParamRef {
    /// Returns true if a name means this parameter, with or without its side, in any spelling.
    pub fn is_meant_by(&self, name: &str) -> bool {
        spelling::same(&self.name, name) || spelling::same(&self.to_string(), name)
    }
}

impl fmt::Display for ParamRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.side.table(), self.name)
    }
}
