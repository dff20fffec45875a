//! Refuses to write to a directory that another user could have planted. On a machine of several users anybody can make a folder in `/tmp`
//! before another one does, and decide what becomes of the files in it.

use super::output;
use crate::error::{Error, Result};
use crate::files::stranger;
use std::path::Path;

/// Directories of other users that are written to.
#[derive(Debug, Default, clap::Args)]
pub struct Owner {
    /// Write to a directory of another user, even below one where everybody can make directories, such as /tmp
    #[arg(long)]
    other_owner: bool,
}

impl Owner {
    /// Refuses a directory that another user could have planted, and tells of one that another user owns.
    pub fn check(&self, root: &Path) -> Result<()> {
        let Some(stranger) = stranger(root).filter(|_| !self.other_owner) else {
            return Ok(());
        };
        let (path, uid) = (stranger.path.display(), stranger.uid);
        if stranger.is_planted {
            return Err(Error::Usage(format!(
                "{path} belongs to another user (uid {uid}), who could change every file that is written there; choose another directory, or \
                 give --other-owner if you trust that user"
            )));
        }
        output::inform(format_args!("{path} belongs to another user (uid {uid})"));
        Ok(())
    }
}
