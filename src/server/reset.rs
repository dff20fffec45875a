//! Empties a server's caches between runs, through its development routes or by a command of the user.

use super::http::{Http, Silence};
use super::process::guarded::{self, Order};
use crate::plan::{Program, ServeCommand};
use crate::shell::shell_line;
use reqwest::StatusCode;
use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;
use tokio::time::sleep;

/// The routes that empty vLLM's caches, in the order in which they are called; only the first must exist.
const ROUTES: [&str; 3] = ["/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"];
/// The route that empties SGLang's cache.
const SGLANG_ROUTES: [&str; 1] = ["/flush_cache"];
/// Time limit of one request.
const LIMIT: Duration = Duration::from_secs(30);
/// Waits before the next tries, in milliseconds. A busy server refuses a reset.
const WAITS_MS: [u64; 6] = [50, 100, 250, 500, 1000, 2000];
/// Time limit of the user's command.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);
/// Time from TERM to KILL of the user's command.
const COMMAND_GRACE: Duration = Duration::from_secs(2);

/// Returns the routes that empty the caches of the server of a command line, vLLM's if there is none.
pub fn routes_of(argv: &[String]) -> &'static [&'static str] {
    match ServeCommand::of(argv).program() {
        Program::Sglang => &SGLANG_ROUTES,
        _ => &ROUTES,
    }
}

/// Calls these routes in turn, each again if it is refused. All but the first may be missing. `Err` says what was refused.
pub(super) async fn caches(http: &Http, routes: &[impl AsRef<str>]) -> Result<(), String> {
    caches_within(http, routes, LIMIT).await
}

async fn caches_within(http: &Http, routes: &[impl AsRef<str>], limit: Duration) -> Result<(), String> {
    for (i, route) in routes.iter().map(AsRef::as_ref).enumerate() {
        let mut waits = WAITS_MS.into_iter();
        loop {
            let refusal = match http.post(route, limit).await {
                Ok(answer) if answer.status.is_success() && answer.json()["success"] != false => break,
                Ok(answer) if answer.status == StatusCode::NOT_FOUND && i > 0 => break,
                Ok(answer) if answer.status == StatusCode::NOT_FOUND => {
                    let remedy = match ROUTES.contains(&route) {
                        true => "start it with VLLM_SERVER_DEV_MODE=1",
                        false => "correct serve.reset",
                    };
                    return Err(format!("the server has no {route}; {remedy}"));
                }
                Ok(answer) if answer.status.is_success() => format!("{route} was refused"),
                Ok(answer) => format!("{route} answered {}", answer.status.as_u16()),
                // Every further try may be as long.
                Err(Silence::TimedOut) => return Err(format!("{route}: {}", Silence::TimedOut)),
                Err(silence) => format!("{route}: {silence}"),
            };
            match waits.next() {
                Some(wait) => sleep(Duration::from_millis(wait)).await,
                None => return Err(refusal),
            }
        }
    }
    Ok(())
}

/// Runs the user's command, which finds the server's address in `VSWEEP_BASE_URL`.
pub(super) async fn command(argv: &[String], base_url: &str) -> Result<(), String> {
    let env = BTreeMap::from([("VSWEEP_BASE_URL".to_owned(), base_url.to_owned())]);
    let log = File::options().write(true).open("/dev/null");
    let order = Order {
        argv,
        env: &env,
        without: &[],
        cpus: None,
        log: log.map_err(|error| format!("/dev/null: {error}"))?,
        grace: COMMAND_GRACE,
        stop: &[],
    };
    let ended = guarded::run_to_end(order, COMMAND_LIMIT, std::future::pending()).await;
    ended.map_err(|why| format!("the reset command `{}` {why}", shell_line(argv)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_asked_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let http = Http::new(&url, None);
        let refusal = caches_within(&http, &ROUTES, Duration::from_millis(100)).await;
        assert_eq!(refusal.expect_err("silence"), "/reset_prefix_cache: no answer in time");
        listener.set_nonblocking(true).expect("set");
        assert_eq!(std::iter::from_fn(|| listener.accept().ok()).count(), 1);
    }
}
