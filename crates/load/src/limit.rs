//! The process's limit of open files, which also limits its connections.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Number of files that may be open besides connections.
pub const FILES_BESIDE_CONNECTIONS: u64 = 256;

/// Raises the limit of open files as far as the system allows. More than `count` connections may be needed: an open loop does not know
/// their number, and loads that run at the same time share the limit. If the system does not allow `count`, the error is a sentence with
/// the remedy.
pub fn allow_connections(count: usize) -> Result<(), String> {
    let wanted = count as u64 + FILES_BESIDE_CONNECTIONS;
    let failed = |error| format!("cannot read the limit of open files: {error}");
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    if wanted > hard {
        return Err(format!(
            "{count} connections need {wanted} open files, and the system allows {hard}; raise the limit \
             (ulimit -Hn), or lower max_concurrency"
        ));
    }
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Err(error) if soft < wanted => Err(format!("cannot raise the limit of open files: {error}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_or_the_reason_given() {
        assert_eq!(allow_connections(1), Ok(()));
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("readable");
        assert_eq!(soft, hard, "more than one may be needed");
        let refused = allow_connections(usize::MAX / 4);
        assert!(hard == u64::MAX || refused.is_err_and(|why| why.contains("open files")));
    }
}
