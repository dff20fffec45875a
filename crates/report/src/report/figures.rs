//! The names of the columns that runs of our own benchmarks fill in a table, for whoever must know before there is a run.

use vsweep_plan::plan::{BenchRunner, Offline};
use vsweep_record::table::ECHOED;

/// Latencies of the load generator by the name between their statistic and their unit: `p99_ttft_ms`.
const LATENCIES: [&str; 9] = [
    "ttft",
    "tpot",
    "itl",
    "e2el",
    "client_queue_time",
    "e2el_including_client_queue",
    "itl_per_token",
    "ttft_from_due",
    "e2el_from_due",
];

/// Those of a phase.
const PHASE_LATENCIES: [&str; 2] = ["ttft", "itl"];

/// What every table has, and what telemetry, GPUs and prices add.
const COMMON: &str = "\
    point run outcome validity codes cause combo serve.combo bench.combo simulated node node_gpus node_gpu_driver detail advice date model_id \
    telemetry_samples host_cpu_share_mean host_cpu_share_max host_load_max vsweep_cpu_cores_max \
    kv_cache_usage_mean kv_cache_usage_max running_mean running_max waiting_mean waiting_max preemptions \
    gpus_sampled gpu_energy_joules gpu_power_watts_mean gpu_power_watts_max gpu_utilization_mean \
    gpu_memory_gib_max gpu_sm_clock_mhz_mean gpu_sm_clock_mhz_min gpu_memory_clock_mhz_mean \
    gpu_temperature_celsius_max gpu_throttled_share gpu_throttle_reasons gpu_other_processes_max \
    startup_s startup_weights_s startup_model_s startup_compile_s startup_graphs_s startup_engine_s \
    servers_beside starts_beside other_servers_beside completed failed output_throughput prefix_cache_hit_rate \
    user_count_estimate gpu_count tokens_per_user tokens_per_gpu \
    cost_per_million_output_tokens cost_per_million_tokens joules_per_output_token joules_per_token";

/// What the load generator adds, latencies and settings that a result repeats aside.
const NATIVE: &str = "\
    duration total_input_tokens total_output_tokens total_input_sequences \
    request_throughput request_goodput input_throughput total_token_throughput \
    input_sequence_throughput max_output_tokens_per_s max_concurrent_requests peak_concurrent_requests rtfx \
    ramp_up_strategy ramp_up_start_rps ramp_up_end_rps \
    probe_completed probe_failed probe_median_e2el_ms probe_p99_e2el_ms probe_max_e2el_ms \
    spec_decode_acceptance_rate spec_decode_acceptance_length spec_decode_num_drafts spec_decode_draft_tokens \
    spec_decode_accepted_tokens diffusion_committed_throughput diffusion_steps_per_canvas \
    diffusion_committed_per_step diffusion_committed_tokens diffusion_denoising_steps diffusion_canvas_positions \
    mode num_conversations turns_per_conversation multi_turn_concurrency inter_turn_delay_ms \
    conversations_completed conversations_failed avg_turns_completed avg_conversation_duration_ms \
    prompt_source prompt_alignment prompt_tokens_counted_by steady_state \
    generator_lag_p50_ms generator_lag_p99_ms generator_lag_max_ms generator_cpu_share generator_longest_turn_ms \
    generator_away_ms generator_kernel_stamped_share generator_late_connections connection_setup_ms";

/// What a batch of known shape adds.
const ITERATIONS: &str = "\
    engines global_batch_size total_latency_ms min_total_latency_ms max_total_latency_ms latency_per_iter_ms \
    first_token_ms first_token_spread_ms step_ms wake_ms prompt_tokens completion_tokens cached_tokens \
    tokens_per_second new_tokens_per_second cached_tokens_per_second engine_steps server_prefill_ms server_step_ms \
    tensor_parallel pipeline_parallel kv_capacity_tokens";

/// What a phase at one level adds.
const PHASES: &str = "\
    max_concurrency input_len output_len seq_len kv_capacity_tokens sequence_limit kv_cache_dtype prefix_caching \
    tensor_parallel engines warmup_s primed_s window_s requests_started input_tokens output_tokens \
    request_throughput input_throughput total_token_throughput total_throughput generator_cpu_share \
    generator_longest_turn_ms generator_away_ms generator_kernel_stamped_share";

/// What vLLM's benchmarks without a server add.
const OFFLINE: &str = "\
    avg_cold_startup_time avg_warm_startup_time avg_cold_compilation_time avg_warm_compilation_time \
    avg_cold_encoder_compilation_time avg_warm_encoder_compilation_time cold_compilation_share warm_compilation_share \
    warm_startup_share avg_latency duration elapsed_time num_requests requests_per_second tokens_per_second \
    request_throughput total_token_throughput total_encoder_calls num_requests_with_encoder_calls";

/// Whether a run may fill a column of this name. What an external benchmark writes into its result is its own affair.
pub fn is_known(runner: &BenchRunner, column: &str) -> bool {
    let column = column.replace('-', "_");
    let is_time = |name: &str| name.ends_with("_time") && name.starts_with('p');
    matches!(runner, BenchRunner::Command(_))
        || (runner.offline() == Some(Offline::Startup) && is_time(&column))
        // The stages of a model's processor are its own.
        || (runner.offline() == Some(Offline::MmProcessor) && column.ends_with("_ms"))
        || names(runner).any(|name| name == column)
        || is_latency(&column, latencies(runner))
}

/// The columns to suggest in place of one that is not known.
pub fn known(runner: &BenchRunner) -> impl Iterator<Item = String> {
    let latencies = latencies(runner).iter().flat_map(|name| {
        let statistics = ["mean", "median", "std", "p50", "p90", "p95", "p99"];
        statistics.map(|statistic| format!("{statistic}_{name}_ms"))
    });
    latencies.chain(names(runner).map(str::to_owned))
}

fn latencies(runner: &BenchRunner) -> &'static [&'static str] {
    match runner {
        BenchRunner::Native => &LATENCIES,
        BenchRunner::Phases => &PHASE_LATENCIES,
        BenchRunner::Offline(_) => &["e2el"],
        BenchRunner::Iterations | BenchRunner::Command(_) => &[],
    }
}

/// All others.
fn names(runner: &BenchRunner) -> impl Iterator<Item = &'static str> {
    let (own, echoed): (&str, &'static [&'static str]) = match runner {
        BenchRunner::Native => (NATIVE, &ECHOED),
        BenchRunner::Iterations => (ITERATIONS, &[]),
        BenchRunner::Phases => (PHASES, &[]),
        BenchRunner::Offline(_) => (OFFLINE, &[]),
        BenchRunner::Command(_) => ("", &[]),
    };
    let names = COMMON.split_whitespace().chain(own.split_whitespace());
    names.chain(echoed.iter().copied())
}

/// `p99.9_ttft_ms`, `median_e2el_ms`.
fn is_latency(column: &str, known: &[&str]) -> bool {
    let parts = column.strip_suffix("_ms").and_then(|column| column.split_once('_'));
    parts.is_some_and(|(statistic, latency)| {
        let percentile = statistic.strip_prefix('p').and_then(|percent| percent.parse().ok());
        let is_percentile = percentile.is_some_and(|percent: f64| (0.0..=100.0).contains(&percent));
        known.contains(&latency) && (is_percentile || ["mean", "median", "std"].contains(&statistic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_suggested_is_known() {
        for runner in [BenchRunner::Native, BenchRunner::Iterations, BenchRunner::Phases] {
            for name in known(&runner) {
                assert!(is_known(&runner, &name), "{name}");
            }
        }
        let native = |name: &str| is_known(&BenchRunner::Native, name);
        assert!(native("p99.9_ttft_ms") && native("p0_itl_ms") && native("max-concurrency"));
        for wrong in ["p99_ttfft_ms", "p101_ttft_ms", "worst_ttft_ms", "p99_ttft", "nope_x"] {
            assert!(!native(wrong), "{wrong}");
        }
    }

    #[test]
    fn each_benchmark_has_columns_of_its_own() {
        let (batches, phases) = (BenchRunner::Iterations, BenchRunner::Phases);
        assert!(is_known(&batches, "step_ms") && !is_known(&batches, "p99_ttft_ms"));
        assert!(is_known(&phases, "p99_ttft_ms") && !is_known(&phases, "p99_tpot_ms"));
        assert!(is_known(
            &BenchRunner::Command(vsweep_plan::plan::Commands::default()),
            "anything"
        ));
    }
}
