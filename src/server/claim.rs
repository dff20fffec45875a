//! GPUs that a vsweep has taken for its servers, so that another one on the machine does not take the same before the first server
//! fills their memory. A claim is a lock on a file, which ends with its process however that ends; it only saves work, since who holds
//! memory is looked at besides.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Where all users of a machine find them; gone with the next boot.
const FOLDER: &str = "/dev/shm";

/// A GPU that nobody else takes as long as this lives.
#[derive(Debug)]
pub struct Claim {
    /// `None` where no file could be locked: then nobody is kept away.
    _lock: Option<Flock<File>>,
}

impl Claim {
    /// Takes a GPU, by its number; `None` if another vsweep has it.
    pub fn of(gpu: u32) -> Option<Claim> {
        let Ok(file) = open(gpu) else {
            return Some(Claim { _lock: None });
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Err((_, Errno::EWOULDBLOCK)) => None,
            lock => Some(Claim { _lock: lock.ok() }),
        }
    }
}

/// Another user's file can be locked, but not written.
fn open(gpu: u32) -> io::Result<File> {
    let path = path(gpu);
    OpenOptions::new().read(true).open(&path).or_else(|_| {
        let mut new = OpenOptions::new();
        new.read(true).write(true).create(true).truncate(false).mode(0o644);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        new.open(&path)
    })
}

fn path(gpu: u32) -> PathBuf {
    folder().join(format!(".vsweep-gpu-{gpu}"))
}

/// Where vsweeps of a machine find each other. Simulated GPUs are those of their folder.
pub(super) fn folder() -> PathBuf {
    std::env::var_os("VSWEEP_SIM_GPUS")
        .unwrap_or_else(|| FOLDER.into())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_claimed_once_at_a_time() {
        // A number that no machine has.
        let gpu = 1_000_000 + std::process::id();
        let claim = Claim::of(gpu).expect("nobody has it");
        assert!(Claim::of(gpu).is_none());
        drop(claim);
        assert!(Claim::of(gpu).is_some());
        let _ = std::fs::remove_file(path(gpu));
    }
}
