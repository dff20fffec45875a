//! Writing to standard output and standard error: a reader that has seen enough, such as `head`, is no error.

use crate::error::{Error, Exit, Result};
use std::fmt::Display;
use std::io::{ErrorKind, Result as IoResult, Write};

/// Ends a subcommand whose last act was to write.
pub fn finish(written: IoResult<()>) -> Result<Exit> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::io("write", "standard output")(error)),
        _ => Ok(Exit::Done),
    }
}

/// Says something on standard error. One that is closed or full is no reason to lose what is being done.
pub fn tell(sentence: impl Display) {
    let _ = writeln!(std::io::stderr(), "vsweep: {sentence}");
}
