//! The utilisation of vsweep's machine, from `/proc` and the process clock.

use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, Instant};

/// Utilisation of the machine between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostUsage {
    /// Share of all cores that was busy, from 0 to 1.
    pub cpu_share: Option<f64>,
    /// The kernel's load average over one minute: processes that run, wait to run, or are in uninterruptible sleep.
    pub load: Option<f64>,
    /// Cores that vsweep itself kept busy, its load generator included.
    pub own_cores: Option<f64>,
}

/// Reads the utilisation of the machine repeatedly. Each reading covers the time since the previous one.
#[derive(Debug)]
pub struct HostWatch {
    ticks: Option<Ticks>,
    /// CPU time of this process.
    own: Option<Duration>,
    /// Time of the previous reading.
    at: Instant,
}

/// Ticks of all cores since the machine started: the idle ones, and all.
type Ticks = (u64, u64);

impl HostWatch {
    /// Takes the first reading, from which the next one counts.
    pub fn start() -> HostWatch {
        HostWatch {
            ticks: fs::read_to_string("/proc/stat").ok().and_then(|text| ticks(&text)),
            own: own_time(),
            at: Instant::now(),
        }
    }

    /// Returns the utilisation since the previous reading.
    pub fn read(&mut self) -> HostUsage {
        let now = HostWatch::start();
        let passed = (now.at - self.at).as_secs_f64();
        let own = now.own.zip(self.own).map(|(now, before)| now.saturating_sub(before));
        let host = HostUsage {
            cpu_share: now.ticks.zip(self.ticks).and_then(|(now, before)| busy(now, before)),
            load: load(&fs::read_to_string("/proc/loadavg").unwrap_or_default()),
            own_cores: own.filter(|_| passed > 0.0).map(|own| own.as_secs_f64() / passed),
        };
        *self = now;
        host
    }
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq and steal. The times of guests, which follow, are
/// already part of user and nice.
fn ticks(text: &str) -> Option<Ticks> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.take(8).filter_map(|ticks| ticks.parse().ok()).collect();
    let idle = *ticks.get(3)? + ticks.get(4).unwrap_or(&0);
    Some((idle, ticks.iter().sum()))
}

/// Returns the share of the ticks between two readings in which the cores were busy.
fn busy((idle, all): Ticks, before: Ticks) -> Option<f64> {
    let all = all.checked_sub(before.1).filter(|all| *all > 0)?;
    // Idle time can run backwards on some machines.
    let idle = idle.saturating_sub(before.0).min(all);
    Some((all - idle) as f64 / all as f64)
}

/// Returns true if a process is this one or a descendant of it. False if the process is not visible from here.
pub(super) fn is_below_us(pid: u32) -> bool {
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name, in brackets, may hold blanks and brackets.
        let rest = stat.rsplit_once(')')?.1;
        rest.split_whitespace().nth(1)?.parse().ok()
    };
    std::iter::successors(Some(pid), parent).any(|pid| pid == std::process::id())
}

fn load(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn own_time() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .ok()
        .map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_was_not_idle() {
        let read = |text| ticks(text).expect("a line of /proc/stat");
        let before = read("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n");
        let after = read("cpu  160 0 60 820 60 0 0 0 9 0\n");
        assert_eq!(busy(after, before), Some(0.7));
        assert_eq!(busy(before, before), None, "no time has passed");
        assert_eq!(ticks("intr 5"), None);
    }

    #[test]
    fn load_is_the_first_number() {
        assert_eq!(load("5.73 4.85 3.65 3/900 4711\n"), Some(5.73));
        assert_eq!(load(""), None);
    }

    #[test]
    fn own_work_is_seen() {
        let mut watch = HostWatch::start();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(20) {}
        assert!(watch.read().own_cores.expect("the system counts it") > 0.0);
    }
}
