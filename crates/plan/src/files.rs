//! Writing files so that a crash at any moment leaves either the old content or the new, never a torn one.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces a file's content durably: write beside it, fsync, rename over it, fsync the folder.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<()> {
    write_atomic_with(path, |file| file.write_all(content))
}

/// The same with content that is made while it is written.
pub fn write_atomic_with(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    let beside = temporary_name(path);
    let written = File::create(&beside).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()
    });
    if let Err(error) = written {
        // Best effort: on a full disk the half-written neighbour would only take more room.
        let _ = fs::remove_file(&beside);
        return Err(Error::io("write", path)(error));
    }
    fs::rename(&beside, path).map_err(Error::io("replace", path))?;
    sync_folder_of(path)
}

/// Creates a folder and its parents; the folder itself is durable then.
pub fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::io("create", path))?;
    sync_folder_of(path)
}

fn sync_folder_of(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(Error::io("sync", folder))
}

/// A neighbour's name of this process and this call alone: several vsweeps may write one directory.
fn temporary_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(
        ".{}-{}.tmp",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_content_and_leaves_no_neighbour() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.json");
        write_atomic(&path, b"old").expect("written");
        write_atomic(&path, b"new").expect("replaced");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let error = write_atomic(Path::new("/proc/none/a.json"), b"x").expect_err("cannot be written");
        assert!(error.to_string().contains("/proc/none/a.json"), "{error}");
    }
}
