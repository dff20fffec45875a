//! Metrics about the process, under the names that Python's client gives them: memory, processor time and files are this
//! process's own; there is no Python, so what is said of it is zero.

use super::page::{Labels, Page};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use std::fs;

/// Writes them down; `started` is in seconds since 1970.
pub fn write(page: &mut Page, started: f64) {
    let generations: Vec<(Labels, f64)> = (0..3)
        .map(|generation| (Labels::new(format!("generation=\"{generation}\""), ""), 0.0))
        .collect();
    for (name, help) in [
        ("python_gc_objects_collected_total", "Objects collected during gc"),
        (
            "python_gc_objects_uncollectable_total",
            "Uncollectable objects found during GC",
        ),
        (
            "python_gc_collections_total",
            "Number of times this generation was collected",
        ),
    ] {
        page.metric(name, "counter", help, &generations);
    }
    let none = "implementation=\"none\",major=\"0\",minor=\"0\",patchlevel=\"0\",version=\"simulated\"";
    page.gauge(
        "python_info",
        "Python platform information",
        &[(Labels::new(none, ""), 1.0)],
    );
    let memory = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |key: &str| -> f64 {
        let line = memory.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        number.unwrap_or_default() * 1024.0
    };
    let used = getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    });
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    for (name, kind, help, value) in [
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory size in bytes.",
            kib("VmSize:"),
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory size in bytes.",
            kib("VmRSS:"),
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            started,
        ),
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            used,
        ),
        (
            "process_open_fds",
            "gauge",
            "Number of open file descriptors.",
            open as f64,
        ),
        (
            "process_max_fds",
            "gauge",
            "Maximum number of open file descriptors.",
            most as f64,
        ),
    ] {
        page.metric(name, kind, help, &[(Labels::default(), value)]);
    }
}
