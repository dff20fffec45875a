//! The files of a report: tables of few columns as CSV, and folders with files of one kind.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use vsweep_base::error::{Error, Result};
use vsweep_base::files::{MOST_FACTS, read_text, write_atomic};
use vsweep_record::journal::Directory;
use vsweep_record::table::inert;

/// Rows as CSV, each a list of cells with their columns' names, which are the same in every row; `None` without rows. No cell is a formula
/// to a spreadsheet.
pub(crate) fn to_csv<N: AsRef<str>>(rows: &[Vec<(N, String)>]) -> Option<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |cells: Vec<Cow<'_, str>>| {
        let cells = cells.iter().map(|cell| cell.as_bytes());
        writer.write_record(cells).expect("writing to memory cannot fail");
    };
    write(rows.first()?.iter().map(|(name, _)| inert(name.as_ref())).collect());
    for row in rows {
        write(row.iter().map(|(_, cell)| inert(cell)).collect());
    }
    Some(writer.into_inner().expect("writing to memory cannot fail"))
}

/// A cell; empty without a value.
pub(crate) fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Writes these files into a folder of the directory, and removes the other files that earlier reports wrote there. Files that reports
/// wrote are in a list, so a user's own files in the folder stay.
pub(crate) fn write_folder(
    directory: &Directory,
    folder: &Path,
    files: Vec<(String, Vec<u8>)>,
) -> Result<Vec<PathBuf>> {
    let before = listed(directory);
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name)).collect();
    let mut list = before.clone();
    let name = |path: &PathBuf| Some(path.strip_prefix(directory.root()).ok()?.to_str()?.to_owned());
    list.extend(paths.iter().filter_map(name));
    if !files.is_empty() {
        directory.create_folder(folder)?;
    }
    // The list is written before the files, so that the next report knows the files of one that was killed.
    write_list(directory, &before, &list)?;
    for (path, (_, content)) in paths.iter().zip(&files) {
        write_atomic(path, content)?;
    }
    for gone in written(directory, folder) {
        if !paths.contains(&gone) {
            remove(&gone)?;
            list.retain(|name| directory.root().join(name) != gone);
        }
    }
    write_list(directory, &listed(directory), &list)?;
    Ok(paths)
}

/// The files in a folder of the directory that reports wrote.
pub(crate) fn written(directory: &Directory, folder: &Path) -> Vec<PathBuf> {
    let paths = listed(directory).into_iter().map(|name| directory.root().join(name));
    paths.filter(|path| path.parent() == Some(folder)).collect()
}

/// Paths of all listed files, relative to the directory. Paths that do not end in a name are left out.
fn listed(directory: &Directory) -> BTreeSet<String> {
    let text = read_text(&directory.written(), MOST_FACTS).unwrap_or_default();
    let names = text.lines().filter(|name| Path::new(name).file_name().is_some());
    names.map(str::to_owned).collect()
}

fn write_list(directory: &Directory, before: &BTreeSet<String>, list: &BTreeSet<String>) -> Result<()> {
    let text: String = list.iter().map(|name| format!("{name}\n")).collect();
    match list == before {
        true => Ok(()),
        false => write_atomic(&directory.written(), text.as_bytes()),
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        // Another process removed the file first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", path)),
    }
}
