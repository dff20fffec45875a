//! SIGKILL for each process of a real sweep on a real vLLM, at each moment of its life: nothing is left, and the right cause is found. Each
//! trial starts a server, so this takes hours. `.ci/night real` runs it.

use super::tree::{Marked, VSWEEP};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Limit for a start and the like. A start of vLLM takes a minute on a quiet machine.
const LONG: Duration = Duration::from_secs(40 * 60);
/// Limit for leftovers to disappear: the grace period and a little more.
const SOON: Duration = Duration::from_secs(3 * 60);

const PLAN: &str = r#"
version = 1
runs = 1
[serve]
command = "COMMAND --served-model-name tiny --dtype bfloat16 --max-model-len 2048 --enforce-eager --load-format dummy --max-num-seqs 64"
ready_timeout = "40m"
stop_grace = "10s"
hang_timeout = "20m"
[bench]
timeout = "2h"
[bench.params]
dataset_name = "random"
random_input_len = 32
random_output_len = 1024
num_prompts = 5000
max_concurrency = 8
"#;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Vsweep,
    Guard,
    Both,
    Api,
    Engine,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    Start,
    Load,
    Stop,
}

/// One sweep and its processes.
struct Trial {
    marked: Marked,
    vsweep: Child,
    began: Instant,
}

impl Trial {
    fn begin() -> Trial {
        let marked = Marked::new("campaign");
        fs::write(marked.path("plan.toml"), PLAN.replace("COMMAND", &command())).expect("written");
        let vsweep = Trial::run(&marked, "first");
        Trial {
            marked,
            vsweep,
            began: Instant::now(),
        }
    }

    fn run(marked: &Marked, said: &str) -> Child {
        let said = File::create(marked.path(said)).expect("a file");
        let mut vsweep = Command::new(VSWEEP);
        vsweep
            .args(["run", "plan.toml", "-o", "out", "--format", "plain"])
            .current_dir(marked.folder.path())
            .envs(&marked.env)
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a file"))
            .stderr(said);
        vsweep.spawn().expect("vsweep starts")
    }

    fn said(&self, file: &str) -> String {
        fs::read_to_string(self.marked.path(file)).unwrap_or_default()
    }

    fn waits_for(&mut self, what: &str, limit: Duration, holds: impl Fn(&Trial) -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !holds(self) {
            if start.elapsed() > limit {
                return Err(format!("waited in vain for {what}: {}", self.said("first")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Pids of the processes of a victim; empty before they exist.
    fn pids(&self, victim: Victim) -> Vec<i32> {
        let vsweep = self.vsweep.id() as i32;
        let found = |wanted: &dyn Fn(i32) -> bool| self.marked.alive().into_iter().filter(|pid| wanted(*pid)).collect();
        let is_guard = |pid| text(pid, "comm").trim() == "server-guard";
        match victim {
            Victim::Vsweep => vec![vsweep],
            Victim::Guard => found(&is_guard),
            Victim::Both => match &self.pids(Victim::Guard)[..] {
                [] => vec![],
                guards => [guards, &[vsweep]].concat(),
            },
            Victim::Api => {
                let guards = self.pids(Victim::Guard);
                found(&|pid| guards.contains(&parent(pid)) && !text(pid, "cmdline").contains("--lead-for"))
            }
            Victim::Engine => found(&|pid| text(pid, "cmdline").starts_with("VLLM::EngineCore")),
        }
    }

    /// Shared memory that the trial's processes hold, and vLLM's rendezvous files.
    fn held(&self) -> BTreeSet<PathBuf> {
        let maps = self.marked.alive().into_iter().map(|pid| text(pid, "maps"));
        let mapped = maps.flat_map(|maps| {
            let at = |line: &str| line.find("/dev/shm/").map(|at| PathBuf::from(&line[at..]));
            maps.lines().filter_map(at).collect::<Vec<_>>()
        });
        let folder = fs::read_dir(self.marked.folder.path()).into_iter().flatten().flatten();
        let rendezvous = folder
            .map(|entry| entry.path())
            .filter(|path| path.display().to_string().contains("vllm_dist_"));
        mapped.chain(self.marked.segments()).chain(rendezvous).collect()
    }

    /// Port on the command line of the server.
    fn port(&self) -> Option<u16> {
        let arguments = text(*self.pids(Victim::Guard).first()?, "cmdline");
        arguments
            .split('\0')
            .skip_while(|word| *word != "--port")
            .nth(1)?
            .parse()
            .ok()
    }

    fn reach(&mut self, moment: Moment, victim: Victim, number: u32) -> Result<(), String> {
        // The first kill comes as soon as the victim exists, the second as soon as the engine does, later ones some seconds after that.
        let awaited = if number == 0 { victim } else { Victim::Engine };
        self.waits_for("the process to kill", LONG, |trial| !trial.pids(awaited).is_empty())?;
        std::thread::sleep(Duration::from_secs(u64::from(number / 2 * 3)));
        if moment == Moment::Start {
            return Ok(());
        }
        self.waits_for("requests", LONG, |trial| !trial.events("run_started").is_empty())?;
        std::thread::sleep(Duration::from_secs(2 + 2 * u64::from(number)));
        if moment == Moment::Stop {
            // With requests in flight a real vLLM takes long to end, if it ends at all.
            self.interrupt();
            self.waits_for("the stop", LONG, |trial| {
                trial.said("first").contains("stopping the server")
            })?;
            std::thread::sleep(Duration::from_millis(500) * number);
        }
        Ok(())
    }

    /// The recorded events of one kind. A line that is still being written is left out.
    fn events(&self, kind: &str) -> Vec<Value> {
        let journals = fs::read_dir(self.marked.path("out/journal"));
        let journals = journals.into_iter().flatten().flatten();
        let text: String = journals
            .map(|entry| fs::read_to_string(entry.path()).unwrap_or_default())
            .collect();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let events = lines.filter_map(|line| line["event"].get(kind).cloned());
        events.collect()
    }

    fn interrupt(&self) {
        let _ = kill(Pid::from_raw(self.vsweep.id() as i32), Signal::SIGTERM);
    }

    fn ended(&mut self) -> Result<Option<i32>, String> {
        let start = Instant::now();
        loop {
            match self.vsweep.try_wait() {
                Ok(Some(status)) => return Ok(status.code()),
                _ if start.elapsed() > LONG => return Err(format!("vsweep does not end: {}", self.said("first"))),
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The cause that vsweep recorded for the end of its server, with its details.
    fn cause(&self) -> Option<String> {
        let exits = self.events("server_exited").into_iter();
        let mut causes =
            exits.filter_map(|exit| Some(format!("{}: {}", exit["cause"].as_str()?, exit["detail"].as_str()?)));
        causes.next()
    }

    /// Kills the victim at the moment, waits for the end of everything, and returns a short summary. The error says what went wrong.
    fn perform(&mut self, victim: Victim, moment: Moment, number: u32) -> Result<String, String> {
        self.reach(moment, victim, number)?;
        let (held, port) = (self.held(), self.port());
        let inventory = format!("vsweep-{}.", self.vsweep.id());
        let victims = self.pids(victim);
        if moment == Moment::Load && held.is_empty() {
            return Err("a server under load holds no shared memory: the trial has lost its meaning".into());
        }
        // Both are stopped first, so that neither can react to the other's end. The guard dies first, because the kernel continues a stopped
        // process whose parent dies.
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            for pid in &victims {
                let _ = kill(Pid::from_raw(*pid), signal);
            }
        }
        let killed = Instant::now();
        let told = self.see_through(victim, moment)?;
        self.waits_for("every process to end", SOON, |trial| trial.marked.alive().is_empty())?;
        let gone = killed.elapsed();
        let is_noted = || {
            let shared = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
            let mut names = shared.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.any(|name| name.starts_with(&inventory))
        };
        self.waits_for("the shared memory to go", SOON, |_| {
            !is_noted() && held.iter().all(|path| !path.exists())
        })
        .map_err(|_| {
            format!(
                "left behind: {:?}",
                held.iter().filter(|path| path.exists()).collect::<Vec<_>>()
            )
        })?;
        if let Some(port) = port {
            TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
        }
        Ok(format!(
            "{told}; {} segments, all gone after {:.1} s",
            held.len(),
            gone.as_secs_f64()
        ))
    }

    fn see_through(&mut self, victim: Victim, moment: Moment) -> Result<String, String> {
        match (victim, moment) {
            (Victim::Vsweep, _) => {
                self.ended()?;
                Ok("the guard ended the tree".into())
            }
            (Victim::Both, _) => {
                self.ended()?;
                let starts = self.events("server_starting").len();
                self.vsweep = Trial::run(&self.marked, "second");
                self.waits_for("the next start", LONG, |trial| {
                    trial.events("server_starting").len() > starts
                })?;
                self.interrupt();
                let code = self.ended()?;
                let said = self.said("second");
                let cleared = said.lines().find(|line| line.contains("cleared away"));
                let cleared = cleared.map_or("nothing to clear away", |line| line.split(": ").nth(1).unwrap_or(line));
                (code == Some(130))
                    .then(|| format!("next start: {cleared}"))
                    .ok_or(said)
            }
            (_, Moment::Stop) => match self.ended()? {
                Some(130) => Ok("interrupted, as asked".into()),
                other => Err(format!("exit code {other:?}: {}", self.said("first"))),
            },
            (_, Moment::Start | Moment::Load) => {
                let (cause, code) = match moment {
                    Moment::Start => ("crashed_starting", Some(3)),
                    _ => ("crashed_under_load", Some(130)),
                };
                self.waits_for("the cause", LONG, |trial| trial.cause().is_some())?;
                if moment == Moment::Load {
                    // Otherwise the run would be tried once more.
                    self.interrupt();
                }
                let (ended, told) = (self.ended()?, self.cause().unwrap_or_default());
                let names_guard = told.contains("its guard") == (victim == Victim::Guard);
                match ended == code && told.starts_with(cause) && names_guard {
                    true => Ok(told.chars().take(90).collect()),
                    false => Err(format!("exit code {ended:?}, {told}")),
                }
            }
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = self.vsweep.kill();
        let _ = self.vsweep.wait();
    }
}

fn command() -> String {
    let vllm = std::env::var("VSWEEP_VLLM").unwrap_or_else(|_| "vllm".into());
    let model = std::env::var("TINY_MODEL").expect("TINY_MODEL names a small model's folder (.ci/night)");
    format!("{vllm} serve {model}")
}

fn text(pid: i32, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parent(pid: i32) -> i32 {
    let status = text(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.and_then(|parent| parent.trim().parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "needs a real vLLM and hours; .ci/night runs it"]
fn no_kill_leaves_anything_of_a_real_server() {
    let times = std::env::var("VSWEEP_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    let mut bad = 0;
    println!("| victim | moment | | result |\n| --- | --- | --- | --- |");
    for victim in [Victim::Vsweep, Victim::Guard, Victim::Both, Victim::Api, Victim::Engine] {
        for moment in [Moment::Start, Moment::Load, Moment::Stop] {
            for number in 0..times {
                let mut trial = Trial::begin();
                let result = trial.perform(victim, moment, number);
                bad += u32::from(result.is_err());
                let result = result.unwrap_or_else(|wrong| format!("WRONG: {}", wrong.replace('\n', " / ")));
                let seconds = trial.began.elapsed().as_secs();
                println!(
                    "| {victim:?} | {moment:?} | {} | {result} ({seconds} s in all) |",
                    number + 1
                );
            }
        }
    }
    assert_eq!(bad, 0, "{bad} kills went wrong");
}
