//! Measures time and memory of status, resuming, report and verification with 100 000 runs in 8 journals: `cargo bench -p vsweep-report
//! --bench many_runs`. With `KEEP=FOLDER` the experiment stays in that folder, and the next measurement uses it again.

use mimalloc::MiMalloc;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufWriter, Write, stdout};
use std::path::Path;
use std::time::Instant;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::{PointId, ServerId};
use vsweep_base::validity::Validity;
use vsweep_plan::{Params, ReportOptions};
use vsweep_record::journal::{
    self, Check, Directory, Entry, Event, FIRST_SLOT, FORMAT, GroupBegun, LineId, LoadNames, Nonce, Rank,
    ReadPositions, RecordedPlan, Recorder, RunFiles, RunFinished, RunStarted, ServerDescription, ServerReady,
    SessionStarted, Shard, StoredFile, Sum,
};
use vsweep_report::output::verify::verify;
use vsweep_report::texts::status::Status;
use vsweep_report::write_all;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const JOURNALS: u64 = 8;
const SERVERS: u64 = 104;
const LOADS: u64 = 97;
const RUNS: u32 = 10;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kept = std::env::var("KEEP").ok();
    let directory = Directory::at(kept.map_or(folder.path().to_path_buf(), Into::into));
    directory.create().expect("created");
    let points: Vec<PointId> = (0..SERVERS)
        .flat_map(|server| (0..LOADS).map(move |load| point(server, load)))
        .collect();
    if !directory.is_experiment() {
        for n in 0..JOURNALS {
            write_journal(&directory, n, &points);
        }
    }
    let runs = SERVERS * LOADS * u64::from(RUNS);
    let mut out = stdout().lock();
    let mut say = |what: &str, (seconds, peak_mib): (f64, u64)| {
        writeln!(out, "{what}: {seconds:.2} s, {peak_mib} MiB").expect("a terminal");
    };
    say(
        "status",
        measure(|| {
            let state = journal::load(&directory, Check::Lengths).expect("sound");
            assert_eq!(Status::now(&directory, &state).expect("sound").done, runs);
        }),
    );
    say(
        "resume",
        measure(|| drop(Recorder::open(directory.clone(), Shard::WHOLE).expect("sound"))),
    );
    say(
        "verify's reading",
        measure(|| drop(journal::load(&directory, Check::Hashes).expect("sound"))),
    );
    say(
        "report",
        measure(|| {
            let state = journal::load(&directory, Check::Hashes).expect("sound");
            let written = write_all(&directory, &state, &ReportOptions::default()).expect("written");
            assert_eq!(written.problems, Vec::<String>::new());
        }),
    );
    say(
        "verify",
        measure(|| {
            let (_, verified) = verify(&directory, |_| ReportOptions::default()).expect("read");
            assert_eq!((verified.runs as u64, verified.differences), (runs, Vec::new()));
        }),
    );
}

/// Runs `work`. Returns its seconds, and the peak of memory in MiB.
fn measure(work: impl FnOnce()) -> (f64, u64) {
    // Resets the peak of memory.
    fs::write("/proc/self/clear_refs", "5").expect("Linux");
    let began = Instant::now();
    work();
    let seconds = began.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("Linux");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    (seconds, kib / 1024)
}

fn point(server: u64, load: u64) -> PointId {
    PointId(format!("{server:08x}{load:08x}").into())
}

fn params(value: &Value) -> Params {
    value.as_object().expect("an object").clone()
}

/// Writes the journal of a session that measured every eighth server, and its run files. Nothing waits for the disk.
fn write_journal(directory: &Directory, n: u64, points: &[PointId]) {
    let nonce = Nonce::from(n + 1);
    let path = directory.journal_folder().join(format!("{nonce}.jsonl"));
    let mut file = BufWriter::new(fs::File::create(path).expect("created"));
    let (mut seq, mut prev): (u64, Sum) = (0, nonce);
    let mut push = |event: Event| {
        let line = LineId { journal: nonce, seq };
        let rank = Rank { lamport: seq + 1, line };
        let at = "2026-11-20T10:00:00Z".into();
        let entry = Entry { rank, at, event, prev };
        let (bytes, sum) = entry.encode();
        file.write_all(&bytes).expect("written");
        (seq, prev) = (seq + 1, sum);
        entry
    };
    push(Event::JournalCreated {
        format: format!("{}.{}", FORMAT.0, FORMAT.1),
        vsweep: "0".into(),
        shard: format!("{}-of-{JOURNALS}", n + 1),
    });
    push(Event::SessionStarted(Box::new(SessionStarted {
        optimize: None,
        renamed: LoadNames::default(),
        host: "h".into(),
        boot: "b".into(),
        pid: 1,
        started: 1,
        machine: None,
        joined: false,
        plan: RecordedPlan::new("many", String::new(), points, &[]),
        servers: SERVERS,
        points: SERVERS * LOADS,
        starts: 1,
        runs: SERVERS * LOADS * u64::from(RUNS),
        searches: 0,
        compare: None,
        noise: Vec::new(),
        seen: ReadPositions::new(),
    })));
    for number in (0..SERVERS).filter(|number| number % JOURNALS == n) {
        let server = ServerId(format!("{number:016x}").into());
        let slot = FIRST_SLOT;
        let launch = number as u32 + 1;
        let config = ServerDescription {
            name: format!("seqs={number}"),
            argv: ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"]
                .map(str::to_owned)
                .into(),
            params: params(&json!({"max_num_seqs": number, "max_num_batched_tokens": 8192})),
            ..ServerDescription::default()
        };
        let (begun, seen) = (server.clone(), ReadPositions::new());
        push(Event::GroupBegun(Box::new(GroupBegun {
            proposed: None,
            server: begun,
            slot,
            config,
            seen,
        })));
        push(Event::ServerStarting {
            server: server.clone(),
            slot,
            launch,
            gpus: Vec::new(),
        });
        push(Event::ServerReady(Box::new(ServerReady {
            server: server.clone(),
            launch,
            seconds: 20.0,
            model: "m".into(),
            ..ServerReady::default()
        })));
        for (load, run) in (0..LOADS).flat_map(|load| (0..RUNS).map(move |run| (load, run))) {
            let started = push(Event::RunStarted(Box::new(RunStarted {
                point: point(number, load),
                server: server.clone(),
                slot,
                run,
                launch,
                name: format!("concurrency {load}"),
                params: params(&json!({
                    "dataset_name": "random", "random_input_len": 1024, "random_output_len": 128,
                    "max_concurrency": load + 1, "num_prompts": 10 * (load + 1)
                })),
                combo: None,
                search: None,
                anew: None,
            })));
            let file = write_run(
                directory.root(),
                &RunFiles::of(&point(number, load), slot, run, started.rank.line).json(),
                number,
                load,
                run,
            );
            push(Event::RunFinished(Box::new(RunFinished {
                started: started.rank.line.seq,
                outcome: Outcome::Ok,
                validity: Validity::Valid,
                cause: None,
                detail: String::new(),
                seconds: 60.0,
                file: Some(file),
                ..RunFinished::default()
            })));
        }
    }
    push(Event::SessionEnded {
        reason: "finished".into(),
    });
}

fn write_run(root: &Path, path: &str, server: u64, load: u64, run: u32) -> StoredFile {
    let users = (load + 1) as f64;
    let throughput = 40.0 * users / (1.0 + users / (10.0 + server as f64)) * (1.0 + f64::from(run) / 1000.0);
    let mut result = params(&json!({
        "date": "20261120-100000", "backend": "openai", "model_id": "m", "num_prompts": 10 * (load + 1), "duration": 60.0,
        "completed": 10 * (load + 1), "failed": 0, "request_throughput": throughput / 128.0, "output_throughput": throughput
    }));
    for (place, name) in ["ttft", "tpot", "itl", "e2el"].iter().enumerate() {
        for (factor, statistic) in ["mean", "median", "std", "p99"].iter().enumerate() {
            let value = users * (place + 1) as f64 * (1.0 + factor as f64 / 10.0);
            result.insert(format!("{statistic}_{name}_ms"), value.into());
        }
    }
    result.insert("run_number".into(), run.into());
    let content = serde_json::to_vec(&result).expect("plain data always serialises");
    let target = root.join(path);
    fs::create_dir_all(target.parent().expect("a folder")).expect("created");
    fs::write(&target, &content).expect("written");
    StoredFile::of(path.to_owned(), &content)
}
