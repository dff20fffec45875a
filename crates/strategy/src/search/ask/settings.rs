//! The settings of a search: its targets, the range of loads, and the number of runs.

use crate::search::Vary;
use crate::search::seed::Requests;
use crate::search::target::Target;
use std::fmt;

/// The targets, range and effort of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The load that is varied.
    pub vary: Vary,
    /// The targets, answered in this order.
    pub targets: Vec<Target>,
    /// The lowest load to try.
    pub lower: f64,
    /// The highest load to try.
    pub upper: f64,
    /// Greatest distance of the answer below the boundary, as a ratio: 0.05 for 5 %.
    pub tolerance: f64,
    /// Maximum number of runs that are asked for by each target.
    pub max_probes: usize,
    /// Number of complete runs that an answer needs at its load.
    pub confirmations: usize,
    /// Number of requests of a run, by its load.
    pub requests: Requests,
    /// True if the search of a server config ends as soon as another config is known or predicted to hold at least as much.
    pub skip_beaten: bool,
}

impl Settings {
    /// Returns settings with the usual bounds, tolerance and numbers of runs.
    pub fn new(vary: Vary, targets: Vec<Target>) -> Settings {
        Settings {
            vary,
            targets,
            lower: if vary == Vary::MaxConcurrency { 1.0 } else { 0.01 },
            upper: 8192.0,
            tolerance: 0.05,
            max_probes: 16,
            confirmations: 1,
            requests: Requests {
                per_value: 10.0,
                min: 200,
                max: 2000,
            },
            skip_beaten: false,
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { lower, upper, .. } = self;
        write!(f, "highest {} from {lower} to {upper} that meets ", self.vary.word())?;
        let targets = self.targets.iter().map(|target| {
            let criteria: Vec<String> = target.criteria.iter().map(ToString::to_string).collect();
            format!("{} ({})", target.name, criteria.join(", "))
        });
        f.write_str(&targets.collect::<Vec<_>>().join("; "))?;
        let (percent, most) = (self.tolerance * 100.0, self.max_probes);
        write!(f, ", to {percent} %, at most {most} runs asked for by each target")?;
        match self.skip_beaten {
            true => f.write_str(", unless another server is known to hold more"),
            false => Ok(()),
        }
    }
}
