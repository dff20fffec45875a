//! The routes that vLLM has in development mode (`VLLM_SERVER_DEV_MODE=1`): cache resets, sleep, pause, server info.

use super::App;
use crate::sim::driver::Command;
use crate::sim::fault::Fault;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

/// The routes.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/reset_prefix_cache", post(reset_prefix_cache))
        .route("/reset_mm_cache", post(nothing))
        .route("/reset_encoder_cache", post(nothing))
        .route("/start_profile", post(nothing))
        .route("/stop_profile", post(nothing))
        .route("/sleep", post(sleep))
        .route("/wake_up", post(wake_up))
        .route("/is_sleeping", get(is_sleeping))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/is_paused", get(is_paused))
        .route("/server_info", get(server_info))
        .route("/get_world_size", get(world_size))
}

async fn nothing() -> StatusCode {
    StatusCode::OK
}

async fn reset_prefix_cache(State(app): State<Arc<App>>) -> Json<Value> {
    let number = app.resets.fetch_add(1, Ordering::Relaxed);
    let refused = app
        .settings
        .faults
        .iter()
        .any(|fault| matches!(fault, Fault::ResetRefused(count) if number < *count));
    let (answer, success) = oneshot::channel();
    app.driver.send(Command::ResetPrefixCache(answer));
    let success = success.await.unwrap_or(false) && !refused;
    Json(json!({"success": success}))
}

fn set_sleep(app: &App, level: u64) {
    app.sleep_level.store(level, Ordering::Relaxed);
    app.driver
        .send(Command::Pause(level > 0 || app.paused.load(Ordering::Relaxed)));
}

async fn sleep(State(app): State<Arc<App>>, Query(query): Query<HashMap<String, String>>) -> Json<Value> {
    let level = query.get("level").and_then(|level| level.parse().ok()).unwrap_or(1);
    set_sleep(&app, level);
    Json(json!({"status": "sleeping", "level": level}))
}

async fn wake_up(State(app): State<Arc<App>>) -> Json<Value> {
    set_sleep(&app, 0);
    Json(json!({"status": "awake", "tags": null}))
}

async fn is_sleeping(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"is_sleeping": app.sleep_level.load(Ordering::Relaxed) > 0}))
}

fn set_paused(app: &App, paused: bool) {
    app.paused.store(paused, Ordering::Relaxed);
    set_sleep(app, app.sleep_level.load(Ordering::Relaxed));
}

async fn pause(State(app): State<Arc<App>>) -> Json<Value> {
    set_paused(&app, true);
    Json(json!({"status": "paused"}))
}

async fn resume(State(app): State<Arc<App>>) -> Json<Value> {
    set_paused(&app, false);
    Json(json!({"status": "resumed"}))
}

async fn is_paused(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"is_paused": app.paused.load(Ordering::Relaxed)}))
}

async fn world_size(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"world_size": app.settings.cost.tensor_parallel * app.settings.pipeline_parallel}))
}

/// The part of vLLM's configuration that the simulator knows.
async fn server_info(State(app): State<Arc<App>>) -> Json<Value> {
    let (settings, limits) = (&app.settings, &app.settings.limits);
    let config = json!({
        "model_config": {"model": settings.model, "max_model_len": limits.max_model_len, "seed": settings.seed},
        "cache_config": {
            "block_size": limits.block_size, "gpu_memory_utilization": settings.gpu_memory_utilization,
            "num_gpu_blocks": limits.num_blocks, "enable_prefix_caching": limits.prefix_caching,
        },
        "parallel_config": {
            "tensor_parallel_size": settings.cost.tensor_parallel, "pipeline_parallel_size": settings.pipeline_parallel,
            "data_parallel_size": settings.data_parallel,
        },
        "scheduler_config": {
            "max_num_batched_tokens": limits.max_num_batched_tokens, "max_num_seqs": limits.max_num_seqs,
            "enable_chunked_prefill": limits.chunked_prefill,
        },
        "device_config": {"device": "simulated", "name": settings.cost.gpu.device},
    });
    Json(json!({"vllm_config": config, "simulator": "vsweep"}))
}
