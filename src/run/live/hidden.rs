//! Hides the plan's secrets in the output of programs, which is kept. This is done once a program has ended. If vsweep was killed before,
//! the next session does it when it begins.

use crate::bench::{LOG, RESULT};
use crate::error::{Error, Result};
use crate::files::{self, process_started, write_atomic};
use crate::journal::{Directory, Session, State};
use crate::plan::Secrets;
use crate::run::facts;
use std::borrow::Cow;
use std::fs;
use std::path::Path;

/// Hides secrets in the log and the result files of a benchmark's program, which are kept. Returns an error for each file in which they
/// could not be hidden.
pub(super) fn hide_in_scratch(scratch: &Path, secrets: &Secrets) -> Vec<Error> {
    let mut errors: Vec<Error> = hide_in_log(&scratch.join(LOG), secrets).err().into_iter().collect();
    if !secrets.is_empty() {
        errors.extend(hide_in_result(&scratch.join(RESULT), secrets));
    }
    errors
}

/// Returns the note about a file in which secrets could not be hidden. The sweep continues.
pub(super) fn not_hidden(error: &Error) -> String {
    format!("a file may hold secrets of the plan, and they could not be hidden: {error}")
}

/// Hides secrets in a result, or in each regular file of a folder of results.
fn hide_in_result(result: &Path, secrets: &Secrets) -> Vec<Error> {
    let hidden = match result.symlink_metadata() {
        Ok(found) if found.is_dir() => match fs::read_dir(result) {
            Ok(inside) => {
                let inside = inside.flatten().map(|entry| entry.path());
                return inside.flat_map(|path| hide_in_result(&path, secrets)).collect();
            }
            Err(error) => Err(Error::io("read", result)(error)),
        },
        Ok(found) if found.is_file() => hide_in_file(result, secrets),
        _ => Ok(()),
    };
    hidden.err().into_iter().collect()
}

/// Hides secrets in a file of a result. A file that is not text is never written, because that would destroy it.
fn hide_in_file(file: &Path, secrets: &Secrets) -> Result<()> {
    let written = files::read(file, files::MOST_RESULT).map_err(Error::io("read", file))?;
    let is_json = file.extension().is_some_and(|it| it == "json" || it == "jsonl");
    let text = String::from_utf8_lossy(&written);
    let is_text = matches!(text, Cow::Borrowed(_));
    let hidden = match is_json && is_text {
        true => secrets.redact_json(written.clone()),
        false => secrets.redact(&text).into_bytes(),
    };
    match hidden == text.as_bytes() {
        true => Ok(()),
        false if is_text => write_atomic(file, &hidden),
        false => Err(Error::Fatal(format!(
            "{} is not UTF-8 text, so it was left as it is; remove it before you share the results",
            file.display()
        ))),
    }
}

/// Hides secrets in a program's log, if there is one.
pub(in crate::run) fn hide_in_log(log: &Path, secrets: &Secrets) -> Result<()> {
    if secrets.is_empty() || !log.exists() {
        return Ok(());
    }
    let written = files::read(log, files::MOST_RESULT).map_err(Error::io("read", log))?;
    let text = String::from_utf8_lossy(&written);
    let hidden = secrets.redact(&text);
    match hidden == text {
        true => Ok(()),
        false => write_atomic(log, hidden.as_bytes()),
    }
}

/// Hides secrets in the logs of servers and benchmarks whose sessions were killed on this machine, and of the command of `[on_finish]`. Logs
/// of other machines are left alone, because programs there may still write them. Returns a sentence for each file in which they could not
/// be hidden.
pub(in crate::run) fn hide_in_logs_of_killed(directory: &Directory, state: &State, secrets: &Secrets) -> Vec<String> {
    let here = facts::session();
    let lives = |session: &Session| session.boot == here.boot && process_started(session.pid) == Some(session.started);
    let sessions = state.sessions().iter();
    let mut errors: Vec<Error> = Vec::new();
    // The command runs after the recorded end of its session, so it may still write if a session lives, here or on another machine.
    let is_last_here = state.last_session().is_none_or(|session| session.host == here.host);
    if is_last_here && !sessions.clone().any(lives) {
        errors.extend(hide_in_log(&directory.on_finish_log(), secrets).err());
    }
    let killed = sessions.filter(|session| session.ended.is_none() && session.host == here.host && !lives(session));
    let killed: Vec<String> = killed.map(|session| session.nonce().to_string()).collect();
    let tops = ["servers", "runs"].into_iter();
    for top in tops.filter(|_| !secrets.is_empty() && !killed.is_empty()) {
        let folders = fs::read_dir(directory.root().join(top)).into_iter().flatten().flatten();
        for found in folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten()) {
            let name = found.file_name();
            // `<nonce>-<n>.log`, `<slot>.<k>-<nonce>-<seq>.bench`
            let is_theirs = name
                .to_string_lossy()
                .split('-')
                .any(|part| killed.iter().any(|nonce| nonce == part));
            match found.path() {
                path if !is_theirs => drop(path),
                path if path.extension().is_some_and(|it| it == "log") => {
                    errors.extend(hide_in_log(&path, secrets).err());
                }
                path if path.extension().is_some_and(|it| it == "bench") => {
                    errors.extend(hide_in_scratch(&path, secrets));
                }
                _ => {}
            }
        }
    }
    errors.iter().map(not_hidden).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, Recorder, Shard};

    #[test]
    fn secrets_are_hidden_in_every_file_of_a_result() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join(RESULT).join("logs");
        fs::create_dir_all(&inner).expect("a folder");
        let [json, text] = [inner.join("inputs.json"), inner.join("client.txt")];
        fs::write(&json, r#"{"key": "SEKRIT0123", "rate": 1.50}"#).expect("written");
        fs::write(&text, "key SEKRIT0123\n").expect("written");
        let long = inner.join("long.json");
        let sparse = fs::File::create(&long).and_then(|file| file.set_len(files::MOST_RESULT + 1));
        sparse.expect("made");
        let mut secrets = Secrets::default();
        secrets.note("API_KEY", "SEKRIT0123");
        let errors = hide_in_scratch(folder.path(), &secrets);
        assert_eq!(
            fs::read_to_string(&json).expect("text"),
            r#"{"key": "***", "rate": 1.50}"#
        );
        assert_eq!(fs::read_to_string(&text).expect("text"), "key ***\n");
        let [error] = &errors[..] else {
            panic!("one error: {errors:?}")
        };
        assert!(error.to_string().contains("long.json"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_text_stays_and_is_named_if_it_holds_a_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join(RESULT);
        fs::create_dir_all(&inner).expect("a folder");
        let files = [
            ("trace.bin", &b"\xff SEKRIT0123"[..]),
            ("inputs.json", &b"{\"key\": \"SEKRIT0123\", \"name\": \"\xe9\"}"[..]),
            ("image.bin", &b"\xff\xd8"[..]),
        ];
        for (name, content) in files {
            fs::write(inner.join(name), content).expect("written");
        }
        let mut secrets = Secrets::default();
        secrets.note("API_KEY", "SEKRIT0123");
        let errors = hide_in_scratch(folder.path(), &secrets);
        let notes = errors.iter().map(Error::to_string).collect::<Vec<_>>().join("\n");
        assert_eq!(errors.len(), 2, "{notes}");
        for (name, content) in files {
            assert_eq!(notes.contains(name), name != "image.bin", "{notes}");
            assert_eq!(fs::read(inner.join(name)).expect("readable"), content, "{name}");
        }
    }

    #[test]
    fn a_log_that_cannot_be_read_is_named_and_the_others_keep_no_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::at(folder.path().join("out"));
        let mut killed = Recorder::open(directory.clone(), Shard::WHOLE).expect("new");
        let mut session = facts::session();
        session.started += 1;
        killed
            .record(Event::SessionStarted(Box::new(session)))
            .expect("written");
        let logs = directory.root().join("servers/s");
        fs::create_dir_all(&logs).expect("a folder");
        let [link, log] = ["1", "2"].map(|launch| logs.join(format!("{}-{launch}.log", killed.nonce())));
        // Nobody may read through a link, not even root.
        std::os::unix::fs::symlink("/dev/null", link).expect("made");
        fs::write(&log, "key SEKRIT0123\n").expect("written");
        let mut secrets = Secrets::default();
        secrets.note("API_KEY", "SEKRIT0123");
        let notes = hide_in_logs_of_killed(&directory, killed.state(), &secrets);
        assert_eq!(fs::read_to_string(&log).expect("text"), "key ***\n");
        let [note] = &notes[..] else {
            panic!("one note: {notes:?}")
        };
        assert!(note.contains("-1.log: it is a link, which is not followed,"), "{note}");
    }
}
