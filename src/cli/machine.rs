//! Checks that the machine has what vsweep itself needs for measurements. Otherwise a sweep would fail run by run or, worse, in the middle of
//! a run. The room `lint` checks the needs of a plan.

use crate::error::{Error, Result};
use crate::load::FILES_BESIDE_CONNECTIONS;
use crate::{server, threads};
use nix::sys::resource::{Resource, getrlimit};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Runtime};

/// Least address space, in bytes. Threads reserve most of it and never use it.
const LEAST_ADDRESS_SPACE: u64 = 512 << 20;

/// Creates the runtime for the asynchronous part of a command, on this thread.
pub fn runtime() -> Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::Fatal(format!("cannot start the runtime: {error}")))
}

/// Refuses a clock whose time cannot be written in a journal, or in the `Date` header of an HTTP answer.
pub fn check_clock() -> Result<()> {
    // The end of the year 9999: both write four digits.
    const END: u64 = 253_402_300_800;
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(time) if time.as_secs() < END => Ok(()),
        _ => Err(Error::Fatal(
            "the machine's clock is not between 1970 and 9999: set it".into(),
        )),
    }
}

/// Refuses a machine with a wrong clock, or one that lacks files, address space, `/proc` or threads. The error lists everything that is
/// missing.
pub fn check() -> Result<()> {
    check_clock()?;
    // The load generator raises its limit of open files to the hard one.
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
    let space = getrlimit(Resource::RLIMIT_AS).map_or(u64::MAX, |(soft, _)| soft);
    let mut missing = Vec::new();
    if files <= FILES_BESIDE_CONNECTIONS {
        missing.push(format!(
            "{files} open files are allowed, and vsweep needs {FILES_BESIDE_CONNECTIONS} and one for each connection: raise the limit \
             (ulimit -n)"
        ));
    }
    if space < LEAST_ADDRESS_SPACE {
        let [space, least] = [space, LEAST_ADDRESS_SPACE].map(|bytes| bytes >> 20);
        missing.push(format!(
            "{space} MiB of address space are allowed, and vsweep needs {least}: raise the limit (ulimit -v)"
        ));
    }
    missing.extend(server::fault_of_proc().map(str::to_owned));
    if missing.is_empty() && !threads::is_allowed() {
        missing.push("the system refuses another thread: raise the limit of processes (ulimit -u)".into());
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::Fatal(missing.join("\nvsweep: "))),
    }
}
