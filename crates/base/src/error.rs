//! The errors that end a command of vsweep, and the exit codes that scripts rely on.
//!
//! A failed *run* is not an error (see [`crate::cause`]): an [`Error`] means that vsweep itself stops. The text is a
//! lower-case fragment that completes "vsweep: " and ends in the remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Errors that end a command, grouped by how the caller must react.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line or the plan is wrong: nothing was started (exit code 2).
    #[error("{0}")]
    Usage(String),
    /// vsweep could not go on (exit code 1).
    #[error("{0}")]
    Fatal(String),
    /// The plan cannot be used, and every problem has already been printed (exit code 2).
    #[error("the plan cannot be used")]
    Reported,
    /// A file or directory could not be used (exit code 1).
    #[error("cannot {action} {path}: {source}{remedy}", path = .path.display(), remedy = remedy(source))]
    Io {
        /// The verb that completes "cannot …", e.g. `write`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// The result of a function whose error ends the command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Adds the verb and the path to an error of the operating system: `.map_err(Error::io("read", &path))`.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            action,
            path: path.as_ref().to_path_buf(),
            source,
        }
    }

    /// Returns the exit code of a command that this error ends.
    pub fn exit(&self) -> Exit {
        match self {
            Error::Usage(_) | Error::Reported => Exit::Usage,
            Error::Fatal(_) | Error::Io { .. } => Exit::CannotGoOn,
        }
    }
}

/// Returns a remedy for an error of the operating system, if its kind suggests one.
pub fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room and run the same command again: nothing that was recorded is lost"
        }
        io::ErrorKind::FileTooLarge => {
            "; raise the limit of file sizes (ulimit -f) and run the same command again: nothing that was recorded is lost"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; give this user the right to it, or choose another place"
        }
        io::ErrorKind::NotFound => "; correct the path",
        io::ErrorKind::IsADirectory => "; name a file in it",
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "; the path exists and is not a directory: choose another place"
        }
        _ => "",
    }
}

/// The exit codes of every command. Scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All measured, or nothing left to do.
    Done = 0,
    /// vsweep could not go on.
    CannotGoOn = 1,
    /// The command line or the plan is wrong.
    Usage = 2,
    /// Finished, but some runs failed; of `check`: some runs will not measure what they claim.
    SomeFailed = 3,
    /// A stated requirement is not met: a required target, an `[[assert]]`; of `compare`: a regression.
    Unmet = 4,
    /// A stated requirement could not be decided.
    Undecided = 5,
    /// Interrupted; the message says how to continue.
    Interrupted = 130,
}

impl Exit {
    /// Returns the exit code that takes precedence if both apply.
    pub fn or(self, other: Exit) -> Exit {
        const PRECEDENCE: [Exit; 6] = [
            Exit::Interrupted,
            Exit::CannotGoOn,
            Exit::Usage,
            Exit::Unmet,
            Exit::SomeFailed,
            Exit::Undecided,
        ];
        let counts = PRECEDENCE.into_iter().find(|exit| [self, other].contains(exit));
        counts.unwrap_or(Exit::Done)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
