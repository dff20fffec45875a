//! Servers that are not child processes of vsweep: somebody else runs them on request, as a container engine does. Whatever happens to
//! vsweep, the plan's stop command ends them.

use crate::deadline::output;
use crate::harness::{Harness, journals, rows, said, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// A stand-in for a container engine: it starts and stops servers when clients write files that ask for it.
const ENGINE: &str = r#"
while [ -e orders ]; do
    for order in orders/*.start; do
        [ -e "$order" ] || continue
        name=$(basename "$order" .start); flags=$(cat "$order"); rm "$order"
        "$1" sim serve $flags --sim-speed 20 >"$name.log" 2>&1 &
        echo $! >"up/$name"; echo "$name" >>started
    done
    for order in orders/*.stop; do
        [ -e "$order" ] || continue
        name=$(basename "$order" .stop)
        if [ -e "up/$name" ]; then kill "$(cat "up/$name")"; wait "$(cat "up/$name")"; rm "up/$name"; fi
        rm "$order"
    done
    sleep 0.02
done
for up in up/*; do [ -e "$up" ] && kill "$(cat "$up")"; done
"#;
/// Asks for a server and ends at once, as `docker run -d` does.
const START: &str =
    r#"echo "tiny --port $2" >"orders/$1.new" && mv "orders/$1.new" "orders/$1.start" && echo "asked for $1""#;
/// Asks for the end of a server, and waits for it.
const STOP: &str = r#"echo stopping "$1"; echo "$VSWEEP_TEST_MARKER" >stopped_by; : >"orders/$1.stop"; while [ -e "orders/$1.stop" ]; do sleep 0.02; done"#;

/// The client of a container engine, or of another machine with systemd, for the command lines in docs/recipes.md. It shows the output of a
/// server that it does not own, and the server outlives it.
const CLIENT: &str = r#"#!/bin/bash
until [ $# = 0 ]; do
    case $1 in
    --name | --unit) name=$2; shift ;;
    -p) flags="--port ${2%%:*}"; shift ;;
    serve) shift; flags="$* $flags"; break ;;
    rm | stop) stops=yes ;;
    esac
    last=$1; shift
done
if [ -n "$stops" ]; then exec sh stop.sh "$last"; fi
echo "$flags" >"orders/$name.new"; mv "orders/$name.new" "orders/$name.start"
until [ -s "up/$name" ] && [ -e "$name.log" ]; do sleep 0.02; done
exec tail --pid="$(cat "up/$name")" -n +1 -f "$name.log"
"#;

const PLAN: &str = r#"
runs = 2
starts = 2
[serve]
command = "sh start.sh {name} {port}"
stop_command = "sh stop.sh {name}"
health = "/health"
ready_pattern = "asked for vsweep-"
reset = "POST /reset_prefix_cache"
[bench]
warmup_prompts = 0
[bench.params]
num_prompts = 8
max_concurrency = 2
random_input_len = 8
random_output_len = 4
"#;

struct Engine {
    harness: Harness,
    process: Child,
}

impl Engine {
    fn start() -> Engine {
        let harness = Harness::new();
        for (name, text) in [
            ("engine.sh", ENGINE),
            ("start.sh", START),
            ("stop.sh", STOP),
            ("plan.toml", PLAN),
        ] {
            harness.write(name, text);
        }
        for folder in ["orders", "up"] {
            fs::create_dir(harness.folder.path().join(folder)).expect("a folder");
        }
        let process = Command::new("sh")
            .args(["engine.sh", env!("CARGO_BIN_EXE_vsweep")])
            .current_dir(harness.folder.path())
            .env("VLLM_SERVER_DEV_MODE", "1")
            .stdin(Stdio::null())
            .spawn()
            .expect("a shell");
        Engine { harness, process }
    }

    fn servers(&self) -> usize {
        fs::read_dir(self.harness.folder.path().join("up"))
            .expect("a folder")
            .count()
    }

    fn is_measuring(&self) -> bool {
        journals(&self.harness.folder.path().join("out"))
            .concat()
            .contains("run_started")
    }

    fn rows(&self) -> usize {
        let rows = rows(&self.harness.folder.path().join("out/summary.csv"));
        assert!(rows.iter().all(|row| row["cause"].is_empty()), "{rows:?}");
        rows.len()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.harness.folder.path().join("orders"));
        let _ = self.process.wait();
    }
}

const RUN: [&str; 4] = ["run", "plan.toml", "-o", "out"];

#[test]
fn each_start_has_a_name_of_its_own_and_is_ended_by_it() {
    let engine = Engine::start();
    let output = engine.harness.run(&RUN);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((engine.rows(), engine.servers()), (4, 0));
    let started = fs::read_to_string(engine.harness.folder.path().join("started")).expect("names");
    let names: Vec<&str> = started.lines().collect();
    assert_eq!(names.len(), 2);
    assert!(
        names[0] != names[1] && names.iter().all(|name| name.starts_with("vsweep-")),
        "{names:?}"
    );
    engine.harness.wait_until_alone();
}

#[test]
fn a_killed_vsweep_leaves_no_server_elsewhere() {
    let engine = Engine::start();
    let mut vsweep = engine.harness.start(&RUN);
    wait_for("a run", || engine.is_measuring());
    assert_eq!(engine.servers(), 1);
    vsweep.kill().expect("alive until now");
    vsweep.wait().expect("reaped");
    wait_for("its guard to end the server", || engine.servers() == 0);
    engine.harness.wait_until_alone();
}

#[test]
fn the_next_vsweep_of_the_machine_ends_what_nobody_could_end() {
    let engine = Engine::start();
    let mut vsweep = engine.harness.start(&RUN);
    wait_for("a run", || engine.is_measuring());
    engine.harness.kill_with_guards(&mut vsweep);
    engine.harness.wait_until_alone();
    // A vsweep in another folder, as those of the other tests, may be the next one of the machine.
    let elsewhere = Harness::new();
    elsewhere.write(
        "plan.toml",
        "version = 1\n[serve]\ncommand = \"vsweep sim serve tiny\"\n[bench.params]\nnum_prompts = 4\n",
    );
    let output = elsewhere.run(&RUN);
    assert!(output.status.success(), "{}", said(&output));
    wait_for("the server to be ended", || engine.servers() == 0);
    let stopped_by = fs::read_to_string(engine.harness.folder.path().join("stopped_by")).expect("a marker");
    assert!(
        said(&output)
            .contains("cleared away what a killed vsweep had left: the server that its stop command (sh) ends")
            || !stopped_by.contains(&*elsewhere.folder.path().to_string_lossy()),
        "{}",
        said(&output)
    );
    let output = engine.harness.run(&RUN);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((engine.rows(), engine.servers()), (4, 0));
}

#[test]
fn a_stop_command_that_failed_after_a_kill_is_tried_by_the_next_vsweep() {
    let engine = Engine::start();
    let once = r#"[ -e failed ] || { : >failed; exit 1; }"#;
    engine.harness.write("stop.sh", &format!("{once}\n{STOP}"));
    let mut vsweep = engine.harness.start(&RUN);
    wait_for("a run", || engine.is_measuring());
    vsweep.kill().expect("alive until now");
    vsweep.wait().expect("reaped");
    engine.harness.wait_until_alone();
    assert_eq!(engine.servers(), 1, "its guard could not end it");
    let output = engine.harness.run(&RUN);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((engine.rows(), engine.servers()), (4, 0));
}

#[test]
fn a_stop_command_that_fails_is_told() {
    let engine = Engine::start();
    engine.harness.write("stop.sh", &format!("{STOP}; exit 7"));
    let output = engine.harness.run(&RUN);
    assert!(output.status.success(), "{}", said(&output));
    let servers = engine.harness.folder.path().join("out/servers");
    let logs = fs::read_dir(servers)
        .expect("servers")
        .flatten()
        .flat_map(|server| fs::read_dir(server.path()).expect("logs").flatten());
    let told = logs
        .map(|log| fs::read_to_string(log.path()).expect("text"))
        .collect::<String>();
    assert!(
        told.contains("ended with exit status: 7; its server may still run"),
        "{told}"
    );
}

/// Returns the plan in docs/recipes.md that contains these words, for a model of the simulator.
fn recipe(words: &str) -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/recipes.md")).expect("a page");
    let mut plans = page
        .split("```toml\n")
        .filter_map(|rest| Some(rest.split_once("```")?.0));
    let plan = plans
        .find(|plan| plan.contains(words))
        .expect("a recipe")
        .replace("MODEL", "tiny");
    format!(
        "runs = 1\n{plan}[serve.params]\nmax_num_seqs = [4, 8]\n[bench]\nwarmup_prompts = 0\n[bench.params]\nnum_prompts = 8\n\
         max_concurrency = [1, 2]\nrandom_input_len = 8\nrandom_output_len = 4\n"
    )
}

#[test]
fn the_books_plans_for_containers_and_for_another_machine_leave_no_server_and_go_on() {
    for words in ["docker run", "ssh -L"] {
        let engine = Engine::start();
        let folder = engine.harness.folder.path();
        engine.harness.write("plan.toml", &recipe(words));
        for name in ["docker", "ssh"] {
            let program = engine.harness.write(name, CLIENT);
            fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("executable");
        }
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = engine.harness.vsweep(&RUN);
        command.env("PATH", path);
        let mut vsweep = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        wait_for("a run", || engine.is_measuring());
        assert_eq!(engine.servers(), 1, "{words}");
        vsweep.kill().expect("alive until now");
        vsweep.wait().expect("reaped");
        wait_for("its guard to end the server", || engine.servers() == 0);
        let output = output(&mut command);
        assert!(output.status.success(), "{words}: {}", said(&output));
        assert_eq!((engine.rows(), engine.servers()), (4, 0), "{words}");
        let rows = rows(&folder.join("out/summary.csv"));
        assert!(
            rows.iter().all(|row| !row["codes"].contains("not_as_planned")),
            "the flags arrived: {rows:?}"
        );
        engine.harness.wait_until_alone();
    }
}
