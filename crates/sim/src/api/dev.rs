//! The routes that vLLM has in development mode (`VLLM_SERVER_DEV_MODE=1`): cache resets, sleep, pause, server info.

use super::App;
use crate::engine::stats::Stats;
use crate::fault::Fault;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Returns the routes.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/reset_prefix_cache", post(reset_prefix_cache))
        .route("/reset_mm_cache", post(do_nothing))
        .route("/reset_encoder_cache", post(do_nothing))
        .route("/start_profile", post(do_nothing))
        .route("/stop_profile", post(do_nothing))
        .route("/sleep", post(sleep))
        .route("/wake_up", resume_with(json!({"status": "awake", "tags": null})))
        .route("/is_sleeping", is_paused("is_sleeping"))
        .route("/pause", post(pause))
        .route("/resume", resume_with(json!({"status": "resumed"})))
        .route("/is_paused", is_paused("is_paused"))
        .route("/server_info", get(server_info))
}

async fn do_nothing() -> StatusCode {
    StatusCode::OK
}

async fn reset_prefix_cache(State(app): State<Arc<App>>) -> Json<Value> {
    let number = app.resets.fetch_add(1, Ordering::Relaxed);
    let refuses = |fault: &Fault| matches!(fault, Fault::ResetRefused(count) if number < *count);
    let refused = app.settings.faults.iter().any(refuses);
    let success = app.driver.reset_prefix_cache().await && !refused;
    Json(json!({"success": success}))
}

/// Parses the query of a URL.
fn parameters(query: Option<String>) -> HashMap<String, String> {
    let query = query.unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Stops scheduling; requests that come later wait. The parameter `mode` decides about earlier requests: `abort` (the default) ends
/// them, `wait` lets them finish, `keep` freezes them.
async fn stop_scheduling(app: &App, query: &HashMap<String, String>) {
    let is_busy = |states: Vec<Stats>| states.iter().any(|state| state.running + state.waiting > 0);
    app.is_paused.store(true, Ordering::Relaxed);
    match query.get("mode").map(String::as_str) {
        Some("keep") => {}
        Some("wait") => {
            app.is_draining.send_replace(true);
            let is_paused = || app.is_paused.load(Ordering::Relaxed);
            while is_paused() && app.driver.inspect().await.is_some_and(is_busy) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // A request to resume may have come meanwhile.
            if !is_paused() {
                return;
            }
        }
        _ => app.driver.abort_all(),
    }
    app.driver.pause(true);
    app.is_draining.send_replace(false);
}

/// Returns a route that resumes scheduling and sends this answer.
fn resume_with(answer: Value) -> MethodRouter<Arc<App>> {
    post(async move |State(app): State<Arc<App>>| {
        app.is_paused.store(false, Ordering::Relaxed);
        app.driver.pause(false);
        app.is_draining.send_replace(false);
        Json(answer)
    })
}

/// Returns a route that reports, under this key, whether scheduling is stopped. As in vLLM, sleeping and paused servers are not
/// distinguished.
fn is_paused(key: &'static str) -> MethodRouter<Arc<App>> {
    get(async move |State(app): State<Arc<App>>| Json(json!({key: app.is_paused.load(Ordering::Relaxed)})))
}

/// Stops scheduling. Levels above 0 also reset the prefix cache.
async fn sleep(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Json<Value> {
    let query = parameters(query);
    let level = query.get("level").and_then(|level| level.parse().ok()).unwrap_or(1);
    stop_scheduling(&app, &query).await;
    if level > 0 {
        app.driver.reset_prefix_cache().await;
    }
    Json(json!({"status": "sleeping", "level": level}))
}

async fn pause(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Json<Value> {
    let query = parameters(query);
    stop_scheduling(&app, &query).await;
    // vLLM 0.32 clears the cache in every mode, although its documentation says that `keep` does not.
    if query.get("clear_cache").is_none_or(|clear| clear != "false") {
        app.driver.reset_prefix_cache().await;
    }
    Json(json!({"status": "paused"}))
}

/// The part of vLLM's configuration that the simulator knows.
async fn server_info(State(app): State<Arc<App>>) -> Json<Value> {
    let (settings, limits) = (&app.settings, &app.settings.limits);
    let config = json!({
        "model_config": {"model": settings.model, "max_model_len": limits.max_model_len, "seed": settings.seed},
        "cache_config": {
            "block_size": limits.block_size, "gpu_memory_utilization": limits.gpu_memory_utilization,
            "num_gpu_blocks": limits.num_blocks, "enable_prefix_caching": limits.prefix_caching,
        },
        "parallel_config": {
            "tensor_parallel_size": settings.cost.tensor_parallel, "pipeline_parallel_size": settings.cost.pipeline_parallel,
            "data_parallel_size": settings.cost.data_parallel,
        },
        "scheduler_config": {
            "max_num_batched_tokens": limits.max_num_batched_tokens, "max_num_seqs": limits.max_num_seqs,
            "enable_chunked_prefill": limits.chunked_prefill,
        },
        "device_config": {"device": "simulated", "name": settings.cost.gpu.device},
    });
    Json(json!({"vllm_config": config, "simulator": "vsweep"}))
}
