//! A virtual node: each start of a server and each run have random noise, and the node drifts from start to start. Everything follows from
//! a seed.

use crate::random::Random;

/// Changes of the node's speed from start to start; 3 % in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    None,
    /// Evenly over 40 starts.
    Line,
    /// Evenly over the first eight starts, then no more.
    Ramp,
    /// At once, at any of the first 40 starts.
    Step,
    /// A random walk whose standard deviation is 3 % after 40 starts.
    Walk,
    /// To and fro, with a period of 3 to 40 starts.
    Wave,
}

impl Drift {
    pub const ALL: [Drift; 6] = [
        Drift::None,
        Drift::Line,
        Drift::Ramp,
        Drift::Step,
        Drift::Walk,
        Drift::Wave,
    ];
}

/// Size of the drift, and the number of starts over which it is spread.
const DRIFT: f64 = 0.03;
const SPAN: f64 = 40.0;
/// Noise between runs of one start.
pub const RUN_SD: f64 = 0.01;
/// Runs of each start.
pub const RUNS: usize = 3;

/// The node.
#[derive(Debug, Clone)]
pub struct Node {
    pub random: Random,
    start_sd: f64,
    drift: Drift,
    /// Starts so far.
    starts: f64,
    walked: f64,
    /// Place of the step or period of the wave, and the wave's phase.
    place: f64,
    phase: f64,
}

impl Node {
    pub fn new(seed: u64, start_sd: f64, drift: Drift) -> Node {
        let mut random = Random(seed);
        let place = random.between(1.0, SPAN);
        let phase = random.between(0.0, std::f64::consts::TAU);
        Node {
            random,
            start_sd,
            drift,
            starts: 0.0,
            walked: 0.0,
            place,
            phase,
        }
    }

    fn drifted(&mut self) -> f64 {
        let at = self.starts;
        self.starts += 1.0;
        self.walked += DRIFT / SPAN.sqrt() * self.random.normal();
        DRIFT
            * match self.drift {
                Drift::None => 0.0,
                Drift::Line => at / SPAN,
                Drift::Ramp => (at / 8.0).min(1.0),
                Drift::Step => f64::from(u8::from(at >= self.place)),
                Drift::Walk => self.walked / DRIFT,
                Drift::Wave => 0.5 * (std::f64::consts::TAU * at / (2.0 + self.place) + self.phase).sin(),
            }
    }

    /// Values of the runs of one start. The true value of the server is `1 + change`.
    pub fn start(&mut self, change: f64, runs: usize) -> Vec<f64> {
        let level = change.ln_1p() + self.drifted() + self.start_sd * self.random.normal();
        (0..runs)
            .map(|_| (level + RUN_SD * self.random.normal()).exp())
            .collect()
    }
}

/// Returns a different seed for each trial of each cell.
pub fn seed(trial: u64, cell: &str) -> u64 {
    // FNV-1a hash.
    let start = cell.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    Random(start.wrapping_add(trial)).next()
}
