//! What `vsweep iterations` and `vsweep phases` share: the server they measure, and one measurement after the other until
//! the user has had enough.

use super::bench::first_model;
use super::output::tell;
use crate::bench::params::server::ServerParams;
use crate::bench::{Job, Measurement, Runner, measure};
use crate::cause::Failure;
use crate::error::Result;
use crate::plan::Params;
use crate::run::Interrupt;
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limit for one measurement.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The server, and the model's name and root there.
pub struct MeasuredServer {
    pub base_url: String,
    pub model: String,
    pub root: String,
}

/// How one measurement went.
pub enum Done {
    Measured(Box<Measurement>),
    Failed(Failure),
    Interrupted,
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

/// Performs one measurement. An interrupt ends it in order: nothing is left in flight, no server is left asleep.
pub async fn perform(server: &MeasuredServer, runner: Runner, params: &Params, interrupt: &mut Interrupt) -> Done {
    let job = Job {
        runner,
        timeout: LONGEST,
        ..Job::new(&server.base_url, &server.model, &server.root, with_seed(params))
    };
    let done = tokio::select! {
        measured = measure(&job) => match measured {
            Ok(Measurement {
                failure: Some(failure),
                ..
            })
            | Err(failure) => Done::Failed(failure),
            Ok(measurement) => Done::Measured(Box::new(measurement)),
        },
        () = interrupt.requested() => Done::Interrupted,
    };
    for note in job.counters.take_notes() {
        tell(note);
    }
    done
}

/// Prompts differ from run to run unless the user gave a seed: a server may still know those of the last one.
fn with_seed(params: &Params) -> Params {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut params = params.clone();
    params.entry("seed").or_insert_with(|| now.subsec_nanos().into());
    params
}

/// Says on standard error why figures must be read with care.
pub fn caution(what: &str, measurement: &Measurement) {
    for warning in measurement
        .result
        .get("warnings")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
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
