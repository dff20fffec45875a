//! Waits until a server is ready: its process is alive, its health route answers 200, `/v1/models` lists the model that the command line
//! names, and the log holds the plan's `ready_pattern`, if there is one.

use super::http::{Http, HttpAnswer, Silence};
use super::identity::{read_version, text};
use super::process::procfs::{self, Listener};
use super::{Identity, Launch, Process, Server};
use crate::cause::{Cause, Failure};
use crate::plan::ServeCommand;
use crate::units::show_duration;
use nix::unistd::geteuid;
use reqwest::StatusCode;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::net::lookup_host;
use tokio::time::{sleep, sleep_until, timeout};

/// Time limit for one probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// First wait between probes of the health route. Each wait is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Longest wait between probes.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Time for which the health route may refuse requests, as a proxy does before its server is up.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// Time that a healthy server has to list its models.
const MODELS_TIMEOUT: Duration = Duration::from_secs(10);

impl Server {
    /// Waits until the server is healthy and serves the expected model.
    ///
    /// # Errors
    ///
    /// The reason why it is not ready: it ended, its time is over, or another server answers.
    pub async fn ready(&mut self) -> Result<Identity, Failure> {
        let (http, base_url, limit) = (&self.http, self.http.base_url(), self.ready_timeout);
        let mut seen = last_answer(http, "nothing yet");
        let Some(process) = &mut self.process else {
            let identified = timeout(limit, identify(http, &[], &mut seen)).await;
            return identified.unwrap_or_else(|_| {
                let detail = format!(
                    "no healthy server at {base_url} within {}; {seen}",
                    show_duration(limit)
                );
                Err(Failure::new(Cause::ReadyTimeout, detail))
            });
        };
        let expected = ServeCommand::of(&process.launch.argv).model_names();
        let identity = tokio::select! {
            failure = process.ended() => return Err(failure),
            outcome = async {
                let identity = identify(http, &expected, &mut seen).await?;
                await_ready_pattern(&process.launch).await;
                Ok::<_, Failure>(identity)
            } => outcome?,
            () = sleep_until((process.launched + limit).into()) => {
                let last = super::diagnose::last_line(&process.launch.log);
                let detail = format!("not ready after {}; the last line of its log: {last}", show_duration(limit));
                return Err(Failure::new(Cause::ReadyTimeout, detail));
            }
        };
        require_ours(process, base_url).await?;
        process.ready_at = Some(process.launch.log.metadata().map_or(0, |meta| meta.len()));
        Ok(identity)
    }
}

/// Waits until the log holds the plan's `ready_pattern`, if it has one.
async fn await_ready_pattern(launch: &Launch) {
    if let Some(text) = &launch.protocol.ready_pattern {
        while !super::diagnose::read_log(&launch.log, 0)
            .lines()
            .any(|line| line.contains(text))
        {
            sleep(LONGEST_WAIT / 4).await;
        }
    }
}

/// Waits until the server is healthy, then reads its identity. Never resolves while the server may still become healthy, so callers set a
/// time limit; `seen` then says what is missing, and the last answer of its route.
async fn identify(http: &Http, expected: &[&str], seen: &mut String) -> Result<Identity, Failure> {
    let base_url = http.base_url();
    let mut wait = FIRST_WAIT;
    let mut refused_since = None;
    loop {
        let answer = http.health(PROBE_TIMEOUT).await;
        let said = shown(&answer);
        *seen = last_answer(http, &said);
        let refusal = match answer {
            Ok(answer) if answer.status == StatusCode::OK => break,
            Ok(answer) => refusal(answer.status),
            Err(_) => None,
        };
        refused_since = refusal.map(|_| refused_since.unwrap_or_else(Instant::now));
        if let Some((why, since)) = refusal.zip(refused_since)
            && since.elapsed() >= REFUSAL_LIMIT
        {
            let detail = format!("{base_url}{} answers {said}; {why}", http.health_route());
            return Err(Failure::new(Cause::WrongServer, detail));
        }
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    let healthy = Instant::now();
    let lists_none = |said: &str| format!("it lists no models at /v1/models: {said}");
    *seen = lists_none("nothing yet");
    let models = loop {
        let answer = http.get("/v1/models", PROBE_TIMEOUT).await;
        *seen = lists_none(&shown(&answer));
        match answer.map(|answer| listed_models(&answer)) {
            Ok(Some(models)) => break models,
            Ok(None) if healthy.elapsed() > MODELS_TIMEOUT => {
                let detail = format!("the server at {base_url} lists no models at /v1/models");
                return Err(Failure::new(Cause::WrongServer, detail));
            }
            _ => sleep(LONGEST_WAIT).await,
        }
    };
    let Some(first) = models.first().filter(|_| serves(&models, expected)) else {
        let ids: Vec<&str> = models.iter().filter_map(|model| model["id"].as_str()).collect();
        let detail = format!(
            "{base_url} serves {} instead of {}",
            ids.join(", "),
            expected.join(", ")
        );
        return Err(Failure::new(Cause::WrongServer, detail));
    };
    let (version, simulated) = read_version(http).await;
    let served_model = text(&first["id"]).unwrap_or_default();
    Ok(Identity {
        names: models.iter().filter_map(|model| text(&model["id"])).collect(),
        model_root: text(&first["root"]).unwrap_or_else(|| served_model.clone()),
        served_model,
        max_model_len: first["max_model_len"].as_u64(),
        simulated,
        version,
    })
}

/// Returns a clause about the health route and what it said last.
fn last_answer(http: &Http, said: &str) -> String {
    format!("the last answer of {}: {said}", http.health_route())
}

/// Returns the status of an answer, or the reason why there is none.
fn shown(answer: &Result<HttpAnswer, Silence>) -> String {
    match answer {
        Ok(answer) => format!("HTTP {}", answer.status.as_u16()),
        Err(silence) => silence.to_string(),
    }
}

/// Returns an explanation or a remedy if the answer of the health route will not change by waiting.
fn refusal(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some("set OPENAI_API_KEY to a key that it accepts"),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => None,
        status => status
            .is_client_error()
            .then_some("this is not a server with vLLM's API"),
    }
}

/// The entries of `/v1/models`, if the answer is a list with at least one model.
fn listed_models(answer: &HttpAnswer) -> Option<Vec<Value>> {
    let models = answer.json()["data"].as_array()?.clone();
    (answer.status.is_success() && models.iter().any(|model| model["id"].is_string())).then_some(models)
}

/// Returns true if a served model has one of the expected names as its id or root. Without expected names, any model will do.
fn serves(models: &[Value], expected: &[&str]) -> bool {
    let same = |found: &Value, name: &&str| {
        found
            .as_str()
            .is_some_and(|found| found.trim_end_matches('/') == name.trim_end_matches('/'))
    };
    let fits = |model: &Value| {
        expected
            .iter()
            .any(|name| same(&model["id"], name) || same(&model["root"], name))
    };
    expected.is_empty() || models.iter().any(fits)
}

/// Fails if the process that listens is older than our guard. Such a process took the port after the port was found free, and before our
/// server did. A process that cannot be inspected is accepted if the command may have started it: as another user, or in a container. It is
/// not accepted if it is this user's, as a server in another container with the same network is.
async fn require_ours(process: &Process, base_url: &str) -> Result<(), Failure> {
    let address = base_url.rsplit("//").next().unwrap_or(base_url);
    let found: Vec<SocketAddr> = lookup_host(address).await.map(Iterator::collect).unwrap_or_default();
    let ips: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    let holder = found.first().and_then(|at| procfs::listener(&ips, at.port()));
    let guard = process
        .commands
        .last()
        .and_then(|(_, guarded)| procfs::process(guarded.guard()));
    let Some((guard, holder)) = guard.zip(holder) else {
        return Ok(());
    };
    let is_older = |pid: i32| procfs::process(pid).is_some_and(|holder| holder.started < guard.started);
    let is_foreign = |user: u32| {
        process.launch.protocol.stop_command.is_empty()
            && user == geteuid().as_raw()
            && procfs::shows_listeners(guard.pid)
    };
    let other = match holder {
        Listener::Process(pid) if is_older(pid) => format!("process {pid} ({})", procfs::program_name(pid)),
        Listener::Hidden(user) if is_foreign(user) => "a process that cannot be seen from here".to_owned(),
        _ => return Ok(()),
    };
    Err(Failure::new(
        Cause::WrongServer,
        format!("{base_url} is served by {other}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn id_or_root_must_fit() {
        let models = [json!({"id": "tiny", "root": "/models/tiny-llama"})];
        let fits = |name: &str| serves(&models, &[name]);
        assert!(fits("tiny") && fits("/models/tiny-llama/"));
        assert!(!fits("other"));
        assert!(serves(&models, &[]));
    }

    #[test]
    fn only_a_filled_list_counts() {
        let answer = |status, body: &str| HttpAnswer {
            status: StatusCode::from_u16(status).expect("a status"),
            body: body.into(),
        };
        assert!(listed_models(&answer(200, r#"{"data":[{"id":"m"}]}"#)).is_some());
        assert!(listed_models(&answer(503, r#"{"data":[{"id":"m"}]}"#)).is_none());
        for body in ["", "[]", "{}", r#"{"data":[]}"#, r#"{"data":[1]}"#] {
            assert!(listed_models(&answer(200, body)).is_none(), "{body}");
        }
    }
}
