//! The constants of the engine model that differ between machines, engines and versions: shares of the hardware's peaks, the host's costs,
//! and phases of a start. The nominal ones are assumptions (see `docs/simulator.md`); a rehearsal replaces them by those of measured runs.

/// The constants of one node, model and engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// Share of the memory bandwidth that reading weights reaches.
    pub weights: f64,
    /// Share of the memory bandwidth that paged attention reaches.
    pub kv: f64,
    /// Share of the peak arithmetic that large matrix products reach.
    pub matmul: f64,
    /// That share in 8 bits, from published prefill-bound throughput (tests/data/calibration: 2048/128 on H100 and H200).
    pub matmul_8: f64,
    /// Share of the peak arithmetic that attention over long contexts reaches.
    pub attention: f64,
    /// Factor of the time of dense layers with quantised weights: scales and conversions.
    pub quantised: f64,
    /// Scheduling, sampling and launching one step, in seconds.
    pub step_s: f64,
    /// Scheduling, sampling and detokenising one sequence in a step, in seconds.
    pub sequence_s: f64,
    /// Launching the kernels of one layer in a step with a prompt, from graphs of its pieces, in seconds. Of vLLM 0.26 on an H100
    /// (results/h100 and tests/data/calibration): prefill steps of few tokens.
    pub pieces_launch_s: f64,
    /// Launching the kernels of one layer one by one, in seconds: decode steps there with `--enforce-eager`.
    pub eager_launch_s: f64,
    /// Factor of the time of communication between GPUs.
    pub link: f64,
    /// Factor of the number of KV blocks.
    pub kv_blocks: f64,
    /// Factors of the phases of a start.
    pub start: StartFactors,
}

/// Factors of the durations of phases of a start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartFactors {
    /// Imports and configuration.
    pub import: f64,
    /// Weights, profiling and the KV cache.
    pub load: f64,
    /// Compilation with an empty cache.
    pub compile_cold: f64,
    /// Compilation with a warm cache.
    pub compile_warm: f64,
    /// Capturing CUDA graphs.
    pub capture: f64,
}

impl Default for StartFactors {
    fn default() -> StartFactors {
        StartFactors {
            import: 1.0,
            load: 1.0,
            compile_cold: 1.0,
            compile_warm: 1.0,
            capture: 1.0,
        }
    }
}

impl Default for Constants {
    fn default() -> Constants {
        Constants {
            weights: 0.82,
            kv: 0.70,
            matmul: 0.60,
            matmul_8: 0.53,
            attention: 0.45,
            quantised: 1.0,
            step_s: 0.55e-3,
            sequence_s: 5e-6,
            pieces_launch_s: 0.32e-3,
            eager_launch_s: 0.60e-3,
            link: 1.0,
            kv_blocks: 1.0,
            start: StartFactors::default(),
        }
    }
}
