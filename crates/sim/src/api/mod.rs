//! The HTTP interface, modelled on the answers of a real vLLM 0.32. Each group of routes has a file. This one has what they share: the
//! state, the router, the headers that uvicorn sends and its access log.

mod answer;
mod dev;
mod error;
mod generate;
mod metrics;
mod plain;
mod request;
mod stream;

use self::error::ApiError;
use super::driver::EngineHandle;
use super::log;
use super::settings::{Adapter, ServerSettings};
use super::tokenizer::Tokenizer;
use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// The version of vLLM that is imitated.
pub const VERSION: &str = "0.32.0";

/// State shared by all routes.
pub struct App {
    /// Settings of the server.
    pub settings: ServerSettings,
    /// Converts texts to tokens and back.
    pub tokenizer: Tokenizer,
    /// The running engines.
    pub driver: EngineHandle,
    /// True if the engine process has died.
    pub is_engine_dead: AtomicBool,
    /// True if the server no longer answers anything.
    pub is_mute: AtomicBool,
    /// True while scheduling is paused, or about to be.
    pub is_paused: AtomicBool,
    /// True while earlier requests finish before a pause.
    pub is_draining: watch::Sender<bool>,
    /// Number of requests for text so far. This number decides the random faults of the next request.
    pub requests: AtomicU64,
    /// Number of requests for text that are not yet answered.
    pub in_flight: AtomicU64,
    /// Number of resets of the prefix cache so far.
    pub resets: AtomicU64,
    /// Time at which the server started, in seconds since 1970, to a hundredth.
    pub started: f64,
    /// `system_fingerprint` of answers, which identifies the configuration.
    pub fingerprint: String,
}

impl App {
    /// Name of the model in answers to requests that ask for no adapter.
    pub fn model_name(&self) -> &str {
        self.settings.served_names.first().map_or("", String::as_str)
    }

    /// Returns the adapter that a request asks for, or `None` if it asks for the model itself.
    ///
    /// # Errors
    ///
    /// 404 for a model that is not served.
    fn adapter(&self, asked: Option<&str>) -> Result<Option<&Adapter>, ApiError> {
        let (settings, Some(asked)) = (&self.settings, asked) else {
            return Ok(None);
        };
        let adapter = settings.adapters.iter().find(|adapter| adapter.name == asked);
        match adapter.is_some() || settings.served_names.iter().any(|served| served == asked) {
            true => Ok(adapter),
            false => Err(ApiError::no_such_model(asked, &settings.served_names)),
        }
    }
}

/// Seconds since 1970.
pub fn unix_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

/// All routes of the server.
pub fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/health", get(plain::health))
        .route("/ping", get(plain::health).post(plain::health))
        .route("/version", get(plain::version))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/models", get(plain::models))
        .route("/v1/models/{*name}", get(plain::model))
        .route("/v1/completions", post(generate::completions))
        .route("/v1/chat/completions", post(generate::chat))
        .route("/tokenize", post(plain::tokenize))
        .route("/detokenize", post(plain::detokenize));
    if app.settings.dev_mode {
        router = router.merge(dev::router());
    }
    router
        .fallback(|| async { ApiError::not_found("Not Found").into_response() })
        .layer(from_fn_with_state(app.clone(), middleware))
        .layer(axum::extract::DefaultBodyLimit::max(256 << 20))
        .with_state(app)
}

/// Handles every request: checks its key, and adds uvicorn's headers and access log. A mute server never answers.
async fn middleware(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if app.is_mute.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    let is_logged = app.settings.access_log;
    let line = is_logged.then(|| format!("{} {}", request.method(), request.uri()));
    let mut response = match authorized(&app, &request) {
        true => next.run(request).await,
        false => ApiError::unauthorized().into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("uvicorn"));
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(line) = line {
        log::uvicorn(&format!("{peer} - \"{line} HTTP/1.1\" {}", response.status()));
    }
    response
}

/// Returns true if the request may be answered. As in vLLM, only routes below `/v1` need a key.
fn authorized(app: &App, request: &Request) -> bool {
    let keys = &app.settings.api_keys;
    if keys.is_empty() || !request.uri().path().starts_with("/v1") {
        return true;
    }
    let given = request.headers().get(header::AUTHORIZATION);
    let key = given.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    key.is_some_and(|key| keys.iter().any(|known| known == key))
}
