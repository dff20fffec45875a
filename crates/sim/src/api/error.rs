//! HTTP errors with vLLM's bodies.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Error message of vLLM after its engine has died.
pub const ENGINE_DEAD: &str = "EngineCore encountered an issue. See stack trace (above) for the root cause.";

/// An HTTP error as the answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    /// Name of the field that caused the error, if one did.
    param: Option<String>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        let (message, param) = (message.into(), None);
        ApiError {
            status,
            kind,
            message,
            param,
        }
    }

    fn with_param(self, param: &str) -> Self {
        let param = Some(param.to_owned());
        ApiError { param, ..self }
    }

    /// 400 for a value that has the right type but is not acceptable.
    pub fn bad_request(param: &str, message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequestError", message).with_param(param)
    }

    /// 400 for a body that pydantic would not accept. `found` is the offending value.
    pub fn invalid(kind: &str, location: &str, message: &str, found: &Value) -> Self {
        let found = super::super::flags::python(found);
        Self::validation(
            location,
            format!("{{'type': '{kind}', 'loc': '{location}', 'msg': '{message}', 'input': {found}}}"),
        )
    }

    /// 400 for a body that is not JSON; `at` is the offset of the problem.
    pub fn not_json(at: usize) -> Self {
        let location = format!("body.{at}");
        let detail = format!(
            "{{'type': 'json_invalid', 'loc': '{location}', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', \
             'ctx': {{'error': 'Expecting value'}}}}"
        );
        Self::validation(&location, detail)
    }

    fn validation(location: &str, detail: String) -> Self {
        let message = format!("1 validation error:\n  {detail}");
        ApiError::new(StatusCode::BAD_REQUEST, "Bad Request", message).with_param(location)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::NOT_FOUND, "NotFoundError", message)
    }

    /// 404 for a model that is not served.
    pub fn no_such_model(asked: &str, served: &[String]) -> Self {
        let served = served.join(", ");
        ApiError::not_found(format!("The model `{asked}` does not exist. Valid aliases: {served}.")).with_param("model")
    }

    /// 401.
    pub fn unauthorized() -> Self {
        ApiError::new(StatusCode::UNAUTHORIZED, "UnauthorizedError", "Unauthorized")
    }

    /// 429, as from an overloaded server, or from a proxy in front of it.
    pub fn too_many() -> Self {
        let message = "The server is overloaded, please retry later.";
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequestsError", message)
    }

    /// 500.
    pub fn internal(message: &str) -> Self {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.status.as_u16(),
        }});
        (self.status, Json(body)).into_response()
    }
}
