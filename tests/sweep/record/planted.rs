//! Files that other users could have made, in an experiment directory, next to it and in `/dev/shm`: vsweep neither waits for them nor
//! follows or deletes them.

use crate::harness::{Harness, journal_files, run_files, said, wait_for};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const PLAN: &str = r#"
version = 1

[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 50"

[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = [1, 2]
num_prompts = 4
"#;

/// Measures an experiment, and returns the path of its plan.
fn measured(harness: &Harness) -> String {
    let plan = harness.write("plan.toml", PLAN).display().to_string();
    let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
    assert!(ran.status.success(), "{}", said(&ran));
    plan
}

fn pipe_at(path: &Path) {
    let _ = fs::remove_file(path);
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).expect("made");
}

#[test]
fn pipes_in_an_experiment_stop_nobody() {
    let harness = Harness::new();
    let plan = measured(&harness);
    let out = harness.folder.path().join("out");
    let point = run_files(&out)[0].parent().expect("a folder").to_owned();
    for path in [
        out.join("journal/00000000000000aa.jsonl"),
        point.join("0.9-00000000000000aa-9.json"),
        out.join("plan.toml"),
        out.join("manifest.json"),
    ] {
        pipe_at(&path);
    }
    for command in ["status", "verify", "report"] {
        let done = harness.run(&[command, "out"]);
        let said = said(&done);
        for name in ["00000000000000aa.jsonl", "manifest.json", "plan.toml"] {
            assert!(
                said.contains(&format!("{name} is not read: it is a pipe")),
                "{command}: {said}"
            );
        }
    }
    let refused = harness.run(&["run", &plan, "-o", "out"]);
    assert!(
        said(&refused).contains("it is a pipe and no regular file; remove it"),
        "{}",
        said(&refused)
    );
}

#[test]
fn nothing_is_written_through_links_and_files_of_others_stay() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", PLAN).display().to_string();
    let at = |name: &str| harness.folder.path().join(name);
    for name in ["lock", "manifest.json", "plan.toml", "summary.csv", "report.html"] {
        fs::create_dir(at("out")).expect("made");
        harness.write("precious", "mine");
        symlink("../precious", at("out").join(name)).expect("linked");
        let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
        assert!(said(&ran).contains("it is a link"), "{name}: {}", said(&ran));
        assert_eq!(fs::read_to_string(at("precious")).expect("there"), "mine", "{name}");
        fs::remove_dir_all(at("out")).expect("ours");
    }
    for name in ["charts", "best", "servers", "journal", "runs"] {
        fs::create_dir(at("out")).expect("made");
        fs::create_dir(at("elsewhere")).expect("made");
        harness.write("elsewhere/mine.yaml", "mine");
        symlink("../elsewhere", at("out").join(name)).expect("linked");
        let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
        assert!(said(&ran).contains("it is a link"), "{name}: {}", said(&ran));
        assert_eq!(fs::read_dir(at("elsewhere")).expect("there").count(), 1, "{name}");
        fs::remove_dir_all(at("out")).expect("ours");
        fs::remove_dir_all(at("elsewhere")).expect("ours");
    }
}

#[test]
fn a_report_deletes_only_what_a_report_wrote() {
    let harness = Harness::new();
    measured(&harness);
    let at = |name: &str| harness.folder.path().join("out").join(name);
    let mine = ["best/mine.yaml", "charts/mine.png", "charts/mine.svg"];
    for name in mine {
        fs::copy(
            fs::read_dir(at("best"))
                .expect("there")
                .flatten()
                .next()
                .expect("a file")
                .path(),
            at(name),
        )
        .expect("copied");
    }
    // A chart of an earlier report, which this report does not draw.
    let listed = fs::read_to_string(at("written.txt")).expect("listed");
    fs::write(
        at("written.txt"),
        listed + "charts/gone.png\ncharts/../plan.toml\nplan.toml\n",
    )
    .expect("ours");
    fs::write(at("charts/gone.png"), "").expect("ours");
    let made = harness.run(&["report", "out"]);
    assert!(made.status.success(), "{}", said(&made));
    assert!(!at("charts/gone.png").exists() && at("plan.toml").exists());
    for name in mine {
        assert!(at(name).exists(), "{name}");
    }
}

#[test]
fn neighbours_neither_hang_nor_fill_the_memory() {
    let harness = Harness::new();
    measured(&harness);
    let at = |name: &str| harness.folder.path().join(name);
    let manifest = fs::read_to_string(at("out/manifest.json")).expect("written");
    for name in ["piped", "evil"] {
        fs::create_dir_all(at(name).join("journal")).expect("made");
    }
    pipe_at(&at("piped/manifest.json"));
    fs::write(at("evil/manifest.json"), manifest).expect("written");
    pipe_at(&at("evil/journal/00000000000000aa.jsonl"));
    fs::create_dir_all(at("huge/journal")).expect("made");
    let huge = fs::File::create(at("huge/manifest.json")).expect("made");
    huge.set_len(1 << 40).expect("sparse");
    let made = harness.run(&["report", "out"]);
    assert!(made.status.success(), "{}", said(&made));
}

/// Any user of the machine can make files in `/dev/shm`.
#[test]
fn pipes_in_shared_memory_stop_no_sweep() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", PLAN).display().to_string();
    let presence = Path::new("/dev/shm").join(format!(".vsweep-server-pipe{}", std::process::id()));
    pipe_at(&presence);
    let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
    fs::remove_file(&presence).expect("ours");
    assert!(ran.status.success(), "{}", said(&ran));
}

#[test]
fn a_pipe_as_the_result_of_a_benchmark_is_a_failed_run() {
    let harness = Harness::new();
    let command = "\n[bench]\ncommand = [\"sh\", \"-c\", \"mkfifo {result}\"]\n\n[bench.params]";
    let plan = PLAN
        .replace("\n[bench.params]", command)
        .replace("max_concurrency = [1, 2]", "max_concurrency = 1");
    let plan = harness.write("plan.toml", &plan).display().to_string();
    let ran = harness.run(&["run", "-q", &plan, "-o", "out"]);
    let rows = fs::read_to_string(harness.folder.path().join("out/summary.csv")).expect("written");
    assert!(
        rows.contains("it is a pipe and no regular file"),
        "{rows}\n{}",
        said(&ran)
    );
    assert_eq!(journal_files(&harness.folder.path().join("out")).len(), 1);
}

#[test]
fn no_picture_is_drawn_through_a_link() {
    let harness = Harness::new();
    measured(&harness);
    let at = |name: &str| harness.folder.path().join(name);
    fs::create_dir(at("precious")).expect("ours");
    let _ = fs::remove_dir_all(at("out/charts"));
    for (name, args) in [("charts", &["plot", "out"][..]), ("pareto", &["plot", "pareto", "out"])] {
        symlink(at("precious"), at("out").join(name)).expect("linked");
        let refused = harness.run(args);
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(
            said(&refused).contains(&format!("{name}: it is a link")),
            "{}",
            said(&refused)
        );
    }
    assert_eq!(fs::read_dir(at("precious")).expect("there").count(), 0);
}

/// Only root can give a directory to another user.
#[test]
fn a_directory_of_another_user_is_used_only_where_nobody_could_have_planted_it() {
    if !nix::unistd::geteuid().is_root() {
        return crate::harness::skip("only root can give a directory away");
    }
    let harness = Harness::new();
    let plan = measured(&harness);
    let at = |name: &str| harness.folder.path().join(name);
    chown(at("out"), Some(4321), None).expect("root may");
    let give_mode = |mode| fs::set_permissions(harness.folder.path(), fs::Permissions::from_mode(mode)).expect("ours");
    give_mode(0o755);
    let noted = harness.run(&["report", "out"]);
    assert!(noted.status.success(), "{}", said(&noted));
    give_mode(0o1777);
    for args in [&["run", &plan, "-o", "out"][..], &["report", "out"], &["worker", "out"]] {
        let refused = harness.run(args);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(
            said(&refused).contains("belongs to another user (uid 4321)"),
            "{}",
            said(&refused)
        );
    }
    fs::create_dir(at("foreign")).expect("ours");
    chown(at("foreign"), Some(4321), None).expect("root may");
    harness.write("suite.json", r#"[{"completed": 1}]"#);
    for args in [
        &["plot", "out"][..],
        &["plot", "pareto", "out"],
        &["export", "out", "--format", "vllm", "-o", "foreign/tree"],
        &["report", "out", "-o", "foreign/page.html"],
        &["import", "suite.json", "-o", "foreign/suite"],
        &["init", "--goal", "demo", "-o", "foreign/plan.toml"],
    ] {
        let refused = harness.run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", said(&refused));
        assert!(said(&refused).contains("--other-owner"), "{args:?}: {}", said(&refused));
    }
    let allowed = harness.run(&["report", "out", "--other-owner"]);
    assert!(allowed.status.success(), "{}", said(&allowed));
    // Only root can make a directory below the root directory, as where a container mounts one. So it is allowed.
    let mounted = Path::new("/").join(format!("vsweep-test-{}", std::process::id()));
    fs::create_dir(&mounted).expect("root may");
    chown(&mounted, Some(4321), None).expect("root may");
    let noted = harness.run(&["run", &plan, "-o", mounted.to_str().expect("plain")]);
    fs::remove_dir_all(&mounted).expect("ours");
    assert!(noted.status.success(), "{}", said(&noted));
    assert!(
        said(&noted).contains("belongs to another user (uid 4321)"),
        "{}",
        said(&noted)
    );
}

#[test]
fn routes_variables_and_commands_give_no_secret_away() {
    let harness = Harness::new();
    let stop = harness.folder.path().join("stopped");
    let serve = format!(
        "[serve]\nhealth = \"/health?api_key=SEKRITHEALTH\"\nenv = {{ OPENAIKEY = \"SEKRITOPENAI\", DB = \"Uid=a;Pwd=SEKRITPWD;Port=1\" }}\n\
         stop_command = [\"sh\", \"-c\", \"echo SEKRITSTOP > {}\"]",
        stop.display()
    );
    let plan = PLAN.replace("[serve]", &serve);
    let plan = harness.write("plan.toml", &plan).display().to_string();
    let mut run = harness.start(&["run", "-q", &plan, "-o", "out"]);
    let mut lines = String::new();
    wait_for("the sweep to end", || {
        let of_others = harness.processes().into_iter().map(|(_, line)| line);
        lines.extend(of_others.filter(|line| !line.starts_with("sh ")));
        run.try_wait().expect("a child").is_some()
    });
    assert!(lines.contains(" guard ") && !lines.contains("SEKRITSTOP"));
    assert!(stop.exists(), "the stop command was run");
    let shown = harness.run(&["plan", &plan, "--format", "sh"]);
    assert!(!said(&shown).contains("SEKRITHEALTH") && !said(&shown).contains("SEKRITOPENAI"));
    let mut folders = vec![harness.folder.path().join("out")];
    let mut logs = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("ours").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = String::from_utf8_lossy(&fs::read(&path).expect("ours")).into_owned();
            for secret in ["SEKRITHEALTH", "SEKRITOPENAI", "SEKRITPWD"] {
                assert!(!text.contains(secret), "{secret} is in {}", path.display());
            }
            if path.extension().is_some_and(|extension| extension == "log") {
                logs += 1;
                assert_eq!(
                    entry.metadata().expect("there").mode() & 0o777,
                    0o600,
                    "{}",
                    path.display()
                );
            }
        }
    }
    assert!(logs > 0);
}

#[test]
fn numbers_without_measure_end_with_a_sentence() {
    let harness = Harness::new();
    for (load, sentence) in [
        (
            "num_prompts = 4\nrequest_rate = 1e-9",
            "the last request is due after 4000000000 s",
        ),
        ("num_prompts = 400\nrequest_rate = 1e-8", "and bench.timeout is 1200 s"),
        ("num_prompts = 1000000000", "at most 10000000"),
    ] {
        let text = PLAN.replace("max_concurrency = [1, 2]\nnum_prompts = 4", load);
        let plan = harness.write("numbers.toml", &text).display().to_string();
        for command in ["check", "plan", "run"] {
            let began = Instant::now();
            let refused = harness.run(&[command, &plan]);
            assert_eq!(refused.status.code(), Some(2), "{command}: {}", said(&refused));
            assert!(said(&refused).contains(sentence), "{command}: {}", said(&refused));
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{command}: {:?}",
                began.elapsed()
            );
        }
    }
    for load in [
        "num_prompts = 10000000\nmax_concurrency = 8",
        "num_prompts = 2000\nramp_up_strategy = \"linear\"\nramp_up_start_rps = 1e-9\nramp_up_end_rps = 1e-8",
    ] {
        let text = PLAN.replace("max_concurrency = [1, 2]\nnum_prompts = 4", load);
        let plan = harness.write("numbers.toml", &text).display().to_string();
        for more in [&[] as &[&str], &["--rehearse"]] {
            let began = Instant::now();
            let done = harness.run(&[&["plan", plan.as_str()], more].concat());
            assert!(
                matches!(done.status.code(), Some(0 | 2 | 3)),
                "{more:?} {load}: {}",
                said(&done)
            );
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{more:?} {load}: {:?}",
                began.elapsed()
            );
        }
    }
}

/// Only root can make a namespace of process ids.
#[test]
fn a_proc_of_another_namespace_is_refused() {
    let harness = Harness::new();
    let plan = harness.write("plan.toml", PLAN).display().to_string();
    let binary = env!("CARGO_BIN_EXE_vsweep");
    let mut unshare = std::process::Command::new("unshare");
    unshare.args([
        "--pid",
        "--fork",
        "--kill-child",
        binary,
        "run",
        "-q",
        &plan,
        "-o",
        "out",
    ]);
    unshare.current_dir(harness.folder.path()).stdin(Stdio::null());
    let ran = crate::deadline::output(&mut unshare);
    let said = said(&ran);
    if said.contains("Operation not permitted") {
        return crate::harness::skip("no namespace of process ids can be made here");
    }
    assert!(
        said.contains("/proc shows the processes of another namespace"),
        "{said}"
    );
    wait_for("nothing to be left", || harness.processes().is_empty());
}
