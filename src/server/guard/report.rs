//! What the guard tells its owner: one line for each fact, on its standard output.

use std::fmt;
use std::str::FromStr;

/// One line from the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The leader runs, under this process id.
    Started(i32),
    /// The leader ended.
    Exited(Exit),
    /// A file that the tree had left behind was removed.
    Removed(String),
    /// The guard cannot do its work, for this reason, and ends.
    Failed(String),
    /// No process of the tree is left.
    Gone,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(known) => write!(f, "killed by {known}"),
                Err(_) => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Started(pid) => write!(f, "started {pid}"),
            Report::Exited(Exit::Code(code)) => write!(f, "exited code {code}"),
            Report::Exited(Exit::Signal(signal)) => write!(f, "exited signal {signal}"),
            Report::Removed(path) => write!(f, "removed {path}"),
            Report::Failed(why) => write!(f, "failed {why}"),
            Report::Gone => write!(f, "gone"),
        }
    }
}

impl FromStr for Report {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = |text: &str| text.parse().map_err(|_| ());
        match verb {
            "started" => Ok(Report::Started(number(rest)?)),
            "exited" => match rest.split_once(' ').ok_or(())? {
                ("code", code) => Ok(Report::Exited(Exit::Code(number(code)?))),
                ("signal", signal) => Ok(Report::Exited(Exit::Signal(number(signal)?))),
                _ => Err(()),
            },
            "removed" => Ok(Report::Removed(rest.to_owned())),
            "failed" => Ok(Report::Failed(rest.to_owned())),
            "gone" => Ok(Report::Gone),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for report in [
            Report::Started(7),
            Report::Exited(Exit::Code(2)),
            Report::Exited(Exit::Signal(9)),
            Report::Removed("/dev/shm/psm_a b".into()),
            Report::Failed("no more files".into()),
            Report::Gone,
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
        assert_eq!("exited".parse::<Report>(), Err(()));
    }
}
