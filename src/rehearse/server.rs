//! Models a server in virtual time from its command line: the settings of the engine model, the duration of a start, and a likely failure.
//! Starts nothing and uses no network. If a fact that the model needs is missing, an error names it.

use super::Options;
use super::spread::{ServerConstants, TimeFactor};
use crate::cause::{Cause, Failure};
use crate::journal::{LaunchRecord, State};
use crate::matrix::{Matrix, ServerConfig};
use crate::run::hardware::{command, on_gpu};
use crate::server::address::placed;
use crate::sim::engine::gpu::{GIB, GPUS};
use crate::sim::engine::memory::{Misfit, kv_blocks};
use crate::sim::fault::Fault;
use crate::sim::flags::{Flags, Refusal};
use crate::sim::phases;
use crate::sim::settings::ServerSettings;
use std::sync::Arc;

/// A model of a server in virtual time.
#[derive(Debug, Clone, Default)]
pub struct ModelledServer {
    /// True if the real run uses the simulator. The model is then right by construction, except for the machine's own work. Otherwise the
    /// real run uses vLLM, and the model is a guess.
    pub is_simulator: bool,
    /// Settings of the engine model; `None` if the command line would be rejected, or too little is known.
    pub settings: Option<ServerSettings>,
    /// Reason why it will not become ready.
    pub failure: Option<Failure>,
    /// Time from launch to ready or to the failure, in seconds, by the model.
    pub start_s: f64,
    /// Time from launch to ready, in seconds, if its graphs are in the compile cache.
    pub warm_start_s: f64,
    /// Time from the stop request until the server has ended, in seconds.
    pub stop_s: f64,
    /// Source of its constants, if runs were measured.
    pub calibrated: Option<Arc<ServerConstants>>,
}

/// Time for vLLM to stop and to release its memory, in seconds.
const VLLM_STOP_S: f64 = 6.0;
/// Time for starting the simulator, in addition to its configured times, in seconds.
const SIMULATOR_START_S: f64 = 0.19;
/// Time for stopping the simulator, in seconds.
const SIMULATOR_STOP_S: f64 = 0.03;
/// Standard deviation of the logarithm of durations, for a vLLM with another version or other flags than the engines by which the model was
/// calibrated. A guess.
const OTHER_ENGINE: f64 = 0.3;

impl ModelledServer {
    /// Returns the uncertainty of start times: that of the calibrated constants, else an assumed one.
    pub fn start_factor(&self) -> TimeFactor {
        match (self.is_simulator, &self.calibrated) {
            (true, _) => TimeFactor::of(0.1, 0.1),
            (false, Some(calibrated)) => calibrated.start,
            (false, None) => TimeFactor::of(0.5, 0.15),
        }
    }

    /// Returns the uncertainty of run times: that of the calibrated constants, else the assumed error of the model for this GPU.
    pub fn run_factor(&self) -> TimeFactor {
        let cost = self.settings.as_ref().map(|settings| &settings.cost);
        if let Some((calibrated, cost)) = self.calibrated.as_ref().zip(cost) {
            return calibrated.run_factor(cost);
        }
        let gpu = self.settings.as_ref().map_or(GPUS[0], |settings| settings.cost.gpu);
        match self.is_simulator {
            true => TimeFactor::of(0.03, 0.04),
            false => TimeFactor::of(OTHER_ENGINE.hypot(gpu.model_error), 0.1),
        }
    }

    /// Returns the model of a server config. The error names a missing fact and a way to provide it.
    pub fn of(server: &ServerConfig, options: &Options) -> Result<ModelledServer, String> {
        let (is_simulator, args) = command(&server.argv)?;
        let environment = |name: &str| {
            let own = server.env.get(name).cloned();
            own.or_else(|| std::env::var(name).ok().filter(|_| is_simulator))
        };
        let settings = match Flags::parse(&placed(args)) {
            Ok(flags) if is_simulator => ServerSettings::resolve(&flags, &environment),
            Ok(flags) => ServerSettings::resolve(&on_card(flags, options)?, &environment),
            Err(refusal) => Err(refusal),
        };
        let mut settings = match settings {
            Ok(settings) => settings,
            Err(refusal) => {
                let (cause, text) = match refusal {
                    Refusal::Usage(text) => (Cause::BadFlag, text),
                    Refusal::Exception(_, text) => (Cause::BadConfig, text),
                };
                let last = text.lines().last().unwrap_or_default();
                return Ok(ModelledServer {
                    is_simulator,
                    failure: Some(Failure::new(cause, last)),
                    start_s: if is_simulator {
                        SIMULATOR_START_S
                    } else {
                        // The flags are rejected before the engine process imports everything again.
                        phases::IMPORT / 2.0
                    },
                    ..ModelledServer::default()
                });
            }
        };
        let is_about = |calibrated: &&Arc<ServerConstants>| !is_simulator && calibrated.is_about(&settings.cost);
        let calibrated = options.calibrated.as_ref().filter(is_about).cloned();
        if let Some(calibrated) = &calibrated {
            settings.cost.constants = calibrated.constants;
        }
        let failure = fault(&settings).or_else(|| misfit(&settings));
        let phases = settings.phases();
        let warm = settings.phases_if(!is_simulator || settings.compile_cache.is_some());
        let (own_start_s, stop_s) = match is_simulator {
            true => (SIMULATOR_START_S, SIMULATOR_STOP_S),
            false => (0.0, VLLM_STOP_S),
        };
        Ok(ModelledServer {
            is_simulator,
            start_s: match &failure {
                // A model that does not fit is noticed once its weights are loaded.
                Some(_) => (phases.import + phases.weights).as_secs_f64(),
                None => own_start_s + phases.total().as_secs_f64(),
            },
            warm_start_s: own_start_s + warm.total().as_secs_f64(),
            stop_s,
            settings: Some(settings),
            failure,
            calibrated,
        })
    }

    /// Returns the key of its compiled graphs, which servers with equal compile settings share; `None` if it will not become ready.
    pub fn graphs(&self) -> Option<String> {
        let settings = self.settings.as_ref().filter(|_| self.failure.is_none());
        settings.map(ServerSettings::graphs)
    }

    /// Returns a server about which only the start times of a record are known.
    pub fn measured(record: &State) -> ModelledServer {
        let starts = record.launches();
        let ready: Vec<f64> = starts.filter_map(LaunchRecord::ready_seconds).collect();
        let mean_s = ready.iter().sum::<f64>() / ready.len().max(1) as f64;
        ModelledServer {
            start_s: mean_s,
            warm_start_s: mean_s,
            ..ModelledServer::default()
        }
    }
}

/// Returns true if the speed of a plan's first server depends on this machine's GPU.
pub fn needs_gpu(matrix: &Matrix) -> bool {
    let first = matrix.servers().next();
    first.is_some_and(|server| matches!(command(&server.argv), Ok((false, _))))
}

/// Returns the flags of a real server, with the assumed GPU and the model's shape.
fn on_card(flags: Flags, options: &Options) -> Result<Flags, String> {
    let Some(card) = options.card else {
        return Err("the GPU is not known: name it with `vsweep plan --gpu`".to_owned());
    };
    on_gpu(flags, &card.gpu, options.model_config.as_deref())
}

/// Returns the failure that the simulator is configured to have while it starts.
fn fault(settings: &ServerSettings) -> Option<Failure> {
    let failure = |cause, detail: &str| Some(Failure::new(cause, detail));
    settings.faults.iter().find_map(|fault| match fault {
        Fault::CrashAtStart => failure(Cause::CrashedStarting, "it is set to crash at start"),
        Fault::BadExit(_) => failure(Cause::CrashedStarting, "it is set to exit while starting"),
        Fault::NeverReady => failure(Cause::ReadyTimeout, "it is set never to be ready"),
        Fault::PortTaken => failure(Cause::PortTaken, "it is set to find its port taken"),
        Fault::OomAtLoad => failure(Cause::OomAtLoad, "it is set to run out of memory while loading"),
        Fault::OomAtProfile => failure(Cause::OomAtLoad, "it is set to run out of memory while profiling"),
        Fault::KvTooSmall => failure(Cause::KvCacheTooSmall, "it is set to have too small a KV cache"),
        Fault::WrongModel => failure(Cause::WrongServer, "it is set to serve another model"),
        _ => None,
    })
}

/// Returns the failure of a server that does not fit into the memory of its GPUs.
fn misfit(settings: &ServerSettings) -> Option<Failure> {
    match kv_blocks(&settings.cost, &settings.limits) {
        Ok(_) => None,
        Err(Misfit::OutOfMemory(_)) => {
            let weights = settings.cost.weights_per_gpu();
            let detail = format!(
                "the weights need {:.0} GiB on each GPU, which has {:.0} GiB",
                weights / GIB,
                settings.cost.gpu.memory / GIB
            );
            Some(Failure::new(Cause::OomAtLoad, detail))
        }
        Err(Misfit::KvCache(text)) => {
            let sentence = text.split(". ").next().unwrap_or(&text);
            Some(Failure::new(Cause::KvCacheTooSmall, sentence))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::fault::forms;

    /// Faults with which a server still gets ready, perhaps later than others.
    const OF_READY_SERVERS: &str = "slow-start ignore-flag ignore-term hang-on-term leak-child late-release error-rate reject-rate \
        truncate-rate wrong-counts wrong-tokens repeated-tokens cut-answers truncated-prompts batch-noise reset-refused log-flood \
        crash-after oom-after engine-death-after engine-lost-after hang-after mute-after";

    #[test]
    fn every_fault_that_keeps_a_server_from_starting_is_foreseen() {
        for form in forms() {
            let (word, argument) = form.split_once(':').map_or((&*form, ""), |(word, _)| (word, ":1"));
            let args = ["demo-8b".to_owned(), format!("--sim-fault={word}{argument}")];
            let flags = Flags::parse(&args).expect("known flags");
            let settings = ServerSettings::resolve(&flags, &|_| None).expect("usable");
            assert_ne!(
                fault(&settings).is_some(),
                OF_READY_SERVERS.split(' ').any(|known| known == word),
                "{word}: say in `fault` what comes of it, or name it in OF_READY_SERVERS"
            );
        }
    }
}
