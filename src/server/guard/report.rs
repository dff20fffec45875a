//! What the guard tells its owner: one line of JSON for each fact, on its standard output.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One line from the guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The leader runs, under this process id.
    Started(i32),
    /// The leader ended.
    Exited(Exit),
    /// The guard cannot do its work, for this reason, and ends.
    Failed(String),
    /// No process of the tree is left.
    Gone,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(known) => write!(f, "killed by {known}"),
                Err(_) => write!(f, "killed by signal {signal}"),
            },
        }
    }
}
