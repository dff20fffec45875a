//! The process's limit of open files, which also limits its connections.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Number of files that may be open besides connections.
pub const FILES_BESIDE_CONNECTIONS: u64 = 256;

/// Raises the limit of open files, if necessary, so that `count` connections can be open. The error is a sentence with the remedy, if the
/// system does not allow it.
pub fn allow_connections(count: usize) -> Result<(), String> {
    let wanted = count as u64 + FILES_BESIDE_CONNECTIONS;
    let failed = |error| format!("cannot read the limit of open files: {error}");
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    if soft >= wanted {
        return Ok(());
    }
    if wanted > hard {
        return Err(format!(
            "{count} connections need {wanted} open files, and the system allows {hard}; raise the limit \
             (ulimit -Hn), or lower max_concurrency"
        ));
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)
        .map_err(|error| format!("cannot raise the limit of open files: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_or_the_reason_given() {
        assert_eq!(allow_connections(1), Ok(()));
        let refused = allow_connections(usize::MAX / 4);
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("readable");
        assert!(hard == u64::MAX || refused.is_err_and(|why| why.contains("open files")));
    }
}
