//! The guard alone: whatever the processes of its tree do, and in whatever order they die, nothing is left.

use super::tree::{Daemon, Marked, VSWEEP, first_line, wait_for};
use crate::deadline::ended;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use vsweep::cause::Cause;
use vsweep::server::cpus::Cpus;
use vsweep::server::process::guard::Exit;

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(600);

/// Children in the same session, in another session, and after a double fork. Writes `up` once all are there.
const FAMILY: &str = "sleep 1000 & setsid sh -c 'sleep 1000 & (setsid sleep 1000 &); sleep 1000' & \
                      echo up > \"$TMPDIR/up\"; wait";
/// A tree that ignores polite signals.
const DEAF: &str = "trap '' TERM INT HUP; sleep 1000 & setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & \
                    echo up > \"$TMPDIR/up\"; while :; do sleep 1000; done";

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).expect("the process is there");
}

#[tokio::test]
async fn a_tree_keeps_to_its_cpus() {
    let allowed = Cpus::allowed().expect("readable").to_string();
    let first = allowed.split(['-', ',']).next().expect("one at least");
    let cpus: Cpus = first.parse().expect("a number");
    let marked = Marked::new("cpus");
    let script =
        "sh -c 'grep Cpus_allowed_list: /proc/self/status >\"$TMPDIR/list\"; mv \"$TMPDIR/list\" \"$TMPDIR/cpus\"'";
    let tree = marked.script_on(Some(&cpus), script, SHORT);
    assert_eq!(tree.exited(Cause::BenchFailed).await, Ok(Exit::Code(0)));
    let told = fs::read_to_string(marked.path("cpus")).expect("text");
    assert_eq!(told.split_whitespace().last(), Some(first));
    tree.gone().await;
    marked.assert_empty();
    assert_eq!(Cpus::allowed().expect("readable").to_string(), allowed, "ours stay");
}

#[tokio::test]
async fn a_polite_tree_ends_at_the_first_signal() {
    let marked = Marked::new("polite");
    let mut tree = marked.script(FAMILY, LONG);
    first_line(&marked.path("up"));
    tree.stop().await;
    marked.assert_empty();
}

#[tokio::test]
async fn a_deaf_tree_is_killed_after_the_grace_period() {
    let marked = Marked::new("deaf");
    let mut tree = marked.script(DEAF, SHORT);
    first_line(&marked.path("up"));
    tree.stop().await;
    marked.assert_empty();
    assert_eq!(tree.exited(Cause::BenchFailed).await, Ok(Exit::Signal(9)));
}

#[tokio::test]
async fn kill_does_not_wait_for_the_grace_period() {
    let marked = Marked::new("kill");
    let mut tree = marked.script(DEAF, LONG);
    first_line(&marked.path("up"));
    tree.kill().await;
    marked.assert_empty();
}

#[tokio::test]
async fn a_dropped_tree_ends() {
    let marked = Marked::new("dropped");
    let tree = marked.script(DEAF, SHORT);
    first_line(&marked.path("up"));
    drop(tree);
    marked.wait_until_empty();
}

#[tokio::test]
async fn what_a_leader_leaves_behind_ends_with_it() {
    let marked = Marked::new("leader");
    let tree = marked.script("(setsid sleep 1000 &); exit 3", LONG);
    assert_eq!(tree.exited(Cause::BenchFailed).await, Ok(Exit::Code(3)));
    tree.gone().await;
    marked.assert_empty();
}

#[tokio::test]
async fn a_killed_guard_takes_its_tree_along() {
    let marked = Marked::new("guard-killed");
    let tree = marked.script(DEAF, LONG);
    first_line(&marked.path("up"));
    send(tree.guard(), Signal::SIGKILL);
    let killed = tree.exited(Cause::BenchFailed).await.expect_err("killed");
    assert!(killed.detail.contains("killed its guard"), "{killed}");
    tree.gone().await;
    marked.assert_empty();
}

#[tokio::test]
async fn a_killed_guard_takes_a_daemon_without_environment_along() {
    let marked = Marked::new("daemon");
    let path = marked.path("daemon");
    let script = format!(
        "(setsid env -i sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' &); exec sleep 1000",
        path.display()
    );
    let tree = marked.script(&script, LONG);
    let daemon = Daemon(first_line(&path).parse().expect("a process id"));
    wait_for("the daemon to lose its parent", || {
        daemon.parent() == Some(tree.guard())
    });
    send(tree.guard(), Signal::SIGKILL);
    tree.gone().await;
    assert_eq!(daemon.parent(), None, "the daemon lives");
    marked.assert_empty();
}

#[tokio::test]
async fn the_guard_is_deaf_to_the_terminal() {
    let marked = Marked::new("terminal");
    let mut tree = marked.script(FAMILY, LONG);
    first_line(&marked.path("up"));
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        send(tree.guard(), signal);
    }
    let blocked = fs::read_to_string(format!("/proc/{}/status", tree.guard())).expect("the guard lives");
    assert!(blocked.contains("server-guard"), "{blocked}");
    tree.stop().await;
    marked.assert_empty();
}

#[tokio::test]
async fn a_program_that_cannot_run_is_reported() {
    let marked = Marked::new("not-a-program");
    let script = marked.path("broken");
    fs::write(&script, "#!/no/such/interpreter\n").expect("written");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("made executable");
    let tree = marked.script(&format!("exec {}", script.display()), SHORT);
    assert!(matches!(
        tree.exited(Cause::BenchFailed).await,
        Ok(Exit::Code(126 | 127))
    ));
    tree.gone().await;
}

/// Length of a tree's log, in bytes.
fn log_bytes(marked: &Marked) -> u64 {
    fs::metadata(marked.path("log")).map_or(0, |meta| meta.len())
}

#[tokio::test]
async fn an_endless_log_is_bounded_and_keeps_its_ends() {
    const MIB: u64 = 1 << 20;
    let marked = Marked::new("endless");
    let script = "echo first; yes filler | head -c 80000000; echo up > \"$TMPDIR/up\"; \
                  while ! test -e \"$TMPDIR/cut\"; do sleep 0.1; done; echo last; sleep 1000";
    let mut tree = marked.script(script, LONG);
    first_line(&marked.path("up"));
    wait_for("the cut", || log_bytes(&marked) < 64 * MIB);
    fs::write(marked.path("cut"), "").expect("written");
    let text = || fs::read_to_string(marked.path("log")).expect("text");
    wait_for("what comes after the cut", || text().contains("last\n"));
    tree.stop().await;
    let text = text();
    assert!(text.starts_with("first\nfiller\n"));
    assert_eq!(text.matches("[vsweep: ").count(), 1, "one line says what is missing");
    assert!(
        (32 * MIB..64 * MIB).contains(&(text.len() as u64)),
        "{} bytes",
        text.len()
    );
    marked.assert_empty();
}

/// Starts a guard whose owner is another process, which the test can kill.
fn guard_of_another_owner(marked: &Marked, script: &str) -> (Child, Child) {
    let (orders, held) = std::io::pipe().expect("a pipe");
    let owner = Command::new("sleep")
        .arg("1000")
        .stdout(held)
        .spawn()
        .expect("sleep runs");
    let log = fs::File::create(marked.path("log")).expect("a log");
    let guard = Command::new(VSWEEP)
        .args(["guard", "--grace-ms", "200", "--", "sh", "-c", script])
        .envs(&marked.env)
        .stdin(orders)
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("the guard starts");
    (owner, guard)
}

#[test]
fn a_killed_owner_leaves_nothing() {
    let marked = Marked::new("owner");
    let (mut owner, mut guard) = guard_of_another_owner(&marked, DEAF);
    drop(guard.stdout.take());
    first_line(&marked.path("up"));
    owner.kill().expect("the owner lives");
    owner.wait().expect("reaped");
    ended(&mut guard);
    marked.assert_empty();
}

#[test]
fn an_owner_killed_before_the_tree_stands_leaves_nothing() {
    let marked = Marked::new("early");
    let (mut owner, mut guard) = guard_of_another_owner(&marked, DEAF);
    owner.kill().expect("the owner lives");
    owner.wait().expect("reaped");
    ended(&mut guard);
    marked.assert_empty();
}

/// A file in shared memory that is removed even if its test fails.
struct Shared(PathBuf);

impl Shared {
    fn named(marked: &Marked, suffix: &str) -> Shared {
        let unique = marked
            .folder
            .path()
            .file_name()
            .expect("it has a name")
            .to_string_lossy()
            .into_owned();
        Shared(Path::new("/dev/shm").join(format!("vsweep{unique}{suffix}")))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn only_the_trees_own_shared_memory_is_removed() {
    let marked = Marked::new("shared");
    let [own, before, foreign] = ["own", "before", "foreign"].map(|name| Shared::named(&marked, name));
    fs::write(&before.0, "").expect("written");
    let script = format!(
        "exec 3>{own} 4<{before}; echo up > \"$TMPDIR/up\"; trap '' TERM; while :; do sleep 1000; done",
        own = own.0.display(),
        before = before.0.display()
    );
    let mut tree = marked.script(&script, SHORT);
    first_line(&marked.path("up"));
    let mut held = fs::File::create(&foreign.0).expect("created");
    held.write_all(b"in use").expect("written");
    assert!(own.0.exists());
    tree.stop().await;
    assert!(!own.0.exists(), "the tree's own segment is removed");
    assert!(before.0.exists() && foreign.0.exists(), "what others made stays");
}

#[tokio::test]
async fn a_killed_guards_tree_leaves_no_shared_memory() {
    let marked = Marked::new("shared-killed");
    let [own, before, foreign] = ["own", "before", "foreign"].map(|name| Shared::named(&marked, name));
    fs::write(&before.0, "").expect("written");
    let script = format!(
        "exec 3>{own} 4<{before}; echo up > \"$TMPDIR/up\"; while :; do sleep 1000; done",
        own = own.0.display(),
        before = before.0.display()
    );
    let tree = marked.script(&script, LONG);
    first_line(&marked.path("up"));
    fs::write(&foreign.0, "").expect("written");
    // The guard is notified of a new segment at once. After two more waits it has surely seen this one.
    let waits = waits(tree.guard());
    wait_for("the guard to look", || self::waits(tree.guard()) >= waits + 2);
    send(tree.guard(), Signal::SIGKILL);
    tree.gone().await;
    marked.assert_empty();
    assert!(!own.0.exists(), "the tree's own segment is removed");
    assert!(before.0.exists() && foreign.0.exists(), "what others made stays");
}

/// Number of times that a process has gone to sleep of its own accord.
fn waits(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .expect("the kernel counts them")
}

#[tokio::test]
async fn segments_of_a_tree_that_dies_at_once_are_removed() {
    let marked = Marked::new("sudden");
    let own = Shared::named(&marked, "own");
    let tree = marked.script(
        &format!("exec 3>{}; echo up > \"$TMPDIR/up\"; exec sleep 1000", own.0.display()),
        LONG,
    );
    first_line(&marked.path("up"));
    // Each look of the guard ends in a wait. After two more waits it has surely seen the segment.
    let waits = waits(tree.guard());
    wait_for("the guard to look", || self::waits(tree.guard()) >= waits + 2);
    for pid in marked.alive().into_iter().filter(|&pid| pid != tree.guard()) {
        send(pid, Signal::SIGKILL);
    }
    tree.gone().await;
    wait_for("the segment to go", || !own.0.exists());
}

#[tokio::test]
async fn rendezvous_files_named_in_the_log_are_removed() {
    let marked = Marked::new("rendezvous");
    let [ours, before, foreign] = ["ours", "before", "foreign"].map(|name| marked.path(&format!("vllm_dist_{name}")));
    fs::write(&before, "").expect("written");
    let script = "echo distributed_init_method=file://$TMPDIR/vllm_dist_ours before vllm_dist_before; \
                  : > $TMPDIR/vllm_dist_ours; : > $TMPDIR/vllm_dist_foreign; exit 1";
    let tree = marked.script(script, SHORT);
    tree.gone().await;
    assert!(!ours.exists());
    assert!(before.exists() && foreign.exists());
}
