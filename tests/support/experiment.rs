//! Writes experiment directories with invented figures: a server model simple enough to be exact, whose throughput
//! saturates and whose latency grows with load.

#![allow(dead_code)] // Each user of this file needs a part of it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use vsweep::cause::{Cause, Outcome};
use vsweep::ids::{PointId, ServerId};
use vsweep::journal::{
    ALONE_SLOT, Directory, Entry, Event, FIRST_SLOT, FORMAT, GroupBegun, LineId, LoadNames, Nonce, Rank, ReadPositions,
    RecordedPlan, RunFiles, RunFinished, RunStarted, ServerDescription, ServerExited, ServerReady, SessionStarted,
    StoredFile, Sum,
};
use vsweep::matrix::{argv, settings_text};
use vsweep::plan::Params;
use vsweep::request_error::RequestError;
use vsweep::validity::{Code, Doubt, Validity};

/// Content of a made-up experiment.
pub struct Experiment {
    /// The command line of every server.
    pub command: &'static str,
    /// Parameters of each server.
    pub servers: Vec<Value>,
    /// Parameters of each load.
    pub loads: Vec<Value>,
    /// Runs of each point.
    pub runs: u32,
    /// Length of the arrays in each run file.
    pub requests: usize,
    /// Decides which runs fail, by server and load.
    pub fails: fn(usize, usize) -> Option<Cause>,
    /// Decides which measured runs are in doubt, by server and load.
    pub doubts: fn(usize, usize) -> Option<Code>,
    /// Name of the journal.
    pub journal: u64,
    /// True if the servers are simulated.
    pub simulated: bool,
    /// Factor by which everything is slower than usual.
    pub slowness: f64,
    /// Greatest deviation of a run's times from the usual ones, as a fraction of them.
    pub noise: f64,
    /// Number of GPUs. The servers take turns on them, each on one. With 0 the journal names no GPUs.
    pub gpus: u32,
    /// True if the last run of each point is one of a start without neighbours.
    pub alone: bool,
    /// Mean clock of the GPUs, if it was read.
    pub clock_mhz: Option<f64>,
    /// Figures that are added to the usual ones or replace them, by server and load; null removes one.
    pub figures: fn(&Value, &Value) -> Value,
}

/// Causes that end a server before it is ready.
const AT_START: [Cause; 2] = [Cause::OomAtLoad, Cause::KvCacheTooSmall];

impl Default for Experiment {
    fn default() -> Self {
        Experiment {
            command: "vllm serve meta-llama/Llama-3.1-8B-Instruct",
            servers: vec![json!({})],
            loads: vec![json!({"max_concurrency": 8})],
            runs: 3,
            requests: 16,
            fails: |_, _| None,
            doubts: |_, _| None,
            journal: 0x1234_5678_9abc_def0,
            simulated: false,
            slowness: 1.0,
            noise: 0.06,
            gpus: 0,
            alone: false,
            clock_mhz: None,
            figures: |_, _| json!({}),
        }
    }
}

/// Key of the name of the combination that a server or a load comes from.
const COMBO: &str = "_benchmark_name";

/// Returns the entries of an object, except that of `COMBO`.
pub fn params(value: &Value) -> Params {
    let mut params = value.as_object().expect("an object").clone();
    params.remove(COMBO);
    params
}

fn combo_of(value: &Value) -> Option<String> {
    Some(value.get(COMBO)?.as_str()?.to_owned())
}

impl Experiment {
    /// Writes the journal and the run files.
    pub fn write(&self, root: &Path) -> Directory {
        let directory = Directory::at(root);
        directory.create().expect("created");
        let mut journal = Journal::begin(&directory, "1-of-1", self.journal);
        let (servers, loads) = (self.servers.len(), self.loads.len());
        let points = (0..servers).flat_map(|i| (0..loads).map(move |j| point(i, j)));
        let points: Vec<PointId> = points.collect();
        let count = points.len() as u64;
        journal.push(Event::SessionStarted(Box::new(SessionStarted {
            optimize: None,
            renamed: LoadNames::default(),
            host: String::new(),
            boot: String::new(),
            pid: 1,
            started: 0,
            machine: None,
            joined: false,
            plan: RecordedPlan::new("demo", String::new(), &points, &[]),
            servers: servers as u64,
            points: count,
            starts: 1,
            runs: count * u64::from(self.runs),
            searches: 0,
            compare: None,
            noise: Vec::new(),
            seen: ReadPositions::new(),
        })));
        for (i, server) in self.servers.iter().enumerate() {
            self.write_server(&directory, &mut journal, i, server);
        }
        journal.push(Event::SessionEnded {
            reason: "finished".into(),
        });
        directory
    }

    fn write_server(&self, directory: &Directory, journal: &mut Journal, i: usize, params_of: &Value) {
        let server = ServerId(format!("{i:016x}").into());
        let (slot, launch) = (FIRST_SLOT, i as u32 + 1);
        let config = ServerDescription {
            name: settings_text(&params(params_of)),
            argv: argv::apply(
                &self.command.split(' ').map(str::to_owned).collect::<Vec<String>>(),
                &params(params_of),
            ),
            env: BTreeMap::new(),
            params: params(params_of),
            combo: combo_of(params_of),
        };
        journal.push(Event::GroupBegun(Box::new(GroupBegun {
            proposed: None,
            server: server.clone(),
            slot,
            config,
            seen: ReadPositions::new(),
        })));
        journal.push(Event::ServerStarting {
            server: server.clone(),
            slot,
            launch,
            gpus: (i as u32).checked_rem(self.gpus).into_iter().collect(),
        });
        let fatal = (self.fails)(i, 0).filter(|cause| AT_START.contains(cause));
        journal.pass(if fatal.is_some() { 9 } else { 20 });
        if fatal.is_none() {
            journal.push(Event::ServerReady(Box::new(ServerReady {
                server: server.clone(),
                launch,
                seconds: 20.0,
                model: "m".into(),
                simulated: self.simulated,
                ..ServerReady::default()
            })));
        }
        for (j, load) in self.loads.iter().enumerate() {
            for run in 0..self.runs {
                let slot = if self.alone && run + 1 == self.runs {
                    ALONE_SLOT
                } else {
                    slot
                };
                let cause = (self.fails)(i, j);
                let doubts: Vec<Doubt> = (self.doubts)(i, j)
                    .map(|code| Doubt::new(code, "seen"))
                    .into_iter()
                    .collect();
                let validity = Validity::of(doubts.iter().map(|doubt| doubt.code));
                let started = journal.push(Event::RunStarted(Box::new(RunStarted {
                    point: point(i, j),
                    server: server.clone(),
                    slot,
                    run,
                    launch,
                    name: settings_text(&params(load)),
                    params: params(load),
                    combo: combo_of(load),
                    search: None,
                    anew: None,
                })));
                let measured = cause.is_none();
                let warmup_seconds = (measured && run == 0).then_some(2.0);
                journal.pass(if measured { 13 } else { 1 } + warmup_seconds.map_or(0, |_| 2));
                let file = measured.then(|| {
                    let path = RunFiles::of(&point(i, j), slot, run, started.rank.line).json();
                    let content = serde_json::to_vec(&self.result(params_of, load, run)).expect("JSON");
                    let target = directory.root().join(&path);
                    fs::create_dir_all(target.parent().expect("a folder")).expect("created");
                    fs::write(&target, &content).expect("written");
                    StoredFile::of(path, &content)
                });
                journal.push(Event::RunFinished(Box::new(RunFinished {
                    started: started.rank.line.seq,
                    outcome: match validity {
                        _ if !measured => Outcome::Failed,
                        Validity::Valid => Outcome::Ok,
                        _ => Outcome::Suspect,
                    },
                    validity,
                    doubts,
                    cause,
                    detail: cause.map(detail).unwrap_or_default(),
                    request_error: (cause == Some(Cause::RequestErrors))
                        .then(|| Box::new(RequestError::read("HTTP 503"))),
                    seconds: if measured { 12.5 } else { 0.4 },
                    reset_seconds: measured.then_some(0.5),
                    warmup_seconds,
                    file,
                    ..RunFinished::default()
                })));
            }
        }
        journal.pass(4);
        journal.push(Event::ServerExited(Box::new(ServerExited {
            server,
            launch,
            cause: fatal,
            detail: fatal.map(detail).unwrap_or_default(),
            seconds: Some(4.0),
            held_seconds: None,
        })));
    }

    /// The figures of one run, by vLLM's names.
    pub fn result(&self, server: &Value, load: &Value, run: u32) -> Params {
        let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_f64);
        let tp = number(server, "tensor_parallel_size").unwrap_or(1.0);
        let seqs = number(server, "max_num_seqs").unwrap_or(256.0);
        let rate = number(load, "request_rate");
        let users = number(load, "max_concurrency").unwrap_or(rate.map_or(200.0, |rate| rate * 6.0));
        let out = number(load, "random_output_len").unwrap_or(256.0);
        let noise = self.slowness * (1.0 + self.noise * ((f64::from(run) * 2.3 + users + tp).sin()));
        let batch = users.min(seqs);
        let tpot_ms = (5.0 / tp.powf(0.7) + 0.045 * batch / tp.powf(0.85)) * noise;
        let ttft_ms = (22.0 / tp.powf(0.6) + tpot_ms * (users / batch - 1.0) * out + 0.6 * batch) * noise;
        let e2el_ms = ttft_ms + tpot_ms * out;
        let output = batch * 1000.0 / (tpot_ms + ttft_ms.min(4000.0) / out);
        // A closed loop keeps its slots full. So it lasts as long as its 16 requests in a row (mean latency: 1.05 times the median),
        // divided by the slots.
        let closed = number(load, "max_concurrency").map(|slots| 16.0 * 1.05 * e2el_ms / 1000.0 / slots);
        let array: Vec<f64> = (0..self.requests).map(|i| e2el_ms / 1000.0 + i as f64 * 1e-4).collect();
        // Each bucket spans a factor of 2^(1/4). Half of the requests are one bucket below the median's, the others one above.
        let bucket = |ms: f64| (ms.log2() * 4.0).floor() as i64;
        let counts = |ms: f64| json!({"scale": 2, "zeros": 0, "buckets": {(bucket(ms) - 1).to_string(): 8, (bucket(ms) + 1).to_string(): 8}});
        let histograms = json!({"ttft": counts(ttft_ms), "itl": counts(tpot_ms), "e2el": counts(e2el_ms)});
        let mut result = params(&json!({
            "date": "20261120-101309", "backend": "vllm", "label": null, "model_id": "m", "num_prompts": 16,
            "request_rate": rate.map_or(json!("inf"), |rate| json!(rate)), "burstiness": 1.0,
            "max_concurrency": load.get("max_concurrency"), "duration": closed.unwrap_or(12.5), "completed": 16, "failed": 0,
            "request_throughput": output / out, "request_goodput": null, "output_throughput": output,
            "total_token_throughput": output * 2.0, "latencies": array, "queue_times": array,
            "max_concurrent_requests": users, "histograms": histograms,
        }));
        for (name, median) in [
            ("ttft", ttft_ms),
            ("tpot", tpot_ms),
            ("itl", tpot_ms),
            ("e2el", e2el_ms),
        ] {
            for (statistic, factor) in [("mean", 1.05), ("median", 1.0), ("std", 0.2), ("p99", 1.9)] {
                result.insert(format!("{statistic}_{name}_ms"), json!(median * factor));
            }
        }
        if let Some(mhz) = self.clock_mhz {
            result.insert("gpu_sm_clock_mhz_mean".into(), mhz.into());
        }
        for (name, value) in params(&(self.figures)(server, load)) {
            match value {
                Value::Null => result.remove(&name),
                value => result.insert(name, value),
            };
        }
        result.insert("run_number".into(), run.into());
        result
    }
}

fn point(server: usize, load: usize) -> PointId {
    PointId(format!("{server:08x}{load:08x}").into())
}

/// A journal of one session, written without waiting for a disk.
struct Journal {
    file: fs::File,
    next: LineId,
    prev: Sum,
    clock: SignedDuration,
}

impl Journal {
    fn begin(directory: &Directory, shard: &str, nonce: u64) -> Journal {
        let nonce = Nonce::from(nonce);
        let path = directory.journal_folder().join(format!("{nonce}.jsonl"));
        let mut journal = Journal {
            file: fs::File::create(path).expect("created"),
            next: LineId { journal: nonce, seq: 0 },
            prev: nonce,
            clock: SignedDuration::ZERO,
        };
        journal.push(Event::JournalCreated {
            format: format!("{}.{}", FORMAT.0, FORMAT.1),
            vsweep: "0.1.0".into(),
            shard: shard.into(),
        });
        journal
    }

    fn pass(&mut self, seconds: i64) {
        self.clock += SignedDuration::from_secs(seconds);
    }

    fn push(&mut self, event: Event) -> Entry {
        let began: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a moment");
        let entry = Entry {
            rank: Rank {
                lamport: self.next.seq + 1,
                line: self.next,
            },
            at: (began + self.clock).to_string(),
            event,
            prev: self.prev,
        };
        let (line, sum) = entry.encode();
        self.file.write_all(&line).expect("written");
        self.next.seq += 1;
        self.prev = sum;
        entry
    }
}

fn detail(cause: Cause) -> String {
    match cause {
        Cause::OomAtLoad | Cause::OomUnderLoad => "torch.OutOfMemoryError: CUDA out of memory".into(),
        Cause::RequestErrors => "31 of 2560 requests failed, most with HTTP 503".into(),
        Cause::CrashedUnderLoad => "EngineDeadError: EngineCore encountered an issue".into(),
        other => other.advice().into(),
    }
}

/// Returns every combination of the objects with a value of the parameter `name`.
pub fn times(objects: &[Value], name: &str, values: &[Value]) -> Vec<Value> {
    let mut all = Vec::new();
    for object in objects {
        for value in values {
            let mut object = object.clone();
            object[name] = value.clone();
            all.push(object);
        }
    }
    all
}
