//! The files of a report: tables of few columns as CSV, and folders that hold files of one kind and nothing else of the report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use vsweep_plan::error::{Error, Result};
use vsweep_plan::files::{create_folder, write_atomic};

/// Rows as CSV, each a list of cells with their columns' names, which are the same in every row; `None` without rows.
pub(super) fn to_csv<N: AsRef<str>>(rows: &[Vec<(N, String)>]) -> Option<Vec<u8>> {
    let header = rows.first()?.iter().map(|(name, _)| name.as_ref());
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header).expect("memory takes every row");
    for row in rows {
        let cells = row.iter().map(|(_, cell)| cell);
        writer.write_record(cells).expect("memory takes every row");
    }
    Some(writer.into_inner().expect("memory takes every row"))
}

/// Writes these files into a folder and removes others of the extension, which an earlier report wrote.
pub(super) fn write_folder(
    folder: &Path,
    extension: &str,
    files: impl Iterator<Item = (String, Vec<u8>)>,
) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (name, content) in files {
        if written.is_empty() {
            create_folder(folder)?;
        }
        let path = folder.join(name);
        write_atomic(&path, &content)?;
        written.push(path);
    }
    if folder.is_dir() {
        remove_others(folder, extension, &written)?;
    }
    Ok(written)
}

fn remove_others(folder: &Path, extension: &str, written: &[PathBuf]) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if path.extension().is_some_and(|found| found == extension) && !written.contains(&path) {
            match fs::remove_file(&path) {
                // Another shard removed it first.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(Error::io("remove", &path))?,
            }
        }
    }
    Ok(())
}
