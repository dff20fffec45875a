//! The names of the columns that the load generator's runs fill in a table, for whoever must know before there is a run.

use crate::table::ECHOED;

/// Latencies by the name between their statistic and their unit: `p99_ttft_ms`.
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

/// All others, settings that a result repeats aside.
const OTHERS: &str = "\
    point run outcome cause combo serve.combo bench.combo simulated detail advice date \
    duration completed failed total_input_tokens total_output_tokens total_input_sequences \
    request_throughput request_goodput input_throughput output_throughput total_token_throughput \
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
    generator_late_connections connection_setup_ms prefix_cache_hit_rate \
    telemetry_samples host_cpu_share_mean host_cpu_share_max host_load_max vsweep_cpu_cores_max \
    kv_cache_usage_mean kv_cache_usage_max running_mean running_max waiting_mean waiting_max preemptions \
    gpus_sampled gpu_energy_joules gpu_power_watts_mean gpu_power_watts_max gpu_utilization_mean \
    gpu_memory_gib_max gpu_sm_clock_mhz_mean gpu_sm_clock_mhz_min gpu_memory_clock_mhz_mean \
    gpu_temperature_celsius_max gpu_throttled_share gpu_throttle_reasons \
    user_count_estimate gpu_count tokens_per_user tokens_per_gpu \
    cost_per_million_output_tokens cost_per_million_tokens joules_per_output_token joules_per_token";

/// Whether a run of the load generator may fill a column of this name.
pub fn is_known(column: &str) -> bool {
    let column = column.replace('-', "_");
    OTHERS.split_whitespace().any(|name| name == column) || ECHOED.contains(&&*column) || is_latency(&column)
}

/// The columns to suggest in place of one that is not known.
pub fn known() -> impl Iterator<Item = String> {
    let latencies = LATENCIES.iter().flat_map(|name| {
        let statistics = ["mean", "median", "std", "p50", "p90", "p95", "p99"];
        statistics.map(|statistic| format!("{statistic}_{name}_ms"))
    });
    let others = OTHERS.split_whitespace().chain(ECHOED).map(str::to_owned);
    latencies.chain(others)
}

/// `p99.9_ttft_ms`, `median_e2el_ms`.
fn is_latency(column: &str) -> bool {
    let parts = column.strip_suffix("_ms").and_then(|column| column.split_once('_'));
    parts.is_some_and(|(statistic, latency)| {
        let is_percentile = |text: &str| {
            text.parse::<f64>()
                .is_ok_and(|percent| (0.0..=100.0).contains(&percent))
        };
        let is_statistic =
            ["mean", "median", "std"].contains(&statistic) || statistic.strip_prefix('p').is_some_and(is_percentile);
        is_statistic && LATENCIES.contains(&latency)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_suggested_is_known() {
        for name in known() {
            assert!(is_known(&name), "{name}");
        }
        assert!(is_known("p99.9_ttft_ms") && is_known("p0_itl_ms") && is_known("max-concurrency"));
        for wrong in ["p99_ttfft_ms", "p101_ttft_ms", "worst_ttft_ms", "p99_ttft", "nope_x"] {
            assert!(!is_known(wrong), "{wrong}");
        }
    }
}
