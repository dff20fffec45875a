//! Tells files and folders of other users from our own. On a machine of several users anybody can make a folder before another one does,
//! below a parent that all may write to.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Anybody may create entries here.
const WRITABLE_BY_ALL: u32 = 0o002;

/// Returns true if something belongs to this user or to root.
pub fn is_trusted(found: &Metadata) -> bool {
    [nix::unistd::geteuid().as_raw(), 0].contains(&found.uid())
}

/// A folder, or a link to one, that belongs to another user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Path of the folder or the link.
    pub path: PathBuf,
    /// The user's number.
    pub uid: u32,
    /// True if anybody could have made it there.
    pub is_planted: bool,
}

/// Finds what of a path belongs to another user, so far as the path is there: first what anybody could have made, then its end.
pub fn stranger(path: &Path) -> Option<Stranger> {
    let path = std::path::absolute(path).ok()?;
    let real = path.canonicalize().ok();
    let found: Vec<Stranger> = [Some(path), real]
        .into_iter()
        .flatten()
        .filter_map(|way| on_the_way(&way))
        .collect();
    let planted = found.iter().find(|found| found.is_planted);
    planted.or(found.first()).cloned()
}

fn on_the_way(path: &Path) -> Option<Stranger> {
    let mut ways: Vec<&Path> = path.ancestors().collect();
    ways.reverse();
    let mut is_open = false;
    for way in ways {
        let found = fs::symlink_metadata(way).ok()?;
        if !is_trusted(&found) && (is_open || way == path) {
            return Some(Stranger {
                path: way.to_path_buf(),
                uid: found.uid(),
                is_planted: is_open,
            });
        }
        is_open |= found.is_dir() && found.permissions().mode() & WRITABLE_BY_ALL != 0;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{Uid, chown};

    /// Only root can give files away.
    #[test]
    fn what_another_user_made_where_anybody_may_is_told_from_what_was_mounted() {
        if !Uid::effective().is_root() {
            return;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        // The folder of temporary files itself is open to all.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let foreign = folder.path().join("foreign");
        fs::create_dir_all(foreign.join("own")).expect("made");
        let at = |path: &Path| stranger(path).map(|found| (found.path, found.uid, found.is_planted));
        assert_eq!(at(&foreign), None);
        chown(&foreign, Some(Uid::from_raw(4321)), None).expect("root may");
        let is_open = std::env::temp_dir()
            .metadata()
            .is_ok_and(|found| found.permissions().mode() & 2 != 0);
        assert_eq!(at(&foreign), Some((foreign.clone(), 4321, is_open)));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("ours");
        for below in [foreign.clone(), foreign.join("own"), foreign.join("to-come")] {
            assert_eq!(at(&below), Some((foreign.clone(), 4321, true)), "{}", below.display());
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/usr", &link).expect("linked");
        assert_eq!(at(&link), None);
        std::os::unix::fs::lchown(&link, Some(4321), None).expect("root may");
        assert_eq!(at(&link), Some((link, 4321, true)));
    }
}
