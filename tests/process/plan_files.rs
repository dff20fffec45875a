//! Plans made of several files, overrides and variables, and the output of `vsweep plan`: it never shows a secret, and a shell reads its
//! lines back unchanged.

use crate::deadline::{self, ended, output};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use vsweep::plan::{self, Axis, Plan, Target};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn load(folder: &TempDir, name: &str, overrides: &[&str]) -> Plan {
    let overrides: Vec<String> = overrides.iter().map(|text| text.to_string()).collect();
    let plan = plan::load(&folder.path().join(name), &overrides);
    plan.unwrap_or_else(|problems| panic!("{problems}"))
}

fn param<'a>(plan: &'a Plan, name: &str) -> &'a Axis {
    &plan
        .serve
        .params
        .iter()
        .find(|(key, _)| key == name)
        .expect("a parameter")
        .1
}

fn vsweep(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command
        .current_dir(folder)
        .args(args)
        .env("MY_TOKEN", "tell-nobody")
        .env("NO_COLOR", "1");
    output(&mut command)
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn a_plan_extends_another_key_by_key() {
    let folder = folder(&[
        (
            "base.toml",
            "runs = 7\n[serve]\ncommand = 'vllm serve m'\nenv = { A = '1', B = '2' }\n[serve.params]\nx = { from = 1, to = 9, step = 1 }\ny = 5\n",
        ),
        (
            "middle.json",
            r#"{"extends": "base.toml", "serve": {"env": {"B": "3"}}}"#,
        ),
        (
            "plan.toml",
            "extends = 'middle.json'\n[serve]\nurl = 'http://h:1/'\n[serve.params]\nx = { value = [1] }\n",
        ),
    ]);
    let plan = load(&folder, "plan.toml", &[]);
    assert_eq!((plan.name.as_str(), plan.runs.least()), ("plan", 7));
    assert_eq!(plan.serve.target, Target::Attach("http://h:1".into()));
    assert_eq!(plan.serve.env.values().collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!(*param(&plan, "x"), Axis::Fixed(json!([1])));
    assert_eq!(*param(&plan, "y"), Axis::Fixed(json!(5)));

    // The copy that is kept with the results needs no other file.
    fs::write(folder.path().join("kept.toml"), plan.redacted_text()).expect("a file");
    let kept = load(&folder, "kept.toml", &[]);
    assert_eq!((kept.runs.least(), &kept.serve.env), (7, &plan.serve.env));
}

#[test]
fn overrides_are_toml_values_or_texts() {
    let folder = folder(&[(
        "plan.toml",
        "# mine\n[serve]\ncommand = 'vllm serve m'\n[serve.params]\nx = [1, 2]\n",
    )]);
    let plan = load(
        &folder,
        "plan.toml",
        &[
            "runs=5",
            "serve.params.x=[8, 64]",
            "serve.params.dtype=half",
            "serve.params.\"a.b\"=true",
            "name=n",
            "serve.params.json={\"a\": 1}",
        ],
    );
    assert_eq!((plan.runs.least(), plan.name.as_str()), (5, "n"));
    assert_eq!(*param(&plan, "x"), Axis::Values(vec![json!(8), json!(64)]));
    assert_eq!(*param(&plan, "dtype"), Axis::Fixed(json!("half")));
    assert_eq!(*param(&plan, "a.b"), Axis::Fixed(json!(true)));
    assert_eq!(*param(&plan, "json"), Axis::Fixed(json!("{\"a\": 1}")));
    assert!(plan.text.contains("runs = 5"));
    assert!(load(&folder, "plan.toml", &[]).text.starts_with("# mine"));

    let refused = plan::load(
        &folder.path().join("plan.toml"),
        &[
            "run=5".into(),
            "x".into(),
            "=3".into(),
            "serve.params.x=[8,".into(),
            "name=\"n".into(),
        ],
    );
    let shown = refused.expect_err("refused").to_string();
    for part in [
        "--set:1:1",
        "did you mean `runs`?",
        "this override has no `=`",
        "the key of this override is not a dotted name",
        "--set:1:16",
        "close it, or put a string in quotes",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}

#[test]
fn parameter_files_come_in_both_of_vllms_forms() {
    let folder = folder(&[
        (
            "list.json",
            r#"[{"max_num_seqs": 8}, {"_benchmark_name": "wide", "max_num_seqs": 64, "cudagraph_capture_sizes": [1, 2]}]"#,
        ),
        (
            "named.json",
            r#"{"short": {"random_input_len": 128}, "long": {"random_input_len": 4096}}"#,
        ),
        (
            "plan.toml",
            "[serve]\ncommand = 'vllm serve m'\nparams_file = 'list.json'\n[bench]\nparams_file = 'named.json'\n[bench.params]\nmax_concurrency = [1, 2]\n",
        ),
    ]);
    let plan: Value = serde_json::from_str(&stdout(&vsweep(
        folder.path(),
        &["plan", "plan.toml", "--format", "json"],
    )))
    .expect("JSON");
    let names: Vec<&str> = plan["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .map(|s| s["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["max_num_seqs=8", "wide"]);
    assert_eq!(
        plan["servers"][1]["argv"],
        json!([
            "vllm",
            "serve",
            "m",
            "--max-num-seqs",
            "64",
            "--cudagraph-capture-sizes",
            "1",
            "2"
        ])
    );
    assert_eq!(plan["points"].as_array().expect("points").len(), 8);
}

const SECRETIVE: &str = r#"
runs = 2
secrets = ["upstream"]
[serve]
command = "vllm serve m --api-key literal-key"
env = { HF_TOKEN = "${MY_TOKEN}", DB_PASSWORD = "pw", PLAIN = "a b" }
[serve.params]
served_model_name = "it's ${HOME_MODEL:-x y}"
hf_overrides = { value = { upstream = { alice = "alices-key" } } }
[bench]
command = "vllm bench serve"
[bench.params]
header = { value = ["Authorization=Bearer abc123", "X-Trace=on"] }
max_concurrency = [1, 2]
"#;

#[test]
fn secrets_are_never_shown() {
    let folder = folder(&[("plan.toml", SECRETIVE)]);
    let plan = load_with_token(&folder);
    let mut shown = vec![plan.redacted_text()];
    for format in ["text", "json", "sh"] {
        shown.push(stdout(&vsweep(
            folder.path(),
            &["plan", "plan.toml", "--format", format],
        )));
    }
    for text in shown {
        for secret in ["tell-nobody", "literal-key", "\"pw\"", "abc123", "alices-key"] {
            assert!(!text.contains(secret), "{secret} is in\n{text}");
        }
    }
    assert!(plan.redacted_text().contains("${MY_TOKEN}"));
}

#[test]
fn secrets_that_are_written_with_escapes_are_not_kept() {
    let toml = r#"
[serve]
command = "vllm serve m"
health = "/health?api_key=pl\u0061nted-1"
env = { DB = "Server=x;Pwd=pw\u0026planted-2;", "x-pl\u0061nted-4" = "a" }
[bench.params]
extra_body = { value = { note = "pl\u0061nted-4" } }
header = { value = ["X-Api-Key=K\u00e9\u007fplanted-3", "X-Token=planted\\4planted-4", "Cookie=planted-4"] }
"#;
    let json = r#"{"serve": {"command": "vllm serve m", "env": {"DB": "Server=x;Pwd=pw\u0026planted-2;"}},
        "bench": {"params": {"header": {"value": ["X-Api-Key=ab\/cd\/planted-1", "X-Token=\u00e9\"planted-3"]}}}}"#;
    for (text, format) in [(toml, plan::Format::Toml), (json, plan::Format::Json)] {
        let read = |text: &str| plan::parse(text, format, Path::new("plan"), &plan::World::real()).expect("valid");
        let kept = read(text).redacted_text();
        assert!(!kept.contains("nted-"), "{kept}");
        assert!(
            kept.contains("\"X-Api-Key=***\"") && kept.contains("\"Server=x;Pwd=***;\""),
            "{kept}"
        );
        read(&kept);
    }
}

/// The secret values contain `planted`. Each case has the part of a line that a reader must still see.
#[test]
fn problems_show_lines_without_their_secrets() {
    let wrong = r#"
[serve]
command = "vsweep sim serve m --api-key planted-1 --json '{\"apiKey\": \"planted-2\"}' 'open"
url = "http://u:planted-3@h:1/?key=planted-4"
[serve.env]
HF_TOKENS = [["planted-5"], "planted-6"]
GH_PAT = { value = "planted-7" }
OWN = [["planted-8"]]
"#;
    let cases = [
        ("wrong.toml", wrong.to_owned(), "h:1/?key=***\""),
        (
            "own.toml",
            format!("secrets = ['OWN']\n{wrong}OTHER = 'planted-8'\n"),
            "OWN = [[\"***\"]]",
        ),
        ("broken.toml", "DB_PASS = planted-9\n".to_owned(), "DB_PASS = ***"),
        (
            "broken.json",
            "{\"api_key\": \"planted-10\" x".to_owned(),
            "\"api_key\": \"***\" x",
        ),
    ];
    for (name, text, expected) in cases {
        let folder = folder(&[(name, &text)]);
        let checked = vsweep(
            folder.path(),
            &["check", name, "--set", "serve.env.GIT_TOKEN=[[1], 'planted-11']"],
        );
        let said = String::from_utf8_lossy(&checked.stderr);
        let leaked = said
            .lines()
            .find(|line| line.contains("planted") && !(name == "wrong.toml" && line.contains("OWN")));
        assert_eq!(leaked, None, "{name}:\n{said}");
        assert!(
            checked.status.code() == Some(2) && said.contains(expected),
            "{name}:\n{said}"
        );
    }
}

fn load_with_token(folder: &TempDir) -> Plan {
    let mut world = plan::World::real();
    world.vars.insert("MY_TOKEN".into(), "tell-nobody".into());
    let text = fs::read_to_string(folder.path().join("plan.toml")).expect("a text");
    plan::parse(&text, plan::Format::Toml, Path::new("plan.toml"), &world).expect("valid")
}

/// Writes a shell script that replaces a program.
fn stand_in(folder: &TempDir, name: &str, script: &str) {
    let path = folder.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

fn shell(folder: &TempDir, script: &str) -> Command {
    let inherited = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .args(["-euc", script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{inherited}", folder.path().display()));
    shell
}

#[test]
fn shell_lines_are_read_back_by_a_shell() {
    let folder = folder(&[("plan.toml", SECRETIVE)]);
    let script = stdout(&vsweep(folder.path(), &["plan", "plan.toml", "--format", "sh"]));
    assert!(
        script.contains("set these variables first: API_KEY AUTHORIZATION DB_PASSWORD HF_TOKEN"),
        "{script}"
    );
    // The scripts replace vLLM and curl. `vllm` prints its arguments and environment, and as a server is ready once it has done so.
    stand_in(
        &folder,
        "vllm",
        "printf '[%s]' \"$@\" \"$PLAIN\" \"$HF_TOKEN\"; echo\nif [ \"$1\" = serve ]; then touch ready; exec sleep 600; fi",
    );
    stand_in(
        &folder,
        "curl",
        "test -e ready && echo '{\"data\": [{\"id\": \"m\", \"root\": \"/m\"}]}'",
    );
    let mut shell = shell(&folder, &script);
    shell
        .env("HF_TOKEN", "T")
        .env("DB_PASSWORD", "P")
        .env("API_KEY", "K")
        .env("AUTHORIZATION", "A")
        .env("UPSTREAM", "U");
    let lines = stdout(&output(&mut shell));
    let results = folder.path().join("results/plan-by-hand");
    let log = fs::read_dir(results).expect("a folder").next().expect("a log");
    let log = fs::read_to_string(log.expect("readable").path()).expect("text");
    assert_eq!(
        log.trim_end(),
        "[serve][m][--api-key][K][--served-model-name][it's x y][--hf-overrides][{\"upstream\": {\"alice\": \"U\"}}]\
         [--host][127.0.0.1][--port][8000][a b][T]"
    );
    let runs: Vec<&str> = lines.lines().filter(|line| line.starts_with("[bench]")).collect();
    assert_eq!(runs.len(), 4, "two points, two runs of each: {lines}");
    for part in [
        "[--header][Authorization=A][X-Trace=on][--max-concurrency][1]",
        "[--host][127.0.0.1][--port][8000][--result-dir][results/plan-by-hand][--result-filename]",
        "-1.json][--model][/m][--served-model-name][m]",
    ] {
        assert!(runs[1].contains(part), "{part} is not in {}", runs[1]);
    }
}

#[test]
fn a_script_measures_what_the_plan_does() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    drop(socket);
    let serve = format!(
        "runs = 2\n[serve]\ncommand = 'vsweep sim serve by-hand-{port} --port {port}'\n[serve.params]\nmax_num_seqs = [8, 64]\n"
    );
    let native =
        "[bench.params]\nrandom_input_len = 8\nrandom_output_len = 2\nnum_prompts = 2\nsave_detailed = false\n";
    let command = "[bench]\ncommand = 'load {base_url} {model} {result}'\n";
    let folder = folder(&[
        ("native.toml", &format!("{serve}{native}")),
        ("command.toml", &format!("{serve}{command}")),
    ]);
    stand_in(
        &folder,
        "load",
        "echo \"{\\\"completed\\\": 1, \\\"seen\\\": \\\"$1 $2\\\"}\" >\"$3\"",
    );
    for name in ["native", "command"] {
        let script = stdout(&vsweep(
            folder.path(),
            &["plan", &format!("{name}.toml"), "--format", "sh"],
        ));
        stdout(&output(&mut shell(&folder, &script)));
        let results = fs::read_dir(folder.path().join(format!("results/{name}-by-hand"))).expect("a folder");
        let results = results.map(|entry| entry.expect("readable").path());
        let results = Vec::from_iter(results.filter(|path| path.extension().is_some_and(|end| end == "json")));
        assert_eq!(results.len(), 4, "two servers, two runs of a point");
        for path in results {
            let result: Value = serde_json::from_slice(&fs::read(path).expect("a result")).expect("JSON");
            match name {
                "native" => assert_eq!(result["completed"], 2),
                _ => assert_eq!(result["seen"], format!("http://127.0.0.1:{port} by-hand-{port}")),
            }
        }
        let is_ours = |line: Vec<u8>| String::from_utf8_lossy(&line).contains(&format!("by-hand-{port}"));
        let left = fs::read_dir("/proc").expect("a list of processes").flatten();
        let left = left.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(is_ours));
        assert_eq!(left.count(), 0, "processes are left");
    }
}

#[test]
fn a_script_has_the_port_the_node_and_the_routes_of_its_server() {
    let text = "[serve]\ncommand = 'python -m sglang.launch_server --model m --port 9000 --dist-init-addr {head}:5'\n\
                stop_command = 'stop {name} {port}'\n\
                [bench.params]\nrandom_input_len = 8\nrandom_output_len = 2\nnum_prompts = 2\n";
    let folder = folder(&[("plan.toml", text)]);
    let script = stdout(&vsweep(folder.path(), &["plan", "plan.toml", "--format", "sh"]));
    for part in [
        "curl -fsS -o /dev/null -X POST http://127.0.0.1:9000/flush_cache",
        " 9000; }",
        "\nhead=${SLURMD_NODENAME:-$(uname -n)}\n",
        "\nexport VLLM_SERVER_DEV_MODE=\"${VLLM_SERVER_DEV_MODE-1}\"\n",
        "--dist-init-addr \"$head\":5",
    ] {
        assert!(script.contains(part), "{part} is not in {script}");
    }
    assert!(!script.contains("{head}"), "{script}");
}

#[test]
fn values_of_points_that_are_not_listed_are_not_claimed() {
    let text = "[serve]\ncommand = 'vllm serve m'\n[bench.params]\nrandom_input_len = [128, 1024]\n\
                num_prompts = 1000\nmax_concurrency = { from = 1, to = 250, step = 1 }\n";
    let folder = folder(&[("plan.toml", text)]);
    let listed = stdout(&vsweep(folder.path(), &["plan", "plan.toml"]));
    let common = listed.lines().find(|line| line.contains("random_input_len=128"));
    assert!(
        common.is_some_and(|line| line.starts_with("  every listed point: ")),
        "{listed}"
    );
    assert!(listed.contains("... and 300 more points"), "{listed}");
}

#[test]
fn an_interrupted_script_goes_to_no_further_server() {
    let text = "runs = 500\n[serve]\ncommand = 'vsweep sim serve m --sim-zero --sim-start 10ms'\n\
                [serve.params]\nport = PORT\nmax_num_seqs = [8, 64]\n\
                [bench.params]\nrandom_input_len = 8\nrandom_output_len = 2\nnum_prompts = 2\n";
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    drop(socket);
    let folder = folder(&[("plan.toml", &text.replace("PORT", &address.port().to_string()))]);
    let script = stdout(&vsweep(folder.path(), &["plan", "plan.toml", "--format", "sh"]));
    // A shell cannot catch a signal that was ignored when it started, as it may be for tests in the background.
    let mut shell = Command::new("env");
    shell
        .args(["--default-signal=INT", "sh", "-uc", &script])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .process_group(0);
    let mut shell = shell.spawn().expect("a shell runs");
    let results = folder.path().join("results/plan-by-hand");
    let count = |end: &str| {
        let files = fs::read_dir(&results).into_iter().flatten().flatten();
        files
            .filter(|file| file.path().extension().is_some_and(|it| it == end))
            .count()
    };
    while count("json") == 0 {
        assert_eq!(shell.try_wait().expect("a state"), None, "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // As with Ctrl-C, the whole group gets the signal.
    let group = nix::unistd::Pid::from_raw(shell.id() as i32);
    nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGINT).expect("it runs");
    assert_eq!(ended(&mut shell).code(), Some(130));
    assert_eq!(count("log"), 1, "one server was started");
    TcpListener::bind(address).expect("the server is gone");
}

#[test]
fn a_broken_plan_ends_with_exit_code_2() {
    let folder = folder(&[("plan.toml", "[serve]\ncomand = 'x'\n")]);
    for args in [["check", "plan.toml"], ["plan", "plan.toml"], ["check", "none.toml"]] {
        let output = vsweep(folder.path(), &args);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let text = "[serve]\ncommand = 'v'\n[bench.params]\nrandom_input_len = { from = 1, to = 100000, step = 1 }\n";
    let folder = folder(&[("plan.toml", text)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command
        .current_dir(folder.path())
        .args(["plan", "plan.toml", "--format", "json"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vsweep runs");
    drop(child.stdout.take());
    let output = deadline::output_of(child);
    assert!(output.status.success() && output.stderr.is_empty());
}
