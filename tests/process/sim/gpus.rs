//! The memory of simulated GPUs, as `nvidia-smi` and a second server see it.

use super::server::{Server, wait};
use crate::deadline::output;
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Used memory of the first GPU in MiB, from the fake `nvidia-smi`.
fn used(folder: &Path) -> u64 {
    let mut query = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    query
        .args([
            "sim",
            "nvidia-smi",
            "--query-gpu=memory.used",
            "--format=csv,noheader,nounits",
        ])
        .env("VSWEEP_SIM_GPUS", folder);
    let output = output(&mut query);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .next()
        .and_then(|line| line.parse().ok())
        .expect("a number")
}

#[test]
fn an_engine_holds_memory_until_it_is_gone_and_others_do_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = [("VSWEEP_SIM_GPUS", folder.path().to_str().expect("plain"))];
    let mut first = Server::start_in(&node, &[]);
    assert!(used(folder.path()) > 70_000);
    let mut second = Server::launch_in(&node, &[]);
    assert_eq!(second.ended().code(), Some(1));
    assert!(second.output().contains("is less than desired GPU memory utilization"));
    let elsewhere = Server::start_in(&[node[0], ("CUDA_VISIBLE_DEVICES", "1")], &[]);
    assert!(elsewhere.output().contains("Application startup complete."));

    // An orphaned engine keeps its memory.
    first.signal(Signal::SIGKILL);
    first.ended();
    assert!(used(folder.path()) > 70_000);
    drop(first);
    wait("the memory is free", || used(folder.path()) < 100);
}

#[test]
fn memory_can_be_released_late() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = [("VSWEEP_SIM_GPUS", folder.path().to_str().expect("plain"))];
    let mut server = Server::start_in(&node, &["--sim-fault", "late-release:3600"]);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    assert!(used(folder.path()) > 70_000, "the driver takes its time");
}

/// Two servers on one GPU, whose driver releases memory a second after the first server is gone. Until then the second refuses to start, so
/// a sweep that measured both has waited.
#[test]
fn a_sweep_waits_for_memory_that_is_released_late() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("writable");
        path
    };
    let vsweep = env!("CARGO_BIN_EXE_vsweep");
    let smi = write(
        "nvidia-smi",
        &format!("#!/bin/sh\nexec {vsweep} sim nvidia-smi \"$@\"\n"),
    );
    std::fs::set_permissions(smi, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let sweep = |name: &str, path: &str| {
        let plan = "version = 1\nruns = 1\n[serve]\ncommand = 'vsweep sim serve demo-8b --sim-start 50ms --sim-speed 50 \
             --sim-fault late-release:1'\n[serve.params]\nmax_num_seqs = [4, 8]\n[bench.params]\nrandom_input_len = 16\n\
             random_output_len = 4\nnum_prompts = 4\nmax_concurrency = 2\n";
        let plan = write(&format!("{name}.toml"), plan);
        let mut run = Command::new(vsweep);
        run.args(["run", "--quiet", "-o"])
            .arg(folder.path().join(name))
            .arg(plan)
            .env("VSWEEP_SIM_GPUS", folder.path().join(format!("{name}-node")))
            .env("PATH", path);
        let output = output(&mut run);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let path = std::env::var("PATH").expect("a path");
    let (code, said) = sweep("seeing", &format!("{}:{path}", folder.path().display()));
    assert_eq!(code, Some(0), "{said}");
    let table = std::fs::read_to_string(folder.path().join("seeing/summary.csv")).expect("a table");
    assert_eq!(table.lines().count(), 3, "{table}");
    // A sweep that cannot see the GPUs starts the second server too early.
    let (code, said) = sweep("blind", &path);
    assert_eq!(code, Some(3), "{said}");
}
