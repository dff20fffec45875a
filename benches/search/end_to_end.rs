//! Whole sweeps on `vsweep sim serve` against the simulator's own truth: `cargo bench --bench search -- --end-to-end`.
//!
//! The truth of a server and a target is the highest load at which runs of the same shape, drawn again and again in virtual
//! time, meet the limit on average; it is a range, because the virtual clock and the real process are a little apart. One sweep runs through; another one is killed after every single probe.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use vsweep::bench::native::latencies;
use vsweep::journal::{self, Check, Directory, SearchEnd, State};
use vsweep::matrix::{Matrix, ServerConfig};
use vsweep::plan;
use vsweep::search::{Answer, Found, Next, Search, Settings, Target, Vary};
use vsweep::sim::engine::Request;
use vsweep::sim::flags::Flags;
use vsweep::sim::settings::Settings as Simulator;
use vsweep::sim::virtual_time::{Load, VirtualServer};

const INPUT: usize = 256;
const OUTPUT: usize = 16;
const MOST: u64 = 256;
/// Runs in virtual time at each load, and the client's way to the engine in nanoseconds.
const DRAWS: usize = 24;
const DELAY: u64 = 400_000;
/// How far latencies under the virtual clock are from those of the real process, as a ratio: 2 to 3 % were seen.
const APART: f64 = 0.03;

const PLAN: &str = r#"
version = 1

[serve]
command = "vsweep sim serve demo-8b --sim-start 100ms --no-enable-prefix-caching"
stop_grace = "5s"

[serve.params]
max_num_seqs = [8, 32, 128]
max_num_batched_tokens = 2048

[bench.params]
random_input_len = 256
random_output_len = 16
num_prompts = { per = "max_concurrency", times = 4, min = 60 }

[sla]
vary = "max_concurrency"
max = 256
tolerance = 0.1

[[sla.target]]
name = "chat"
p99_ttft_ms = "<=880"

[[sla.target]]
name = "batch"
attainment = ">=95%"
e2el_ms = "<2000"
"#;

/// Runs both sweeps and compares; fails if an answer is not within its interval of the truth, or a question does not
/// follow from the probes before it.
pub fn run() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("vsweep-end-to-end-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable folder");
    let path = folder.join("plan.toml");
    std::fs::write(&path, PLAN).expect("a writable folder");
    let plan = plan::load(&path, &[]).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    let searches: Vec<(ServerConfig, Settings)> = matrix
        .servers()
        .flat_map(|server| {
            let settings: Vec<Settings> = matrix.searches_of(&server).map(|search| search.settings).collect();
            settings.into_iter().map(move |settings| (server.clone(), settings))
        })
        .collect();
    let (whole, killed) = (folder.join("whole"), folder.join("killed"));
    let status = start(&path, &whole).wait().expect("a child");
    assert!(status.success(), "the sweep failed: {status}");
    let kills = kill_at_every_probe(&path, &killed);
    println!("server                target   truth            answer, interval, runs   killed {kills} times");
    let mut is_true = true;
    let states = [state(&whole), state(&killed)];
    for (position, (server, settings)) in searches.iter().enumerate() {
        let truth = Truth::of(server);
        for target in &settings.targets {
            let limits = [-APART, 0.0, APART].map(|apart| truth.limit(target, settings, apart));
            let found = states.each_ref().map(|state| answer(state, position, target));
            is_true &= found.iter().all(|answer| meets(answer, limits));
            let [whole, killed] = found.map(|answer| show(&answer));
            let truth = format!("{} ({} to {})", limits[1], limits[0], limits[2]);
            let (server, target) = (&server.name, &target.name);
            println!("{server:<21} {target:<8} {truth:<16} {whole:<24} {killed}");
        }
    }
    let follows = states.iter().all(|state| questions_follow(state, &searches));
    println!("every limit within its interval: {is_true}; every question follows from the probes before it: {follows}");
    let _ = std::fs::remove_dir_all(&folder);
    ExitCode::from(u8::from(!(is_true && follows)))
}

fn start(plan: &Path, output: &Path) -> Child {
    let mut vsweep = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    vsweep.arg("run").arg(plan).arg("-o").arg(output).arg("--quiet");
    vsweep
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("vsweep starts")
}

/// Kills the sweep whenever one more probe is recorded, and starts it again, until there is nothing left; how often.
fn kill_at_every_probe(plan: &Path, output: &Path) -> usize {
    let probes = || {
        let journals = std::fs::read_dir(output.join("journal"))
            .into_iter()
            .flatten()
            .flatten();
        let texts = journals.map(|journal| std::fs::read_to_string(journal.path()).unwrap_or_default());
        texts
            .map(|text| text.matches("\"run_finished\"").count())
            .sum::<usize>()
    };
    let mut kills = 0;
    loop {
        let before = probes();
        let mut vsweep = start(plan, output);
        loop {
            if let Some(status) = vsweep.try_wait().expect("a child") {
                assert!(status.success(), "the sweep failed: {status}");
                return kills;
            }
            if probes() > before {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        vsweep.kill().expect("a child");
        vsweep.wait().expect("a child");
        kills += 1;
    }
}

fn state(output: &PathBuf) -> State {
    journal::load(&Directory::open(output).expect("an experiment"), Check::Lengths).expect("sound")
}

fn answer(state: &State, position: usize, target: &Target) -> Answer {
    let record = state.searches().nth(position).expect("every search has begun");
    let Some(SearchEnd::Answered(answers)) = &record.ended else {
        panic!("{record:?} has no answers");
    };
    let mut answers = answers.iter();
    answers
        .find(|answer| answer.target == target.name)
        .expect("one a target")
        .clone()
}

/// Whether the interval holds a limit that the truth allows.
fn meets(answer: &Answer, [lowest, _, highest]: [f64; 3]) -> bool {
    match answer.found {
        Found::Beyond(value) => highest >= value,
        _ => answer.low <= highest && lowest <= answer.high,
    }
}

fn show(answer: &Answer) -> String {
    let value = answer
        .found
        .value()
        .map_or(answer.found.word().to_owned(), |value| value.to_string());
    format!("{value}, {:.0} to {:.0}, {}", answer.low, answer.high, answer.probes)
}

/// Whether each search, given its recorded probes one by one, asks what was asked and answers what was answered.
fn questions_follow(state: &State, searches: &[(ServerConfig, Settings)]) -> bool {
    state.searches().zip(searches).all(|(record, (_, settings))| {
        let mut search = Search::new(settings.clone(), record.started.seed).against(&record.started.rivals);
        let mut probes = state.probes(&record.started.search);
        let is_asked = probes.all(|probe| {
            let is_asked = search.ask() == Next::Probe(probe.question.clone());
            search.tell(probe);
            is_asked
        });
        is_asked && matches!(&record.ended, Some(SearchEnd::Answered(answers)) if search.ask() == Next::Done(answers.clone()))
    })
}

/// A server of the plan in virtual time.
struct Truth {
    simulator: Simulator,
}

impl Truth {
    fn of(server: &ServerConfig) -> Truth {
        let arguments = server.argv.iter().skip_while(|word| *word != "serve").skip(1);
        let flags = Flags::parse(&arguments.cloned().collect::<Vec<String>>()).expect("flags of the simulator");
        let simulator = Simulator::resolve(&flags, &|_| None).expect("settings of the simulator");
        Truth { simulator }
    }

    /// The highest load whose runs meet the target on average, if latencies may be beyond it by `apart`.
    fn limit(&self, target: &Target, settings: &Settings, apart: f64) -> f64 {
        let mut server = VirtualServer::start(&self.simulator).expect("the model fits");
        let (mut pass, mut fail) = (0, MOST + 1);
        while fail - pass > 1 {
            let middle = (pass + fail) / 2;
            match mean_margin(&mut server, target, middle, settings.requests.at(middle as f64)) <= apart {
                true => pass = middle,
                false => fail = middle,
            }
        }
        pass as f64
    }
}

fn mean_margin(server: &mut VirtualServer, target: &Target, load: u64, requests: u64) -> f64 {
    let draws = (0..DRAWS).map(|_| {
        let request = |seed| Request {
            prompt: vec![0; INPUT],
            output_len: OUTPUT,
            seed,
            ..Request::default()
        };
        let simulated = server.drive(Load {
            requests: (0..requests).map(request).collect(),
            due: vec![0; requests as usize],
            limit: Some(load as usize),
            every_token: false,
            delay: DELAY,
        });
        let requests: Vec<_> = simulated.samples.iter().map(latencies).collect();
        let criteria = target.criteria.iter();
        let margins =
            criteria.filter_map(|criterion| Some(criterion.read(Vary::MaxConcurrency, |_| None, &requests)?.margin()));
        margins.fold(f64::NEG_INFINITY, f64::max)
    });
    draws.sum::<f64>() / DRAWS as f64
}
