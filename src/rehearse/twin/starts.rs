//! Compares the phases of measured starts, as the servers' logs show them, with those of the engine model. The ratios become factors that
//! correct the model.

use super::super::TimeFactor;
use crate::sim::engine::cost::StartFactors;
use crate::sim::settings::ServerSettings;

/// Factor of each phase before any start was measured.
pub const PRIOR: TimeFactor = TimeFactor::of(0.5, 0.15);

/// Durations of the phases of one start, in seconds, and the settings of its server.
#[derive(Debug, Clone)]
pub struct StartTimes {
    /// Time from launch to ready.
    pub total_s: f64,
    /// Part of that time that the engine took, including compilation and capture.
    pub engine_s: Option<f64>,
    /// Time for compilation.
    pub compile_s: Option<f64>,
    /// Time for capturing CUDA graphs.
    pub capture_s: Option<f64>,
    /// Settings of the server, with nominal constants.
    pub settings: ServerSettings,
}

/// The correction factors of the phases, and that of whole starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Starts {
    phases: [(&'static str, TimeFactor); 5],
    total: TimeFactor,
}

impl Starts {
    /// Returns the factors before any start was measured.
    pub fn prior() -> Starts {
        Starts::after(&[])
    }

    /// Returns the factors after some starts were measured.
    pub fn after(starts: &[StartTimes]) -> Starts {
        let mut ratios: [Vec<f64>; 5] = Default::default();
        for start in starts {
            for (phase, ratio) in start.ratios() {
                ratios[phase].push(ratio);
            }
        }
        let factor = |phase: usize| PRIOR.after(&ratios[phase]);
        let mut found = Starts {
            phases: [
                ("start: imports", factor(IMPORT)),
                ("start: weights and memory", factor(LOAD)),
                ("start: cold compilation", factor(COLD)),
                ("start: warm compilation", factor(WARM)),
                ("start: graphs", factor(CAPTURE)),
            ],
            total: PRIOR,
        };
        let factors = found.factors();
        let totals: Vec<f64> = starts
            .iter()
            .map(|start| start.total_s / start.modelled_s(factors))
            .collect();
        found.total = PRIOR.after(&totals);
        found
    }

    /// Returns the factors for the engine model.
    pub fn factors(&self) -> StartFactors {
        let [import, load, compile_cold, compile_warm, capture] = self.phases.map(|(_, phase)| phase.factor);
        StartFactors {
            import,
            load,
            compile_cold,
            compile_warm,
            capture,
        }
    }

    /// Returns the factor of a whole start. It corrects what remains after each phase was corrected by its own factor.
    pub fn total(&self) -> TimeFactor {
        self.total
    }

    /// Returns the names of the phases with their factors.
    pub fn phases(&self) -> impl Iterator<Item = (&'static str, TimeFactor)> {
        self.phases.into_iter()
    }
}

// Indices of the phases.
const IMPORT: usize = 0;
const LOAD: usize = 1;
const COLD: usize = 2;
const WARM: usize = 3;
const CAPTURE: usize = 4;

impl StartTimes {
    /// Returns the ratio of measured to modelled time of each phase that the log shows, with the index of the phase.
    fn ratios(&self) -> Vec<(usize, f64)> {
        let [cold, warm] = [false, true].map(|warm| self.settings.phases_if(warm));
        let mut ratios = Vec::new();
        let mut add = |phase: usize, seconds: f64, modelled: f64| {
            if seconds > 0.0 && modelled > 0.0 {
                ratios.push((phase, seconds / modelled));
            }
        };
        let compile_s = self.compile_s.unwrap_or(0.0);
        let capture_s = self.capture_s.unwrap_or(0.0);
        if let Some(engine_s) = self.engine_s {
            add(IMPORT, self.total_s - engine_s, cold.import.as_secs_f64());
            let load_s = (cold.weights + cold.profile).as_secs_f64();
            add(LOAD, engine_s - compile_s - capture_s, load_s);
        }
        match self.is_cold() {
            true => add(COLD, compile_s, cold.compile.as_secs_f64()),
            false => add(WARM, compile_s, warm.compile.as_secs_f64()),
        }
        add(CAPTURE, capture_s, cold.capture.as_secs_f64());
        ratios
    }

    /// Returns true if the compilation took about as long as with an empty cache, instead of a warm one. The boundary is the geometric mean
    /// of the two modelled times.
    fn is_cold(&self) -> bool {
        let [cold, warm] = [false, true].map(|warm| self.settings.phases_if(warm).compile.as_secs_f64());
        self.compile_s.is_some_and(|seconds| seconds > (cold * warm).sqrt())
    }

    /// Returns the duration of the whole start by the model with these factors, in seconds.
    fn modelled_s(&self, factors: StartFactors) -> f64 {
        let mut settings = self.settings.clone();
        settings.cost.constants.start = factors;
        settings.phases_if(!self.is_cold()).total().as_secs_f64()
    }
}
