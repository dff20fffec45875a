//! Writing to standard output: a reader that has seen enough, such as `head`, is no error.

use crate::error::{Error, Exit, Result};
use std::io::{ErrorKind, Result as IoResult};

/// Ends a subcommand whose last act was to write.
pub fn finish(written: IoResult<()>) -> Result<Exit> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::io("write", "standard output")(error)),
        _ => Ok(Exit::Done),
    }
}
