//! What `vsweep iterations` and `vsweep phases` share: the server they measure, and one measurement after the other until
//! the user has had enough.

use super::bench::first_model;
use super::output::tell;
use crate::bench::params::server::ServerParams;
use crate::bench::{Job, Measurement, measure};
use crate::error::{Error, Result};
use crate::plan::{BenchRunner, Params};
use crate::run::Interrupt;
use itertools::Itertools;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limit for one measurement.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The server, and the model's name and root there.
pub struct MeasuredServer {
    pub base_url: String,
    pub model: String,
    pub root: String,
}

/// How the measurements went.
pub enum Ended {
    Interrupted,
    /// With what failed last, if anything did.
    Through(Option<String>),
}

/// The settings of each load, or all that is wrong with any of them.
pub fn read_each<S>(loads: &[Params], read: fn(&Params) -> Result<S, Vec<String>>) -> Result<Vec<S>> {
    let (settings, wrong): (Vec<S>, Vec<Vec<String>>) = loads.iter().map(read).partition_result();
    let problems: BTreeSet<String> = wrong.into_iter().flatten().collect();
    match problems.is_empty() {
        true => Ok(settings),
        false => Err(Error::Usage(problems.iter().join("\nvsweep: "))),
    }
}

/// Asks the server for its first model, unless the user named one.
pub async fn find(params: &ServerParams) -> Result<MeasuredServer> {
    let (model, root) = match &params.model {
        Some(model) => (model.clone(), model.clone()),
        None => first_model(params).await?,
    };
    Ok(MeasuredServer {
        base_url: params.url(),
        model,
        root,
    })
}

/// Measures each of these loads, which people call `kind`, by its name. One that fails as the one before did is the last. An interrupt
/// ends it in order: nothing is left in flight, no server is left asleep.
pub async fn measure_each(
    server: &MeasuredServer,
    runner: &BenchRunner,
    (kind, loads): (&str, impl IntoIterator<Item = (String, &Params)>),
    interrupt: &mut Interrupt,
    mut measured: impl FnMut(usize, &str, &Measurement) -> Result<()>,
) -> Result<Ended> {
    let mut last_failure = None;
    for (place, (what, params)) in loads.into_iter().enumerate() {
        let job = Job {
            runner: runner.clone(),
            timeout: LONGEST,
            ..Job::new(&server.base_url, &server.model, &server.root, with_seed(params))
        };
        let done = tokio::select! {
            done = measure(&job) => Some(done),
            () = interrupt.requested() => None,
        };
        job.counters.take_notes().iter().for_each(tell);
        let failure = match done {
            None => return Ok(Ended::Interrupted),
            Some(
                Ok(Measurement {
                    failure: Some(failure), ..
                })
                | Err(failure),
            ) => failure,
            Some(Ok(measurement)) => {
                measured(place, &what, &measurement)?;
                caution(&what, &measurement);
                continue;
            }
        };
        tell(format_args!("{what}: {}", failure.detail));
        if last_failure.replace(failure.detail.clone()) == Some(failure.detail) {
            tell(format_args!("the same again; the other {kind} are left out"));
            break;
        }
    }
    Ok(Ended::Through(last_failure))
}

/// Prompts differ from run to run unless the user gave a seed: a server may still know those of the last one.
fn with_seed(params: &Params) -> Params {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut params = params.clone();
    params.entry("seed").or_insert_with(|| now.subsec_nanos().into());
    params
}

/// Says on standard error why figures must be read with care.
fn caution(what: &str, measurement: &Measurement) {
    let warnings = measurement.result.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten() {
        tell(format_args!("{what}: {}", warning.as_str().unwrap_or_default()));
    }
    for objection in measurement.objections() {
        tell(format_args!("{what}: read these figures with care: {objection}"));
    }
}

/// The entries of a comma list, or the one value.
pub fn entries(params: &Params, name: &str) -> Vec<Value> {
    match params.get(name) {
        Some(Value::String(text)) => text.split(',').map(|entry| Value::from(entry.trim())).collect(),
        Some(value) => vec![value.clone()],
        None => Vec::new(),
    }
}
