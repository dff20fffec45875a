//! Searches of fixed plans through the real generator against `vsweep sim serve`. They are judged by whole runs on the same processes:
//! every load around the answers is measured in turn until each has 20 000 requests, or as many as are asked for. An attempt that another
//! program disturbed is repeated; on a machine that is never calm the campaign ends. Results of a plan are kept in
//! `target/tmp/real-searches`, so that a campaign of hours can be run in parts. Another build of vsweep searches anew. The limits, which
//! take most of the time, are kept until the machine is booted; remove them after a change of the generator or the simulator.

use crate::calm::calmly;
use crate::trial::{Trial, choices, report};
use crate::truth::{Curve, Truth};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use vsweep::journal::{self, Check, Directory, RunRecord, SearchEnd, State};
use vsweep::matrix::{LoadSearch, Matrix};
use vsweep::plan;
use vsweep::search::{Answer, RequestLatencies, Search, Settings, Vary};

/// Number of loads on each side of the answers, and the ratio of neighbouring loads.
const STEPS: i32 = 3;
const STEP: f64 = 1.033;
/// Runs at each load on one start of a server.
const RUNS: usize = 4;
/// Number of times that more is measured around a limit that is still unknown.
const ROUNDS: usize = 4;
/// Tolerances of the sweeps with even and with odd seeds.
const TOLERANCES: [f64; 2] = [0.05, 0.1];

/// A plan with two servers and one target.
struct Shape {
    seqs: [u32; 2],
    input: u32,
    output: u32,
    vary: Vary,
    /// Requests of a run for each unit of the load.
    times: u32,
    target: &'static str,
}

const fn shape(seqs: [u32; 2], input: u32, output: u32, times: u32, target: &'static str) -> Shape {
    Shape {
        seqs,
        input,
        output,
        vary: Vary::MaxConcurrency,
        times,
        target,
    }
}

const SHAPES: [Shape; 12] = [
    shape([64, 256], 512, 64, 4, "p99_ttft_ms = \"<=500\"\np99_tpot_ms = \"<=8\""),
    shape([32, 48], 128, 16, 6, "p99_e2el_ms = \"<=120\""),
    shape([32, 64], 256, 16, 4, "p95_ttft_ms = \"<=150\""),
    shape([80, 128], 128, 32, 4, "p99_tpot_ms = \"<=3\""),
    shape([32, 64], 256, 32, 10, "mean_e2el_ms = \"<=250\""),
    shape([16, 64], 128, 64, 4, "p99_e2el_ms = \"<=300\""),
    shape([16, 48], 512, 16, 4, "p90_ttft_ms = \"<=200\""),
    shape([64, 96], 512, 32, 8, "attainment = \">=95%\"\ne2el_ms = \"<600\""),
    shape([48, 96], 64, 64, 4, "median_tpot_ms = \"<=3\"\np99_ttft_ms = \"<=100\""),
    shape([64, 96], 128, 32, 4, "mean_tpot_ms = \"<=2.2\""),
    shape([24, 32], 256, 16, 4, "attainment = \">=99%\"\nttft_ms = \"<150\""),
    Shape {
        vary: Vary::RequestRate,
        ..shape([32, 64], 128, 16, 2, "p95_ttft_ms = \"<=40\"")
    },
];

impl Shape {
    /// The beginning of the plan, without the load.
    fn head(&self, seqs: &[u32]) -> String {
        let Shape { input, output, .. } = self;
        format!(
            "version = 1\n[serve]\ncommand = \"vsweep sim serve llama-3.1-8b --sim-speed 4 --sim-start 50ms\"\nready_timeout = \"1m\"\n\
             [serve.params]\nmax_num_seqs = {seqs:?}\nmax_num_batched_tokens = 1024\n[bench]\ntimeout = \"2m\"\n[bench.params]\n\
             dataset_name = \"random\"\nrandom_input_len = {input}\nrandom_output_len = {output}\nrandom_range_ratio = 0.2\n\
             num_prompts = {{ per = \"{}\", times = {}, min = 100 }}\n",
            self.vary.name(),
            self.times
        )
    }

    fn searching(&self) -> String {
        let most = if self.vary == Vary::MaxConcurrency { 512 } else { 4096 };
        format!(
            "{}[sla]\nvary = \"{}\"\nmax = {most}\n[[sla.target]]\nname = \"chat\"\n{}\n",
            self.head(&self.seqs),
            self.vary.name(),
            self.target
        )
    }

    fn measuring(&self, server: usize, loads: &[f64]) -> String {
        let vary = self.vary;
        let loads: Vec<_> = loads.iter().map(|load| vary.to_param(*load)).collect();
        let (head, loads) = (self.head(&self.seqs[server..=server]), serde_json::Value::from(loads));
        format!("runs = {RUNS}\n{head}{} = {loads}\nsave_detailed = true\n", vary.name())
    }
}

/// Text of the plan with this number. After the last plan the numbers begin again with the first.
pub fn text(index: u64) -> String {
    SHAPES[index as usize % SHAPES.len()].searching()
}

pub fn run() -> ExitCode {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |at: usize, usual: usize| numbers.get(at).copied().unwrap_or(usual);
    let (plans, seeds, first, requests) = (number(0, SHAPES.len()), number(1, 8), number(2, 0), number(3, 20_000));
    let folder = tempfile::tempdir().expect("a writable folder");
    let kept = kept();
    let (mut trials, mut chosen) = (Vec::new(), Vec::new());
    for (at, shape) in SHAPES.iter().enumerate().skip(first).take(plans) {
        let campaign = Campaign {
            shape,
            folder: folder.path().join(format!("plan-{at}")),
            truths: [0, 1].map(|server| limits().join(format!("plan-{at}-{server}-{requests}.json"))),
            requests,
        };
        let file = kept.join(format!("plan-{at}-{seeds}-{requests}.json"));
        let known = std::fs::read(&file).ok();
        let judged = known.and_then(|json| serde_json::from_slice(&json).ok());
        let Some(judged) = judged.or_else(|| campaign.judge(at, seeds)) else {
            eprintln!("the machine is too busy: the figures would be those of its load; try again once it is idle");
            return ExitCode::FAILURE;
        };
        std::fs::write(&file, serde_json::to_vec(&judged).expect("plain data")).expect("a writable folder");
        let PlanResult {
            lines,
            trials: own,
            choices,
        } = judged;
        lines.iter().for_each(|line| println!("{line}"));
        own.iter().for_each(Trial::tell_if_unsafe);
        chosen.extend(choices);
        trials.extend(own);
    }
    report(&trials, &chosen)
}

/// Folder of the results of this build of vsweep.
fn kept() -> PathBuf {
    let vsweep = std::fs::read(env!("CARGO_BIN_EXE_vsweep")).expect("built with the bench");
    let mut build = DefaultHasher::new();
    build.write(&vsweep);
    folder(&format!("{:x}", build.finish()))
}

/// Folder of the limits that were measured since the machine was booted.
fn limits() -> PathBuf {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
    folder(&format!("limits-{}", boot.trim()))
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-searches").join(name);
    std::fs::create_dir_all(&folder).expect("a writable folder");
    folder
}

/// Result of a plan.
#[derive(Serialize, Deserialize)]
struct PlanResult {
    /// A line for each answer with the truth, for people to read.
    lines: Vec<String>,
    trials: Vec<Trial>,
    /// True limit of each chosen server, as a share of the best server's.
    choices: Vec<f64>,
}

/// A search: its settings, its state and its answer.
type Searched = (Settings, Search, Answer);
/// For each seed the searches of both servers; for each server the truth about its target.
type Outcome = (Vec<Vec<Searched>>, Vec<Vec<Option<Truth>>>);

/// One plan with its folder.
struct Campaign<'a> {
    shape: &'a Shape,
    folder: PathBuf,
    /// File for the limit of each server.
    truths: [PathBuf; 2],
    /// Least number of requests at each load that is measured for the truth.
    requests: usize,
}

impl Campaign<'_> {
    /// Returns `None` if the machine was busy.
    fn judge(&self, at: usize, seeds: usize) -> Option<PlanResult> {
        let begun = Instant::now();
        let (groups, truths) = self.run(seeds)?;
        let mut lines = vec![format!("plan {at}: measured in {:.0?}", begun.elapsed())];
        let (mut trials, mut chosen) = (Vec::new(), Vec::new());
        for (seed, group) in groups.iter().enumerate() {
            let of_server = |(server, (settings, search, answer)): (usize, &Searched)| {
                let name = format!("plan {at}, seed {seed}, max_num_seqs = {}", self.shape.seqs[server]);
                let (truth, probes) = (truths[server][0], search.probes().len());
                let Answer { found, low, high, .. } = answer;
                lines.push(format!(
                    "{name}: {found:?} [{low:.1}, {high:.1}] after {probes} of {truth:.3?}"
                ));
                vec![truth.map(|truth| Trial::new(name, answer, search, settings, truth))]
            };
            let group: Vec<Vec<Option<Trial>>> = group.iter().enumerate().map(of_server).collect();
            chosen.extend(choices(&group, &truths, self.shape.vary));
            trials.extend(group.into_iter().flatten().flatten());
        }
        Some(PlanResult {
            lines,
            trials,
            choices: chosen,
        })
    }

    /// Returns `None` if the machine was busy.
    fn run(&self, seeds: usize) -> Option<Outcome> {
        std::fs::create_dir_all(&self.folder).expect("a writable folder");
        let groups: Option<Vec<_>> = (0..seeds).map(|seed| calmly(|| self.search(seed))).collect();
        let groups = groups?;
        let truths: Option<Vec<_>> = (0..2).map(|server| Some(vec![self.known(server, &groups)?])).collect();
        Some((groups, truths?))
    }

    /// Runs a sweep of the plan.
    fn search(&self, seed: usize) -> Vec<Searched> {
        let path = self.folder.join("search.toml");
        std::fs::write(&path, self.shape.searching()).expect("a writable folder");
        let settings = [
            format!("bench.params.seed={seed}"),
            format!("sla.tolerance={}", TOLERANCES[seed % 2]),
        ];
        let state = self.sweep(&path, &settings);
        let matrix = Matrix::expand(&plan::load(&path, &settings).expect("a valid plan")).expect("it expands");
        let servers: Vec<_> = matrix.servers().collect();
        let planned = servers
            .iter()
            .flat_map(|server| matrix.searches_of(server).collect::<Vec<_>>());
        planned.map(|planned| searched(&state, planned)).collect()
    }

    /// Returns the truth about a server, from its file or by measuring it.
    fn known(&self, server: usize, groups: &[Vec<Searched>]) -> Option<Option<Truth>> {
        let file = &self.truths[server];
        let known = std::fs::read(file).ok();
        if let Some(truth) = known.and_then(|json| serde_json::from_slice(&json).ok()) {
            return Some(Some(truth));
        }
        let truth = self.truth(server, groups)?;
        if let Some(truth) = truth {
            std::fs::write(file, serde_json::to_vec(&truth).expect("plain data")).expect("a writable folder");
        }
        Some(truth)
    }

    /// Measures the truth about a server by whole runs at loads around its answers, in turn. `None` if the machine was busy, `Some(None)`
    /// if the limit is not known to one percent.
    fn truth(&self, server: usize, groups: &[Vec<Searched>]) -> Option<Option<Truth>> {
        let (
            Settings {
                vary,
                targets,
                requests,
                ..
            },
            ..,
        ) = &groups[0][server];
        // The upper end of the interval is about as far above the limit as the answer is below it, so the middle is near the limit.
        let middle = |(_, _, answer): &Searched| (answer.low * answer.high).sqrt();
        let mut middles: Vec<f64> = groups.iter().map(|group| middle(&group[server])).collect();
        middles.sort_by(f64::total_cmp);
        let middle = middles[middles.len() / 2];
        if !middle.is_finite() || middle <= 0.0 {
            return Some(None);
        }
        let mut loads: Vec<f64> = match vary {
            Vary::MaxConcurrency if middle * (STEP - 1.0) < 1.0 => (-STEPS..=STEPS)
                .map(|step| (middle.round() + f64::from(step)).max(1.0))
                .collect(),
            _ => (-STEPS..=STEPS)
                .map(|step| vary.floor(middle * STEP.powi(step)))
                .collect(),
        };
        loads.dedup();
        let mut samples: BTreeMap<u64, Vec<Vec<RequestLatencies>>> = BTreeMap::new();
        for round in 0..ROUNDS {
            let few = requests.at(loads[0]) as usize;
            for pass in 0..self.requests.div_ceil(RUNS * few) {
                let seed = 1_000_000 + 10_000 * round + pass;
                for (load, runs) in loads.iter().zip(calmly(|| self.measure(server, &loads, seed))?) {
                    samples.entry(load.to_bits()).or_default().extend(runs);
                }
            }
            let (measured, samples): (Vec<f64>, Vec<_>) = samples
                .iter()
                .map(|(load, runs)| (f64::from_bits(*load), runs.clone()))
                .unzip();
            let curve = Curve::of(measured, &samples, &targets[0], *vary);
            let (truth, around) = (curve.truth(*vary), curve.around());
            let (None, Some([below, above])) = (truth, around) else {
                return Some(truth);
            };
            loads = vec![below, vary.floor((below * above).sqrt()), above];
            loads.dedup();
        }
        Some(None)
    }

    /// Measures each load on one start of a server. Returns the requests of each run.
    fn measure(&self, server: usize, loads: &[f64], seed: usize) -> Vec<Vec<Vec<RequestLatencies>>> {
        let path = self.folder.join("measure.toml");
        std::fs::write(&path, self.shape.measuring(server, loads)).expect("a writable folder");
        let state = self.sweep(&path, &[format!("bench.params.seed={seed}")]);
        loads.iter().map(|load| self.requests_at(&state, *load)).collect()
    }

    /// Runs a plan into a new folder.
    fn sweep(&self, plan: &Path, settings: &[String]) -> State {
        let output = self.output();
        let _ = std::fs::remove_dir_all(&output);
        let mut vsweep = Command::new(env!("CARGO_BIN_EXE_vsweep"));
        vsweep.arg("run").arg(plan).arg("-o").arg(&output).arg("--quiet");
        vsweep.args(settings.iter().flat_map(|setting| ["--set", setting]));
        let status = vsweep.stdin(Stdio::null()).stdout(Stdio::null()).status();
        assert!(
            status.expect("vsweep starts").success(),
            "the sweep of {} failed",
            plan.display()
        );
        journal::load(&Directory::open(&output).expect("an experiment"), Check::Lengths).expect("sound")
    }

    fn output(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// The latencies of each run at a load, in the order of sending.
    fn requests_at(&self, state: &State, load: f64) -> Vec<Vec<RequestLatencies>> {
        let value = self.shape.vary.to_param(load);
        let runs = state.runs();
        let at_it = runs.filter(|run| run.params.get(self.shape.vary.name()) == Some(&value));
        at_it.map(|run| self.requests_of(run)).collect()
    }

    fn requests_of(&self, run: &RunRecord) -> Vec<RequestLatencies> {
        let file = run.file.clone().expect("measured");
        let text = std::fs::read_to_string(self.output().join(&*file.path)).expect("readable");
        let json: serde_json::Value = serde_json::from_str(&text).expect("sound");
        let numbers = |value: &serde_json::Value| -> Vec<f64> {
            let values = value.as_array().into_iter().flatten();
            values.filter_map(serde_json::Value::as_f64).collect()
        };
        let (ttfts, tokens) = (numbers(&json["ttfts"]), numbers(&json["output_lens"]));
        let gaps = json["itls"].as_array().expect("save_detailed").iter().map(numbers);
        let requests = ttfts.iter().zip(tokens).zip(gaps).map(|((ttft, tokens), gaps)| {
            let decode_ms = 1e3 * gaps.iter().sum::<f64>();
            RequestLatencies {
                ttft_ms: 1e3 * ttft,
                tpot_ms: decode_ms / (tokens - 1.0).max(1.0),
                e2el_ms: 1e3 * ttft + decode_ms,
                ..RequestLatencies::default()
            }
        });
        requests.collect()
    }
}

fn searched(state: &State, planned: LoadSearch) -> Searched {
    let record = state.search(&planned.id, 0).expect("every search has begun");
    let mut search = Search::new(planned.settings.clone(), record.started.seed).against(&record.started.rivals);
    state.probes(&planned.id, 0).for_each(|probe| search.add(probe));
    match &record.ended {
        Some(SearchEnd::Answered(answers)) => (planned.settings, search, answers[0].clone()),
        other => panic!("no answer: {other:?}"),
    }
}
