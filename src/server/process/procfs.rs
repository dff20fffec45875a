//! Reads `/proc`: descendants of processes, and holders of files and ports.
//!
//! Processes can change or end between two reads, so nothing is an error: a process that has ended is missing from the result.

use crate::files::{is_process_dead, this_process};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The state of a process when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Id of its session's leader.
    pub session: i32,
    /// True if it has ended and only waits to be reaped.
    pub zombie: bool,
    /// Start time, in clock ticks since the boot.
    pub started: u64,
}

/// Returns the reason why process trees cannot be seen here, if there is one, with a remedy. In a `/proc` of another namespace, processes
/// have other ids than here.
pub fn fault() -> Option<&'static str> {
    let shown = fs::read_link("/proc/self").ok();
    match shown.is_some_and(|shown| shown.as_os_str() == std::process::id().to_string().as_str()) {
        true => None,
        false if process(1).is_none() => {
            Some("there is no /proc, and without it no server can be ended for certain: mount it")
        }
        false => Some(
            "/proc shows the processes of another namespace, so no server can be ended for certain: mount one of this namespace (unshare \
             --mount-proc, or a container with its own /proc)",
        ),
    }
}

/// Returns every process that can be seen.
pub fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(process)
        .collect()
}

/// Returns the process with this id, if there is one.
pub fn process(pid: i32) -> Option<Process> {
    parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns true if the process with this id and start time has not ended. The start time is needed because ids are reused.
pub fn lives(pid: i32, started: u64) -> bool {
    process(pid).is_some_and(|process| process.started == started && !process.zombie)
}

/// Returns the children of the calling thread, including adopted ones; none if the kernel does not list them.
pub fn children_of_this_thread() -> Vec<i32> {
    let listed = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    listed.split_ascii_whitespace().flat_map(str::parse).collect()
}

/// Parses `pid (name) state parent group session …`. The name may contain anything, even spaces and parentheses.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let name_end = memchr::memrchr(b')', stat)?;
    let text = str::from_utf8(&stat[name_end + 1..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Returns every process below `ancestor`, without `ancestor` itself.
pub fn descendants(ancestor: i32) -> Vec<Process> {
    let mut family = family(&processes(), &HashSet::from([ancestor]));
    family.retain(|process| process.pid != ancestor);
    family
}

/// Returns the processes of `all` that are among `roots` or descend from one of these.
pub fn family(all: &[Process], roots: &HashSet<i32>) -> Vec<Process> {
    let mut family = roots.clone();
    loop {
        let before = family.len();
        let children = all.iter().filter(|process| family.contains(&process.parent));
        let children: Vec<i32> = children.map(|process| process.pid).collect();
        family.extend(children);
        if family.len() == before {
            return all
                .iter()
                .filter(|process| family.contains(&process.pid))
                .copied()
                .collect();
        }
    }
}

/// Returns the name of a process's program, without arguments, which may contain another user's secrets. Empty if it cannot be read.
pub fn program_name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// Returns the value of a variable in the environment with which a process was started, if it can be read.
pub fn environment(pid: i32, name: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |entry: &[u8]| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    bytes.split(|&byte| byte == 0).find_map(value)
}

/// Returns the files among `files` that a process has open or mapped.
pub fn held_files(pid: i32, files: &HashSet<PathBuf>) -> HashSet<PathBuf> {
    let mut held: HashSet<PathBuf> = open_files(pid).filter(|file| files.contains(file)).collect();
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    for line in maps.split(|&byte| byte == b'\n') {
        if let Some(start) = memchr::memchr(b'/', line) {
            let path = Path::new(std::ffi::OsStr::from_bytes(&line[start..]));
            if files.contains(path) {
                held.insert(path.to_path_buf());
            }
        }
    }
    held
}

fn open_files(pid: i32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

/// Returns the listener on a TCP port of one of these addresses; `None` if there is none.
pub fn listener(ips: &[IpAddr], port: u16) -> Option<Listener> {
    let sockets: HashMap<PathBuf, u32> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening_sockets(&table, ips, port))
        .map(|(inode, user)| (PathBuf::from(format!("socket:[{inode}]")), user))
        .collect();
    let user = *sockets.values().next()?;
    let mut pids = processes().into_iter().map(|process| process.pid);
    let holder = pids.find(|pid| open_files(*pid).any(|file| sockets.contains_key(&file)));
    Some(holder.map_or(Listener::Hidden(user), Listener::Process))
}

/// Returns true if a listener below `ancestor` could not be hidden: the open files of all these processes can be read, and the sockets of
/// this process are found.
pub fn shows_listeners(ancestor: i32) -> bool {
    let is_shown = |process: &Process| fs::read_dir(format!("/proc/{}/fd", process.pid)).is_ok();
    let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let at = own.as_ref().ok().and_then(|own| own.local_addr().ok());
    let found = at.and_then(|at| listener(&[at.ip()], at.port()));
    matches!(found, Some(Listener::Process(_))) && descendants(ancestor).iter().all(is_shown)
}

/// The process that listens on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// The process with this id.
    Process(i32),
    /// A process whose files cannot be read, because it belongs to another user or container; with the id of the socket's user.
    Hidden(u32),
}

/// Returns the inodes and users of the sockets in state LISTEN (`0A`) on a port of one of these addresses, from a table like
/// `/proc/net/tcp`.
fn listening_sockets(table: &str, ips: &[IpAddr], port: u16) -> Vec<(u64, u32)> {
    let meets =
        |own: IpAddr| own.is_unspecified() || ips.iter().any(|ip| ip.is_unspecified() || ip.to_canonical() == own);
    let socket = |line: &str| -> Option<(u64, u32)> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (ip, hex) = fields.get(1)?.rsplit_once(':')?;
        let is_port = u16::from_str_radix(hex, 16).ok()? == port;
        let is_listening = is_port && *fields.get(3)? == "0A" && meets(parse_ip(ip)?);
        is_listening.then(|| Some((fields.get(9)?.parse().ok()?, fields.get(7)?.parse().ok()?)))?
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// Reads an address of `/proc/net/tcp` or `/proc/net/tcp6`: words of 32 bits as they are in memory, as hex digits.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let words: Option<Vec<[u8; 4]>> = (0..hex.len()).step_by(8).map(word).collect();
    let bytes = words?.concat();
    let v4 = || <[u8; 4]>::try_from(bytes.as_slice()).ok().map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes.as_slice()).ok().map(IpAddr::from);
    v4().or_else(v6).map(|ip| ip.to_canonical())
}

// The mark in the environment of every process of a tree, which identifies its owner. A mark is `VSWEEP_TREE=<process>-<count>`: the
// vsweep that owns the tree, described so precisely that no other process of this or another container is mistaken for it, and the number
// of the tree.

/// Name of the variable with the mark.
pub(super) const TREE: &str = "VSWEEP_TREE";

/// Name of a guard's process: `pkill -9 vsweep` must leave the one process alive that cleans up after the others.
pub(super) const GUARD: &str = "server-guard";

/// Returns the description of the vsweep that owns the tree with this mark.
pub(super) fn owner(mark: &str) -> Option<&str> {
    Some(mark.rsplit_once('-')?.0)
}

/// Returns the id and the start time of the vsweep that this description names.
pub(super) fn process_of(owner: &str) -> Option<(u32, u64)> {
    let (pid, started) = owner.split_once('-')?.1.split_once('-')?;
    Some((pid.parse().ok()?, started.parse().ok()?))
}

/// Returns true if the process belongs to a tree that will be ended anyway: one of this process, or of a dead vsweep.
pub(in crate::server) fn will_end(pid: i32) -> bool {
    let mark = environment(pid, TREE);
    let owner = mark.as_deref().and_then(owner);
    owner.is_some_and(|owner| owner == this_process() || is_process_dead(owner))
}

/// Returns a mark for a new tree of this process.
pub(super) fn new_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", this_process(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let stat = b"7 (a) b) (c) S 3 7 5 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 1";
        let parsed = parse_stat(7, stat).expect("well formed");
        assert_eq!(
            parsed,
            Process {
                pid: 7,
                parent: 3,
                session: 5,
                zombie: false,
                started: 9876
            }
        );
        assert_eq!(parse_stat(7, b"7 (cut"), None);
    }

    #[test]
    fn this_process_is_found() {
        let me = std::process::id() as i32;
        assert!(processes().iter().any(|p| p.pid == me));
        assert!(!program_name(me).is_empty());
    }

    #[test]
    fn descent_follows_parents() {
        let p = |pid, parent| Process {
            pid,
            parent,
            session: 0,
            zombie: false,
            started: 0,
        };
        let all = [p(1, 0), p(2, 1), p(3, 2), p(4, 1), p(5, 3)];
        let pids: Vec<i32> = family(&all, &HashSet::from([2])).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [2, 3, 5]);
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("bound").port();
        let [own, other, all] =
            ["127.0.0.1", "127.0.0.2", "0.0.0.0"].map(|ip| [ip.parse::<IpAddr>().expect("an address")]);
        let me = Some(Listener::Process(std::process::id() as i32));
        assert_eq!((listener(&own, port), listener(&other, port)), (me, None));
        assert_eq!(listener(&all, port), me);
        assert!(
            shows_listeners(i32::MAX),
            "nothing is below a process that is not there"
        );
        drop(socket);
        assert_eq!(listener(&all, port), None);
        assert_eq!(parse_ip("0100007F"), Some(own[0]));
        assert_eq!(parse_ip("0000000000000000FFFF00000100007F"), Some(own[0]), "as IPv6");
        assert_eq!(parse_ip("0100007F1"), None);
    }
}

#[cfg(test)]
mod trees_tests {
    use super::*;

    #[test]
    fn a_mark_names_its_vsweep_for_certain() {
        let mark = new_mark();
        let mine = owner(&mark).expect("a mark");
        let me = std::process::id();
        assert_eq!(
            process_of(mine),
            crate::files::process_started(me).map(|started| (me, started))
        );
        assert!(!is_process_dead(mine));
        let (who, started) = mine.rsplit_once('-').expect("its start");
        let started: u64 = started.parse().expect("a number");
        let another = format!("{who}-{}", started + 1);
        assert!(is_process_dead(&another), "a number that was given out again");
        for text in ["", "7", "7-1", "7.1-0", "--"] {
            assert!(!is_process_dead(owner(text).unwrap_or_default()), "{text}");
        }
    }
}
