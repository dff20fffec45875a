//! The documentation in `docs/`: its commands run, the flags that it names exist, its tables are complete, and its links are valid.

use crate::deadline::output;
use crate::sim::server::Server;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use vsweep::cause::Cause;
use vsweep::dataset::KINDS;
use vsweep::sim::fault::forms;
use vsweep::sim::flags::names;
use vsweep::validity::Code;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every page for users, with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = fs::read_dir(root().join("docs")).expect("a folder").flatten();
    let docs = docs
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"));
    let others = ["README.md", "SKILL.md"].map(|name| root().join(name));
    let mut pages: Vec<PathBuf> = docs.chain(others).collect();
    pages.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a page");
        (path, text)
    };
    pages.into_iter().map(read).collect()
}

/// Returns the fenced blocks of a page that begin with one of these fences.
fn blocks<'t>(text: &'t str, fences: &[&str]) -> Vec<&'t str> {
    let mut rest = text;
    let mut found = Vec::new();
    while let Some((_, after)) = rest.split_once("\n```") {
        let (fence, body) = after.split_once('\n').unwrap_or((after, ""));
        let (block, after) = body.split_once("\n```").unwrap_or((body, ""));
        if fences.contains(&fence) {
            found.push(block);
        }
        rest = after;
    }
    found
}

/// Blocks marked `sh run` end by themselves, and need neither a GPU nor another program. All of them run one after the other in one folder,
/// as a reader would type them. The page of the first sweep begins in the empty folder; the other pages find the plans of the source tree
/// in it. A simulator replaces the server on port 8000.
#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn commands_run() {
    let mut count = 0;
    let folder = TempDir::new().expect("a folder");
    let vsweep = Path::new(env!("CARGO_BIN_EXE_vsweep")).parent().expect("a folder");
    let others = std::env::var("PATH").unwrap_or_default();
    let server = Server::start(&["--sim-speed", "20"]);
    let mut pages = pages();
    pages.sort_by_key(|(path, _)| !path.ends_with("first-sweep.md"));
    for (at, (path, text)) in pages.into_iter().enumerate() {
        if at == 1 {
            symlink(root().join("plans"), folder.path().join("plans")).expect("a link");
        }
        let scripts = blocks(&text, &["sh run"]);
        count += usize::from(!scripts.is_empty());
        for script in scripts {
            let script = script.replace("http://127.0.0.1:8000", &server.url());
            let ran = output(
                Command::new("bash")
                    .args(["-e", "-c", &script])
                    .current_dir(folder.path())
                    .env("HOME", folder.path())
                    .env("PATH", format!("{}:{others}", vsweep.display())),
            );
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(
                ran.status.success(),
                "{}: {script}: {:?}\n{said}",
                path.display(),
                ran.status
            );
        }
    }
    assert!(count > 5, "the book has pages to type along");
}

/// Plans in the book leave out parts that they do not discuss, such as a server or a load. These are added.
#[test]
fn plans_are_valid() {
    let folder = TempDir::new().expect("a folder");
    let mut checked = 0;
    for (path, text) in pages() {
        for plan in blocks(&text, &["toml"]) {
            fs::write(folder.path().join("plan.toml"), plan).expect("writable");
            let mut check = Command::new(env!("CARGO_BIN_EXE_vsweep"));
            check.args(["check", "plan.toml"]).current_dir(folder.path());
            if !names_server(plan) {
                check.args(["--set", "serve.command=vllm serve m"]);
            }
            if plan.contains("where = { max_concurrency") {
                check.args(["--set", "bench.params.max_concurrency=8"]);
            }
            // A fragment may name parameters that are in another part of the plan.
            for param in [
                "max_concurrency",
                "num_prompts",
                "random_input_len",
                "random_output_len",
            ] {
                if plan.contains(&format!("{{{param}}}")) && !plan.contains(&format!("{param} =")) {
                    check.args(["--set", &format!("bench.params.{param}=8")]);
                }
            }
            let checked_now = output(check.env("PATH", "/nowhere"));
            let said = String::from_utf8_lossy(&checked_now.stderr);
            assert!(checked_now.status.success(), "{}: {plan}: {said}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} plans");
}

fn names_server(plan: &str) -> bool {
    let mut table = "";
    plan.lines().any(|line| {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']);
        }
        let key = format!("{table}.{line}");
        ["serve.command", "serve.url", "serve.combos.command"]
            .iter()
            .any(|name| key.starts_with(name))
    })
}

#[test]
fn flags_exist() {
    let mut helps: HashMap<String, String> = HashMap::new();
    let mut checked = 0;
    for (path, text) in pages() {
        let lines = blocks(&text, &["sh", "sh run"]).join("\n").replace("\\\n", " ");
        for line in lines.lines().filter_map(|line| line.strip_prefix("vsweep ")) {
            let line = line.split(" #").next().unwrap_or_default();
            let ours = line.split(" -- ").next().unwrap_or_default();
            let mut words = ours.split_whitespace();
            let command = words.next().expect("a command").to_owned();
            if matches!(command.as_str(), "sim" | "--version") {
                continue;
            }
            let next = words.clone().next().filter(|next| {
                let all = vsweep::cli::command();
                let command = all.find_subcommand(&command);
                command.is_some_and(|command| command.find_subcommand(next).is_some())
            });
            let command = [Some(&*command), next]
                .into_iter()
                .flatten()
                .collect::<Vec<&str>>()
                .join(" ");
            let help = helps.entry(command.clone()).or_insert_with(|| {
                let subcommand = command.split(' ');
                let said = output(
                    Command::new(env!("CARGO_BIN_EXE_vsweep"))
                        .args(subcommand)
                        .arg("--help"),
                );
                assert!(
                    said.status.success(),
                    "{}: there is no command {command}",
                    path.display()
                );
                String::from_utf8(said.stdout).expect("text")
            });
            for flag in words.filter(|word| word.starts_with("--")) {
                let name = flag.split('=').next().unwrap_or(flag);
                assert!(
                    help.contains(name),
                    "{}: {command} has no {name}: {line}",
                    path.display()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked} flags");
}

#[test]
fn every_cause_and_every_doubt_is_explained() {
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).expect("the page");
    let causes = Cause::ALL.iter().map(|cause| (cause.name(), cause.advice()));
    let doubts = Code::ALL.iter().map(|code| (code.name(), code.advice()));
    for (name, advice) in causes.chain(doubts) {
        let is_told =
            |line: &str| line.starts_with(&format!("| `{name}` |")) && line.ends_with(&format!("| {advice} |"));
        assert!(
            page.lines().any(is_told),
            "docs/troubleshooting.md lacks: | `{name}` | ... | {advice} |"
        );
    }
}

#[test]
fn every_dataset_is_explained() {
    let page = fs::read_to_string(root().join("docs/datasets.md")).expect("the page");
    for kind in KINDS {
        let row = format!("| `{}` |", kind.name);
        assert!(
            page.lines().any(|line| line.starts_with(&row)),
            "docs/datasets.md lacks a row: {row} its requests | its parameters |"
        );
    }
}

#[test]
fn every_flag_and_every_fault_of_the_simulator_is_explained() {
    let page = fs::read_to_string(root().join("docs/simulator.md")).expect("the page");
    let flags = names().into_iter().filter(|name| name.starts_with("--sim-"));
    let words = flags.map(str::to_owned).chain(forms());
    for word in words {
        let is_its =
            |line: &str| line.starts_with(&format!("| `{word}` |")) || line.starts_with(&format!("| `{word} "));
        assert!(
            page.lines().any(is_its),
            "docs/simulator.md lacks a row: | `{word}` | what it does |"
        );
    }
}

/// Returns the anchor that a Markdown viewer makes of a heading: lower case, no punctuation, dashes for spaces.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
        .collect()
}

#[test]
fn links_lead_somewhere_and_no_page_is_hidden() {
    let pages = pages();
    let mut linked = Vec::new();
    for (path, text) in &pages {
        let folder = path.parent().expect("a folder");
        for part in text.split("](").skip(1) {
            let link = part.split(')').next().unwrap_or_default();
            if link.is_empty() || link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if target.is_empty() {
                path.clone()
            } else {
                folder.join(target)
            };
            assert!(file.exists(), "{}: {target} is not there", path.display());
            if !anchor.is_empty() && file.extension().is_some_and(|end| end == "md") {
                let page = fs::read_to_string(&file).expect("a page");
                let mut headings = page.lines().filter(|line| line.starts_with('#'));
                assert!(
                    headings.any(|line| anchor_of(line) == anchor),
                    "{}: no heading of {target} is #{anchor}",
                    path.display()
                );
            }
            if path.ends_with("docs/README.md") {
                linked.push(file.canonicalize().expect("it exists"));
            }
        }
    }
    for (path, _) in pages
        .iter()
        .filter(|(path, _)| path.parent().is_some_and(|folder| folder.ends_with("docs")))
    {
        let is_contents = path.ends_with("docs/README.md");
        assert!(
            is_contents || linked.contains(path),
            "docs/README.md does not list {}",
            path.display()
        );
    }
}
