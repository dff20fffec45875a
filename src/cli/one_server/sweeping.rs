//! Common parts of `vsweep bench`, `vsweep bench iterations` and `vsweep bench phases`: the server that they measure. The last two also
//! share the loop over their measurements, and the rows of their files.

use crate::bench::params::ServerParams;
use crate::bench::{Job, Measurement, measure};
use crate::cli::output::print_note;
use crate::error::{Error, Exit, Result};
use crate::metrics::RunResult;
use crate::plan::{BenchRunner, Params};
use crate::run::Interrupt;
use crate::server::http::{Silence, body_of, client_for};
use itertools::Itertools;
use reqwest::StatusCode;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time limit for the answer that lists the models.
const MODELS_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for one measurement.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The server that is measured, with the name and root of its model.
pub struct MeasuredServer {
    pub base_url: String,
    pub model: String,
    pub root: String,
}

/// Returns the settings of each load, or an error with the problems of all loads.
pub fn read_each<S>(loads: &[Params], read: fn(&Params) -> Result<S, Vec<String>>) -> Result<Vec<S>> {
    let (settings, wrong): (Vec<S>, Vec<Vec<String>>) = loads.iter().map(read).partition_result();
    let problems: BTreeSet<String> = wrong.into_iter().flatten().collect();
    match problems.is_empty() {
        true => Ok(settings),
        false => Err(Error::Usage(problems.iter().join("\nvsweep: "))),
    }
}

impl MeasuredServer {
    /// Returns the server with the model that the user named, or else the first one that the server lists.
    pub async fn find(server: &ServerParams) -> Result<MeasuredServer> {
        let base_url = server.url();
        if let Some(model) = server.model.clone() {
            let root = model.clone();
            return Ok(MeasuredServer { base_url, model, root });
        }
        let url = format!("{base_url}/v1/models");
        let failed = |why: &dyn Display| {
            Error::Fatal(format!(
                "cannot ask {url} for its models: {why}; start the server, or name the model with --model"
            ))
        };
        let client = client_for(&base_url).tls_danger_accept_invalid_certs(server.insecure);
        let client = client.build().map_err(|error| failed(&error))?;
        let request = client.get(&url).timeout(MODELS_TIMEOUT);
        let headers = server.all_headers(None).into_iter();
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        let answer = request.send().await.map_err(|error| failed(&Silence::from(error)))?;
        match answer.status() {
            StatusCode::OK => {}
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                return Err(Error::Fatal(format!(
                    "{url} answers {status}; set OPENAI_API_KEY, or --header Authorization=..., to a key that the server accepts"
                )));
            }
            status => return Err(failed(&status)),
        }
        let body = body_of(answer).await.map_err(|silence| failed(&silence))?;
        let models: Value = serde_json::from_slice(&body).map_err(|error| failed(&error))?;
        let first = &models["data"][0];
        let Some(id) = first["id"].as_str() else {
            return Err(failed(&"the list is empty"));
        };
        Ok(MeasuredServer {
            base_url,
            model: id.to_owned(),
            root: first["root"].as_str().unwrap_or(id).to_owned(),
        })
    }

    /// Returns the job of measuring the server with these parameters.
    pub fn job(&self, params: Params) -> Job {
        Job::new(&self.base_url, &self.model, &self.root, params)
    }
}

/// Measures each of these named loads, which messages call `kind`. Stops if a load fails with the same message as the load before it. An
/// interrupt leaves no request in flight and no server asleep. It is an error if all loads that were tried failed.
pub async fn measure_each(
    server: &MeasuredServer,
    runner: BenchRunner,
    (kind, loads): (&str, impl IntoIterator<Item = (String, &Params)>),
    interrupt: &mut Interrupt,
    mut measured: impl FnMut(usize, &str, &Measurement) -> Result<()>,
) -> Result<Exit> {
    let (mut is_any_measured, mut has_failed) = (false, false);
    // The failure of the previous load; `None` if it was measured.
    let mut last_failure = None;
    for (index, (what, params)) in loads.into_iter().enumerate() {
        let job = Job {
            runner: runner.clone(),
            timeout: LONGEST,
            ..server.job(with_seed(params))
        };
        let done = interrupt.unless_requested(measure(&job)).await;
        job.counters.take_notes().iter().for_each(print_note);
        let failure = match done {
            None => return Ok(Exit::Interrupted),
            Some(
                Ok(Measurement {
                    failure: Some(failure), ..
                })
                | Err(failure),
            ) => failure,
            Some(Ok(measurement)) => {
                measured(index, &what, &measurement)?;
                is_any_measured = true;
                last_failure = None;
                caution(&what, &measurement);
                continue;
            }
        };
        has_failed = true;
        print_note(format_args!("{what}: {}", failure.detail));
        if last_failure.replace(failure.detail.clone()) == Some(failure.detail) {
            print_note(format_args!("the same message again; further {kind} are left out"));
            break;
        }
    }
    match last_failure {
        Some(failure) if !is_any_measured => Err(Error::Fatal(format!("nothing was measured: {failure}"))),
        _ if has_failed => Ok(Exit::SomeFailed),
        _ => Ok(Exit::Done),
    }
}

/// Adds a seed from the clock unless the user gave one. Prompts then differ from those of earlier runs, which the server may have cached.
fn with_seed(params: &Params) -> Params {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut params = params.clone();
    params.entry("seed").or_insert_with(|| now.subsec_nanos().into());
    params
}

/// Prints the reasons why the figures must be read with care.
fn caution(what: &str, measurement: &Measurement) {
    for warning in warnings_of(&measurement.result) {
        print_note(format_args!("{what}: {warning}"));
    }
    for objection in measurement.objections() {
        print_note(format_args!("{what}: read these figures with care: {objection}"));
    }
}

/// Returns the warnings in a result.
pub fn warnings_of(result: &RunResult) -> impl Iterator<Item = &str> {
    let warnings = result.get("warnings").and_then(Value::as_array);
    warnings.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the entries of a comma list.
pub fn split(text: &str) -> Vec<Value> {
    text.split(',').map(|entry| Value::from(entry.trim())).collect()
}

/// Returns every combination of the values in these lists, each with the other parameters. The last list varies fastest.
pub fn combinations(params: &Params, lists: &[(&str, Vec<Value>)]) -> Vec<Params> {
    let named = |(name, values): &(&str, Vec<Value>)| {
        let named = values.iter().map(|value| ((*name).to_owned(), value.clone()));
        named.collect_vec()
    };
    let combined = lists.iter().map(named).multi_cartesian_product();
    let all = combined.map(|given| params.clone().into_iter().chain(given).collect());
    all.collect()
}

/// Returns a row of a file: these keys, which other tools use, then the rest of the result.
pub fn row<const N: usize>(theirs: [(&str, Value); N], result: &Params) -> Params {
    let mut row: Params = theirs.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
    for (key, value) in result {
        row.entry(key.clone()).or_insert_with(|| value.clone());
    }
    row
}
