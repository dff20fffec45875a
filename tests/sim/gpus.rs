//! The memory of simulated GPUs, as `nvidia-smi` and a second server see it.

use super::server::{Server, wait};
use nix::sys::signal::Signal;
use std::path::Path;
use std::process::Command;

/// What the fake `nvidia-smi` says is in use on the first GPU, in MiB.
fn used(folder: &Path) -> u64 {
    let output = Command::new(env!("CARGO_BIN_EXE_vsweep"))
        .args([
            "sim",
            "nvidia-smi",
            "--query-gpu=memory.used",
            "--format=csv,noheader,nounits",
        ])
        .env("VSWEEP_SIM_GPUS", folder)
        .output()
        .expect("the binary runs");
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

    // An orphaned engine keeps what it has.
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
