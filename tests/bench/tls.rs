//! The native benchmark over TLS, against a server with a self-signed certificate.

use crate::scripted;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use vsweep::bench::Measurement;
use vsweep::cause::Failure;

/// Starts the server in threads that end with the process. If `closes` is true, it closes each connection after an answer. Returns its URL.
fn start(closes: bool) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("known versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a usable certificate");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            std::thread::spawn(move || serve(stream, config, closes));
        }
    });
    format!("https://localhost:{port}")
}

/// Answers every POST request, whose body ends in `}`, with a stream of many tokens, and every GET request with 404.
fn serve(stream: TcpStream, config: Arc<ServerConfig>, closes: bool) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).expect("a valid configuration");
    let mut stream = StreamOwned::new(connection, stream);
    let (mut request, mut buffer) = (vec![], [0; 65536]);
    loop {
        let n = stream.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..n]);
        if n == 0 {
            return Ok(());
        }
        if request.starts_with(b"GET") && request.ends_with(b"\r\n\r\n") {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            request.clear();
        } else if request.ends_with(b"}") {
            let scripted::Answer::Bytes(pieces) = scripted::completion(500, 7) else {
                unreachable!("pieces")
            };
            pieces.iter().try_for_each(|piece| stream.write_all(piece))?;
            request.clear();
            if closes {
                return Ok(());
            }
        }
    }
}

async fn run(insecure: bool, closes: bool) -> Result<Measurement, Failure> {
    let params = json!({
        "num_prompts": 6, "max_concurrency": 3, "random_input_len": 20_000, "random_output_len": 500, "insecure": insecure,
    });
    scripted::run(&start(closes), params).await
}

#[tokio::test]
async fn requests_and_answers_larger_than_a_record_pass() {
    let result = run(true, false).await.expect("measured").result.to_values();
    assert_eq!((&result["completed"], &result["failed"]), (&json!(6), &json!(0)));
    assert_eq!(result["total_output_tokens"], 3000);
    assert_eq!(result["generator_late_connections"], 0, "handshakes are over before t0");
    assert_eq!(result["generator_connecting_share"], 0.0);
    assert_eq!(
        result["generator_kernel_stamped_share"], 0.0,
        "arrival is read after decryption"
    );
}

#[tokio::test]
async fn waiting_for_handshakes_is_measured() {
    let result = run(true, true).await.expect("measured").result.to_values();
    assert_ne!(result["generator_late_connections"], 0, "{result:?}");
    let share = result["generator_connecting_share"].as_f64().expect("a share");
    assert!(share > 0.0 && share < 1.0, "{share}");
}

#[tokio::test]
async fn an_unknown_certificate_is_refused() {
    let failure = run(false, false).await.expect_err("nobody vouches for it");
    assert!(failure.detail.contains("certificate"), "{}", failure.detail);
}
