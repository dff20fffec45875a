//! A folder in memory for targets that read files.

use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        let memory = "/dev/shm";
        Folder(tempfile::tempdir_in(memory).unwrap_or_else(|error| panic!("{memory}: {error}")))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, with the folders above it.
    pub fn write(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        let above = path.parent().expect("a file stands in a folder");
        fs::create_dir_all(above).expect("a folder in memory");
        fs::write(path, content).expect("memory is not full");
    }
}
