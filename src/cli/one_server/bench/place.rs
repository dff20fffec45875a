//! Chooses the place for the result of `vsweep bench`. That it is writable is checked before anything is sent. A result that still cannot
//! be written goes elsewhere and is never thrown away. The content of the file is up to the benchmark.

use crate::bench::native::settings::Output;
use crate::error::{Error, Result};
use crate::files::write_named;
use crate::python_json;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The place of a result file.
#[derive(Debug)]
pub struct ResultPlace {
    folder: PathBuf,
    /// The file, if the user chose its name.
    chosen: Option<PathBuf>,
    append: bool,
}

impl ResultPlace {
    /// Creates the folders and tries whether a file can be written there.
    pub fn prepare(output: &Output) -> Result<ResultPlace> {
        let folder = output.result_dir.clone().unwrap_or_default();
        let chosen = output.result_filename.as_ref().map(|name| folder.join(name));
        let folder = match &chosen {
            Some(path) => path.parent().unwrap_or(Path::new("")).to_path_buf(),
            None => folder,
        };
        fs::create_dir_all(&folder).map_err(|error| refused("create", &folder, &error))?;
        if let Some(path) = &chosen {
            try_file(path).map_err(|error| refused("write", path, &error))?;
        }
        if !chosen.as_deref().is_some_and(is_device) {
            try_folder(&folder).map_err(|error| refused("write files in", &folder, &error))?;
        }
        Ok(ResultPlace {
            folder,
            chosen,
            append: output.append_result,
        })
    }

    /// Writes the result, under `name` unless the user chose one; returns where it is. If that fails, the result goes into
    /// the current folder or that for temporary files, and the error says which.
    pub fn save(&self, name: &str, result: &impl Serialize) -> Result<PathBuf> {
        let path = self.chosen.clone().unwrap_or_else(|| self.folder.join(name));
        let written = match (&self.chosen, self.append) {
            (_, true) => append(&path, result).map(|()| path.clone()),
            (Some(_), false) => replace(&path, result).map(|()| path.clone()),
            (None, false) => write_new(&self.folder, name, result),
        };
        written.map_err(|error| {
            let elsewhere = [PathBuf::new(), std::env::temp_dir()];
            let saved = elsewhere.iter().find_map(|folder| write_new(folder, name, result).ok());
            let outcome = match saved {
                Some(saved) => format!("the result is in {} instead", saved.display()),
                None => "nor anywhere else: only the figures on standard output are left".to_owned(),
            };
            Error::Fatal(format!("cannot write {}: {error}; {outcome}", path.display()))
        })
    }
}

fn refused(action: &str, path: &Path, error: &io::Error) -> Error {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    Error::Usage(format!(
        "cannot {action} {}: {error}; choose another place with --result-dir or --result-filename; nothing was sent",
        path.display()
    ))
}

/// Returns true for a path that is neither a file nor a folder, such as `/dev/stdout`.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Checks that an existing file may be written.
fn try_file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // Opening a pipe would wait for its reader.
        Ok(_) if is_device(path) => Ok(()),
        Ok(_) => File::options().append(true).open(path).map(drop),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks that new files may be written into a folder.
fn try_folder(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".vsweep-{}.tmp", std::process::id()));
    File::create(&path)?;
    match fs::remove_file(path) {
        // A process of the same number, in another container, tried the same folder.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Puts a file in the place of another, or writes to a device.
fn replace(path: &Path, content: &impl Serialize) -> io::Result<()> {
    write_named(path, |to| python_json::write(content, to)).map_err(|error| match error {
        Error::Io { source, .. } => source,
        other => io::Error::other(other.to_string()),
    })
}

/// Adds a line to a file, whole or not at all; others who do the same wait meanwhile.
fn append(path: &Path, result: &impl Serialize) -> io::Result<()> {
    let file = File::options().append(true).create(true).open(path)?;
    match file.lock() {
        // Some network file systems have no locks.
        Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
        _ => {}
    }
    let before = file.metadata()?.len();
    let mut to = BufWriter::new(&file);
    let begun = if before > 0 { to.write_all(b"\n") } else { Ok(()) };
    let written = begun
        .and_then(|()| python_json::write(result, &mut to))
        .and_then(|()| to.flush());
    if written.is_err() {
        // Dropping the writer would write the rest of its buffer.
        let _ = to.into_parts();
        let _ = file.set_len(before);
    }
    written
}

/// Writes a file that was not there: under this name, or with a number behind it.
fn write_new(folder: &Path, name: &str, result: &impl Serialize) -> io::Result<PathBuf> {
    let stem = name.strip_suffix(".json").unwrap_or(name);
    for count in 1u32.. {
        let path = match count {
            1 => folder.join(format!("{stem}.json")),
            _ => folder.join(format!("{stem}-{count}.json")),
        };
        match File::create_new(&path) {
            Ok(_) => {
                let written = replace(&path, result);
                if written.is_err() {
                    // An empty file would look like a result.
                    let _ = fs::remove_file(&path);
                }
                return written.map(|()| path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn output(folder: &Path, name: Option<&str>, append: bool) -> Output {
        Output {
            save_result: true,
            append_result: append,
            result_dir: Some(folder.to_path_buf()),
            result_filename: name.map(str::to_owned),
            is_quiet: true,
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_before_anything_is_sent() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "x").expect("written");
        let places = [
            output(&file, None, false),
            output(Path::new("/proc"), Some("x.json"), false),
            output(folder.path(), Some("."), false),
        ];
        for place in places {
            let error = ResultPlace::prepare(&place).expect_err("it cannot be written");
            let words = error.to_string();
            assert!(
                words.starts_with("cannot ") && words.ends_with("nothing was sent"),
                "{words}"
            );
        }
        ResultPlace::prepare(&output(folder.path(), Some("a/b/c.json"), false)).expect("its folders are made");
        assert_eq!(fs::read_dir(folder.path().join("a/b")).expect("a folder").count(), 0);
    }

    #[test]
    fn results_of_the_same_name_lie_beside_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = ResultPlace::prepare(&output(folder.path(), None, false)).expect("writable");
        let saved = [1, 2].map(|i| place.save("r.json", &json!(i)).expect("written"));
        assert_eq!(saved, ["r.json", "r-2.json"].map(|name| folder.path().join(name)));
        assert_eq!(saved.map(|path| fs::read_to_string(path).expect("text")), ["1", "2"]);
    }

    #[test]
    fn lines_of_many_writers_stay_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let long = "x".repeat(100_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let place = ResultPlace::prepare(&output(folder.path(), Some("all.json"), true)).expect("writable");
                    for _ in 0..5 {
                        place.save("unused", &json!({"a": long})).expect("written");
                    }
                });
            }
        });
        let text = fs::read_to_string(folder.path().join("all.json")).expect("text");
        let whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok_and(|value| value["a"] == *long);
        assert_eq!(text.lines().filter(|line| whole(line)).count(), 20);
        assert_eq!(text.lines().count(), 20);
    }

    #[test]
    fn a_result_that_cannot_be_written_goes_elsewhere() {
        let name = format!("vsweep-test-{}.json", std::process::id());
        let place = ResultPlace::prepare(&output(Path::new("/dev"), Some("full"), false)).expect("a device");
        let words = place.save(&name, &json!([1])).expect_err("it is full").to_string();
        let saved = words
            .split("the result is in ")
            .nth(1)
            .expect("a place")
            .trim_end_matches(" instead");
        assert_eq!(fs::read_to_string(saved).expect("text"), "[1]");
        fs::remove_file(saved).expect("removed");
    }
}
