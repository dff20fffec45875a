//! Machine and software of an experiment, as pairs of a name and a value for people.

use super::chart::Chart;
use super::findings::nodes;
use super::output::starts::{self, SweepUsage};
use itertools::Itertools;
use serde_json::Value;
use std::collections::BTreeSet;
use vsweep_base::files::{MOST_FACTS, read_text};
use vsweep_base::ids::ServerId;
use vsweep_base::units::{duration_of, show_duration};
use vsweep_plan::show;
use vsweep_record::journal::{Directory, ServerRecord, State};

/// The facts in `manifest.json`; null if it cannot be read.
pub fn manifest(directory: &Directory) -> Value {
    let text = read_text(&directory.manifest(), MOST_FACTS).ok();
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

/// The known facts of the manifest, then the versions of the servers, the nodes, the time spent measuring and the GPU-hours.
pub fn facts(manifest: &Value, state: &State) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for (name, value) in manifest.as_object().into_iter().flatten() {
        let shown = match (name.as_str(), value) {
            (_, Value::Null) => continue,
            ("memory_bytes", Value::Number(bytes)) => {
                format!("{:.0} GiB", bytes.as_f64().unwrap_or_default() / f64::from(1 << 30))
            }
            ("gpus", Value::Array(gpus)) => list_gpus(gpus),
            // The compiler of the kernel is irrelevant to a measurement.
            ("os", Value::String(text)) => text.split(" (").next().unwrap_or(text).to_owned(),
            (_, Value::Bool(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
            (_, other) => show(other),
        };
        let name = match name.trim_end_matches("_bytes") {
            "cpu" => "CPU".to_owned(),
            "cpus" => "CPUs".to_owned(),
            "gpus" => "GPUs".to_owned(),
            "first_gpus" => "GPUs at first".to_owned(),
            "gpu_driver" => "GPU driver".to_owned(),
            "os" => "OS".to_owned(),
            name => name.replace('_', " "),
        };
        facts.push((name, shown));
    }
    let versions = Some(versions(state, None)).filter(|versions| !versions.is_empty());
    facts.extend(versions.map(|versions| ("server version".to_owned(), versions)));
    facts.extend(
        nodes::describe(state, manifest["host"].as_str().unwrap_or_default()).map(|nodes| ("nodes".to_owned(), nodes)),
    );
    facts.push(("time spent measuring".into(), time_measuring(state)));
    facts.extend(starts::in_words(state).map(|hours| ("GPU-hours".to_owned(), hours)));
    facts
}

/// Identifies the experiment in a few words: models, GPUs, version of the server, day.
pub fn origin(manifest: &Value, state: &State) -> Vec<String> {
    let ready = state.servers.values().flat_map(ServerRecord::ready);
    let models: BTreeSet<&str> = ready.map(|ready| ready.model.as_str()).collect();
    let versions = versions(state, None);
    let days = state.runs().filter_map(|run| run.finished_at.get(..10));
    let days = days.minmax().into_option().map(|(first, last)| match first == last {
        true => first.to_owned(),
        false => format!("{first} to {last}"),
    });
    let gpus = manifest["gpus"].as_array().map_or(&[][..], Vec::as_slice);
    let machines = state.machines();
    let kinds = machines.iter().flat_map(|machine| &machine.gpus);
    let measured: BTreeSet<&str> = kinds.map(|kind| kind.name.as_str()).collect();
    // The manifest describes one machine, and the results may come from others.
    let is_elsewhere =
        !measured.is_empty() && measured != gpus.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>();
    let facts = [
        Some(models.into_iter().filter(|model| !model.is_empty()).join(", ")),
        match is_elsewhere {
            true => Some(measured.into_iter().join(", ")),
            false => (!gpus.is_empty()).then(|| list_gpus(gpus)),
        },
        (!versions.is_empty()).then(|| format!("server version {versions}")),
        days,
    ];
    facts.into_iter().flatten().filter(|fact| !fact.is_empty()).collect()
}

/// Versions that measured the runs in the tables, of one server or of all; empty if none was reported.
pub fn versions(state: &State, of: Option<&ServerId>) -> String {
    let ready = state.ready_of_runs();
    let ready = ready.filter(|(server, _)| of.is_none_or(|of| of == *server));
    let versions: BTreeSet<&str> = ready.filter_map(|(_, ready)| ready.version.as_deref()).collect();
    versions.into_iter().join(", ")
}

/// Adds the origin of its figures to the footer of a chart.
pub fn sign(mut chart: Chart, origin: &[String]) -> Chart {
    let footer = [&chart.footer].into_iter().chain(origin).join(" · ");
    chart.footer = footer;
    chart
}

/// Like `origin`, with the time that the sweep took.
pub fn head(manifest: &Value, state: &State) -> Vec<String> {
    let mut facts = origin(manifest, state);
    facts.push(SweepUsage::of(state, None).time_in_words().map_or_else(
        || format!("{} measuring", time_measuring(state)),
        |time| format!("took {time}"),
    ));
    facts
}

fn time_measuring(state: &State) -> String {
    let seconds = state
        .runs()
        .map(|run| run.seconds)
        .filter(|seconds| seconds.is_finite());
    show_duration(duration_of(seconds.sum()))
}

/// Counts GPUs by name: `8 × NVIDIA H100 80GB HBM3`.
fn list_gpus(gpus: &[Value]) -> String {
    let names = gpus.iter().filter_map(Value::as_str);
    let counts = names.clone().counts();
    let mut shown = names.unique().map(|name| format!("{} × {name}", counts[name]));
    let shown = shown.join(", ");
    if shown.is_empty() { "none".into() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vsweep_record::journal::{Event, RunFinished, RunStarted, ServerReady};

    #[test]
    fn versions_without_a_run_are_none() {
        let mut state = State::default();
        let server = ServerId("s".into());
        for (launch, version) in [(1, "1"), (2, "2")] {
            state.apply_hypothetical(Event::ServerReady(Box::new(ServerReady {
                server: server.clone(),
                launch,
                version: Some(version.to_owned()),
                ..ServerReady::default()
            })));
        }
        assert_eq!(versions(&state, None), "");
        let launch = 2;
        let started = state.apply_hypothetical(Event::RunStarted(Box::new(RunStarted {
            server,
            launch,
            ..RunStarted::default()
        })));
        state.apply_hypothetical(Event::RunFinished(Box::new(RunFinished {
            started: started.rank.line.seq,
            ..RunFinished::default()
        })));
        assert_eq!(versions(&state, None), "2");
        assert_eq!(versions(&state, Some(&ServerId("other".into()))), "");
    }

    #[test]
    fn facts_are_for_people() {
        let manifest = json!({"gpus": ["H100", "H100"], "memory_bytes": 34_359_738_368_u64, "git_commit": null, "git_dirty": false});
        let shown: Vec<String> = facts(&manifest, &State::default())
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(
            shown,
            [
                "GPUs: 2 × H100",
                "memory: 32 GiB",
                "git dirty: no",
                "time spent measuring: 0 ms"
            ]
        );
    }
}
