//! Small requests to a server's control routes. Each has a time limit, and none keeps its connection open, because an open connection can
//! prevent a server from ending.

use nix::errno::Errno;
use reqwest::StatusCode;
use serde_json::Value;
use std::fmt;
use std::io;
use std::sync::Once;
use std::time::Duration;

/// Longest body that is read, in bytes: several times `/metrics` of many engines.
const LONGEST_BODY: usize = 8 << 20;

/// An HTTP client for one server.
#[derive(Debug, Clone)]
pub struct Http {
    /// The client, or the reason why it could not be built. Every request then fails with this reason.
    client: Result<reqwest::Client, String>,
    base_url: String,
    /// The health route.
    health: String,
}

/// A complete answer, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// HTTP status.
    pub status: StatusCode,
    /// The body as text; invalid UTF-8 is replaced.
    pub body: String,
}

/// Reason for a missing answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// The connection was refused or broke.
    NoConnection(String),
    /// This machine has no more open files, which says nothing about the server.
    OutOfFiles(String),
    /// The time limit passed without an answer.
    TimedOut,
    /// The body is too long to be read.
    TooLong,
}

impl From<reqwest::Error> for Silence {
    fn from(error: reqwest::Error) -> Silence {
        let system_error = innermost(&error).downcast_ref().and_then(io::Error::raw_os_error);
        match system_error.map(Errno::from_raw) {
            _ if error.is_timeout() => Silence::TimedOut,
            Some(Errno::EMFILE | Errno::ENFILE) => Silence::OutOfFiles(root_cause(&error)),
            _ => Silence::NoConnection(root_cause(&error)),
        }
    }
}

/// Installs ring as the TLS provider of the process. Needed before the first reqwest client is built; later calls do nothing.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Returns the builder of a reqwest client for the server at `base_url`.
pub fn client_for(base_url: &str) -> reqwest::ClientBuilder {
    install_tls();
    // A redirect would lead to another server's answer, and a referrer would reveal a route that may contain a secret.
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false);
    if is_loopback(base_url) {
        builder = builder.no_proxy();
    }
    if !base_url.starts_with("https:") {
        // Without TLS, the system's certificates are not needed; a minimal container has none.
        builder = builder.tls_certs_only([]);
    }
    builder
}

impl Http {
    /// Returns a client for the server at `base_url` (no trailing slash). The key is sent as a bearer token.
    pub fn new(base_url: &str, api_key: Option<&str>) -> Http {
        let mut builder = client_for(base_url).pool_max_idle_per_host(0);
        if let Some(mut value) =
            api_key.and_then(|key| format!("Bearer {key}").parse::<reqwest::header::HeaderValue>().ok())
        {
            value.set_sensitive(true);
            builder = builder.default_headers([(reqwest::header::AUTHORIZATION, value)].into_iter().collect());
        }
        let client = builder.build().map_err(|error| root_cause(&error));
        Http {
            client,
            base_url: base_url.to_owned(),
            health: "/health".to_owned(),
        }
    }

    /// The address of the server, such as `http://127.0.0.1:8000`, without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Sets another health route.
    pub fn with_health(self, route: &str) -> Http {
        Http {
            health: route.to_owned(),
            ..self
        }
    }

    /// The health route.
    pub fn health_route(&self) -> &str {
        &self.health
    }

    /// Sends GET to the health route.
    pub async fn health(&self, limit: Duration) -> Result<HttpAnswer, Silence> {
        self.get(&self.health, limit).await
    }

    /// Sends GET. The whole answer must arrive within the limit.
    pub async fn get(&self, path: &str, limit: Duration) -> Result<HttpAnswer, Silence> {
        self.send(self.request(reqwest::Method::GET, path)?, limit).await
    }

    /// Like `get`, but `None` unless the answer is a success.
    pub async fn page(&self, path: &str, limit: Duration) -> Option<HttpAnswer> {
        self.get(path, limit).await.ok()?.success()
    }

    /// Sends POST without a body. The whole answer must arrive within the limit.
    pub async fn post(&self, path: &str, limit: Duration) -> Result<HttpAnswer, Silence> {
        self.send(self.request(reqwest::Method::POST, path)?, limit).await
    }

    /// Sends POST with JSON. The whole answer must arrive within the limit.
    pub async fn ask(&self, path: &str, body: &Value, limit: Duration) -> Result<HttpAnswer, Silence> {
        let request = self.request(reqwest::Method::POST, path)?.json(body);
        self.send(request, limit).await
    }

    fn request(&self, method: reqwest::Method, path: &str) -> Result<reqwest::RequestBuilder, Silence> {
        let client = self
            .client
            .as_ref()
            .map_err(|error| Silence::NoConnection(error.clone()))?;
        Ok(client.request(method, format!("{}{path}", self.base_url)))
    }

    async fn send(&self, request: reqwest::RequestBuilder, limit: Duration) -> Result<HttpAnswer, Silence> {
        let response = request.timeout(limit).send().await?;
        let status = response.status();
        let body = String::from_utf8_lossy(&body_of(response).await?).into_owned();
        Ok(HttpAnswer { status, body })
    }
}

/// Returns the whole body of a response, or [`Silence::TooLong`] if it exceeds the limit.
pub async fn body_of(mut response: reqwest::Response) -> Result<Vec<u8>, Silence> {
    let mut body = vec![];
    while let Some(piece) = response.chunk().await? {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST_BODY {
            return Err(Silence::TooLong);
        }
    }
    Ok(body)
}

impl HttpAnswer {
    /// Returns the answer if its status is a success.
    pub fn success(self) -> Option<HttpAnswer> {
        self.status.is_success().then_some(self)
    }

    /// The body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Silence::NoConnection(what) | Silence::OutOfFiles(what) => f.write_str(what),
            Silence::TimedOut => f.write_str("no answer in time"),
            Silence::TooLong => write!(f, "the answer is longer than {} MiB", LONGEST_BODY >> 20),
        }
    }
}

/// Returns the text of the innermost error: "Connection refused (os error 111)" instead of "error sending request".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    innermost(error).to_string()
}

fn innermost<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner
}

/// Returns true if the host of a URL is a loopback address.
pub fn is_loopback(base_url: &str) -> bool {
    let host = reqwest::Url::parse(base_url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| {
        let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised() {
        for url in ["http://127.0.0.1:8000", "http://localhost:1", "http://[::1]:2"] {
            assert!(is_loopback(url), "{url}");
        }
        assert!(!is_loopback("http://node7:8000"));
        assert!(!is_loopback("nonsense"));
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_nobody_else_is_asked() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let elsewhere = url.clone();
        let asked = tokio::spawn(async move {
            for count in 1.. {
                let Ok(Ok((mut stream, _))) = tokio::time::timeout(Duration::from_millis(500), listener.accept()).await
                else {
                    return count - 1;
                };
                let head = format!("HTTP/1.1 302 Found\r\nlocation: {elsewhere}/other\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(head.as_bytes()).await;
            }
            0
        });
        let answer = Http::new(&url, None)
            .get("/health?api_key=S", Duration::from_secs(5))
            .await;
        assert_eq!(answer.expect("an answer").status, StatusCode::FOUND);
        assert_eq!(asked.await.expect("served"), 1);
    }

    #[tokio::test]
    async fn an_answer_without_end_is_cut() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let http = Http::new(&format!("http://{}", listener.local_addr().expect("bound")), None);
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            stream.read_u8().await?;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")
                .await?;
            loop {
                stream.write_all(&[b' '; 1 << 16]).await?;
            }
            // Names the type of the block's result.
            #[allow(unreachable_code)]
            std::io::Result::Ok(())
        });
        assert_eq!(
            http.get("/metrics", Duration::from_secs(60)).await,
            Err(Silence::TooLong)
        );
    }

    #[tokio::test]
    async fn a_refused_connection_says_so() {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|s| s.local_addr())
            .expect("a free port")
            .port();
        let http = Http::new(&format!("http://127.0.0.1:{port}"), None);
        let silence = http
            .get("/health", Duration::from_secs(5))
            .await
            .expect_err("nobody listens");
        assert!(
            matches!(&silence, Silence::NoConnection(what) if what.contains("refused")),
            "{silence:?}"
        );
    }
}
