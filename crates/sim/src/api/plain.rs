//! Routes that need no engine: health, version, models, tokenization.

use super::error::ApiError;
use super::request::Body;
use super::{App, VERSION};
use crate::settings::Adapter;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vsweep_metrics::rng::mix;

/// `GET /health`: 200, or 503 once the engine is gone.
pub async fn health(State(app): State<Arc<App>>) -> StatusCode {
    match app.is_engine_dead.load(Ordering::Relaxed) {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::OK,
    }
}

/// `GET /version`: names the simulator, so that nobody takes its numbers for measurements.
pub async fn version() -> Json<Value> {
    Json(json!({"version": VERSION, "simulator": "vsweep"}))
}

fn card(app: &App, name: &str) -> Value {
    let created = app.started as u64;
    let permission = json!({
        "id": format!("modelperm-{:016x}", mix(created)), "object": "model_permission", "created": created,
        "allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true, "allow_search_indices": false,
        "allow_view": true, "allow_fine_tuning": false, "organization": "*", "group": null, "is_blocking": false,
    });
    json!({
        "id": name, "object": "model", "created": created, "owned_by": "vllm",
        "root": app.settings.model, "parent": null,
        "max_model_len": app.settings.limits.max_model_len, "permission": [permission],
    })
}

/// The card of an adapter, which names the adapted model as its parent.
fn adapter_card(app: &App, adapter: &Adapter) -> Value {
    let mut card = card(app, &adapter.name);
    card["root"] = adapter.path.as_str().into();
    card["parent"] = app.model_name().into();
    card["max_model_len"] = Value::Null;
    card
}

/// `GET /v1/models`
pub async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    let settings = &app.settings;
    let base = settings.served_names.iter().map(|name| card(&app, name));
    let adapters = settings.adapters.iter().map(|adapter| adapter_card(&app, adapter));
    let cards: Vec<Value> = base.chain(adapters).collect();
    Json(json!({"object": "list", "data": cards}))
}

/// `GET /v1/models/{name}`
pub async fn model(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    Ok(Json(match app.adapter(Some(&name))? {
        Some(adapter) => adapter_card(&app, adapter),
        None => card(&app, &name),
    }))
}

/// `POST /tokenize`, for a prompt or a chat. The contents of a chat are joined without a template.
pub async fn tokenize(State(app): State<Arc<App>>, bytes: Bytes) -> Result<Json<Value>, ApiError> {
    let body = Body::read(&bytes)?;
    app.adapter(body.text("model")?)?;
    let text = match (body.text("prompt")?, body.get("messages").and_then(Value::as_array)) {
        (Some(text), _) => text.to_string(),
        (None, Some(messages)) => messages.iter().filter_map(|m| m.get("content")?.as_str()).collect(),
        (None, None) => body.required("prompt")?.to_string(),
    };
    let special = body.get("add_special_tokens").and_then(Value::as_bool).unwrap_or(true);
    let tokens = app.tokenizer.encode(&text, special);
    let tokens = tokens.map_err(|error| ApiError::bad_request("prompt", error))?;
    let texts = body
        .flag("return_token_strs")?
        .then(|| tokens.iter().map(|id| app.tokenizer.piece(*id)).collect::<Vec<_>>());
    let longest = app.settings.limits.max_model_len;
    Ok(Json(
        json!({"count": tokens.len(), "max_model_len": longest, "tokens": tokens, "token_strs": texts}),
    ))
}

/// `POST /detokenize`
pub async fn detokenize(State(app): State<Arc<App>>, bytes: Bytes) -> Result<Json<Value>, ApiError> {
    let body = Body::read(&bytes)?;
    app.adapter(body.text("model")?)?;
    let list = body.required("tokens")?;
    let refusal = |_| ApiError::invalid("list_type", "body.tokens", "Input should be a valid list", list);
    let ids: Vec<u32> = Vec::deserialize(list).map_err(refusal)?;
    let prompt = app.tokenizer.decode(&ids);
    let prompt = prompt.map_err(|error| ApiError::bad_request("tokens", error))?;
    Ok(Json(json!({"prompt": prompt})))
}
