//! `vsweep bench`: one native benchmark. Its flags are those of `vllm bench serve`, made from the native benchmark's
//! table of parameters.

use crate::bench::flags::{self, REFUSED};
use crate::bench::settings::Settings;
use crate::bench::{Counters, Job, Measurement, console, file, measure, pytorch};
use crate::error::{Error, Exit, Result};
use crate::metrics::RunResult;
use crate::plan::Params;
use crate::server::http::client_for;
use clap::{ArgMatches, Command, FromArgMatches};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What `vllm bench serve` reports unless told otherwise.
const DEFAULTS: [(&str, &str); 2] = [("percentile_metrics", "ttft,tpot,itl"), ("metric_percentiles", "99")];
const LONGEST_RUN: Duration = Duration::from_secs(7 * 24 * 3600);

/// Run one benchmark with the native load generator; flags as in vllm bench serve
#[derive(Debug)]
pub struct Args {
    params: Params,
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let command = command.about("Run one benchmark with the native load generator; flags as in vllm bench serve");
        let command = REFUSED.iter().fold(command, |command, (name, _)| {
            let argument = clap::Arg::new(*name).long(name.replace('_', "-")).alias(name);
            command.arg(argument.num_args(0..).hide(true))
        });
        super::flags::augment(command, flags::all())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut params = super::flags::read(matches, flags::all());
        for (name, _) in REFUSED.iter().filter(|(name, _)| matches.contains_id(name)) {
            params.insert((*name).to_owned(), Value::Bool(true));
        }
        Ok(Args { params })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub fn run(args: Args) -> Result<Exit> {
    let mut params = args.params;
    for (name, value) in DEFAULTS {
        params.entry(name).or_insert_with(|| json!(value));
    }
    let given = params.clone();
    let settings = Settings::read(&params).map_err(|problems| Error::Usage(problems.join("\nvsweep: ")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Fatal(format!("cannot start the runtime: {error}")))?;
    let measured = runtime.block_on(async {
        let job = job(params, &settings).await?;
        let counters = job.counters.clone();
        let progress = tokio::spawn(show_progress(job.counters.clone(), settings.quiet));
        let measured = tokio::select! {
            measured = measure(&job) => measured.map_err(|failure| Error::Fatal(failure.to_string())),
            _ = tokio::signal::ctrl_c() => return Ok(None),
        };
        progress.abort();
        print_notes(&counters);
        measured.map(Some)
    })?;
    let Some(Measurement { result, verdict, .. }) = measured else {
        return Ok(Exit::Interrupted);
    };
    print_failures(&result.values);
    print!("{}", console::console(&result.values));
    for warning in result.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        eprintln!("vsweep: {}", warning.as_str().unwrap_or_default());
    }
    if let Some(objection) = verdict.objection() {
        eprintln!("vsweep: read these figures with care: {objection}");
    }
    save(&settings, &given, &result)?;
    Ok(if result.get("failed").is_some_and(|failed| *failed != json!(0)) {
        Exit::SomeFailed
    } else {
        Exit::Done
    })
}

async fn job(params: Params, settings: &Settings) -> Result<Job> {
    let base_url = settings.base_url();
    let (served_model, model_root) = match &settings.model {
        Some(model) => (model.clone(), model.clone()),
        None => first_model(&base_url, &settings.all_headers(), settings.insecure).await?,
    };
    Ok(Job {
        base_url,
        served_model,
        model_root,
        params,
        runner: Default::default(),
        argv: None,
        env: Default::default(),
        scratch: std::env::temp_dir(),
        warmup_prompts: 0,
        timeout: LONGEST_RUN,
        counters: Arc::default(),
    })
}

/// Name and root of the first model that the server lists.
pub(super) async fn first_model(
    base_url: &str,
    headers: &[(String, String)],
    insecure: bool,
) -> Result<(String, String)> {
    let url = format!("{base_url}/v1/models");
    let failed = |why: &dyn std::fmt::Display| {
        Error::Fatal(format!(
            "cannot ask {url} for its models: {why}; start the server, or name the model with --model"
        ))
    };
    let client = client_for(base_url).tls_danger_accept_invalid_certs(insecure).build();
    let mut request = client
        .map_err(|error| failed(&error))?
        .get(&url)
        .timeout(Duration::from_secs(30));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = request
        .send()
        .await
        .and_then(reqwest::Response::error_for_status)
        .map_err(|error| failed(&error))?;
    let models: Value = answer.json().await.map_err(|error| failed(&error))?;
    let first = &models["data"][0];
    let Some(id) = first["id"].as_str() else {
        return Err(failed(&"the list is empty"));
    };
    Ok((id.to_owned(), first["root"].as_str().unwrap_or(id).to_owned()))
}

async fn show_progress(counters: Arc<Counters>, quiet: bool) {
    let bar = match quiet || !std::io::stderr().is_terminal() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(0),
    };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} [{elapsed} < {eta}, {per_sec}]") {
        bar.set_style(style);
    }
    loop {
        bar.suspend(|| print_notes(&counters));
        bar.set_length(counters.planned.load(Relaxed));
        bar.set_position(counters.finished.load(Relaxed));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Writes the result file, if one is wanted.
fn save(settings: &Settings, given: &Params, result: &RunResult) -> Result<()> {
    let Some(output) = &settings.output else { return Ok(()) };
    let folder = output.folder.clone().unwrap_or_else(|| PathBuf::from("."));
    std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    let path = folder.join(
        output
            .name
            .clone()
            .unwrap_or_else(|| file::name(settings, &result.values)),
    );
    write(result, &path, output.append).map_err(Error::io("write", &path))?;
    let is_wanted = |value: std::ffi::OsString| !value.is_empty();
    if std::env::var_os("SAVE_TO_PYTORCH_BENCHMARK_FORMAT").is_some_and(is_wanted) {
        let path = path.with_extension("pytorch.json");
        let records = pytorch::records(settings, given, result);
        write(&records, &path, false).map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// Writes a file, or a further line of one.
fn write(result: &impl Serialize, path: &Path, append: bool) -> io::Result<()> {
    let mut options = File::options();
    let file = match append {
        true => options.append(true).create(true).open(path),
        false => File::create(path),
    }?;
    let is_begun = file.metadata()?.len() > 0;
    let mut writer = BufWriter::new(file);
    if is_begun {
        writer.write_all(b"\n")?;
    }
    file::write(result, &mut writer)?;
    writer.flush()
}

fn print_notes(counters: &Counters) {
    counters.take_notes().iter().for_each(|note| println!("{note}"));
}

/// The commonest errors, as `vllm bench serve` lists them.
fn print_failures(result: &Params) {
    let Some(reasons) = result.get("failure_reasons").and_then(Value::as_object) else {
        return;
    };
    println!("Failed requests during benchmark run detected (capping to 10):");
    for (i, (reason, count)) in reasons.iter().take(10).enumerate() {
        println!("Error {i}: {reason} ({count} times)");
    }
}
