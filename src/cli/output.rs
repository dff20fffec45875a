//! Writes to standard output and standard error. A reader that has closed its end, such as `head`, is not an error. A full disk sets the
//! exit code. Neither ends a measurement. Characters that would act on a terminal are escaped.

use crate::error::{Error, Exit, Result};
use crate::files::{create_folder, temporary_name};
use crate::printable::{Printable, printable_lines};
use crate::report::findings::requirements::RequirementResult;
use crate::report::texts::terminal::{Screen, show, show_places};
use crate::stats::RequirementVerdict;
use console::Term;
use serde::Serialize;
use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Output format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

impl OutputFormat {
    /// Prints the words or the value, depending on the format, on standard output.
    pub fn print<T: Serialize>(self, words: impl FnOnce() -> String, value: impl FnOnce() -> T) -> Result<Exit> {
        match self {
            OutputFormat::Text => finish(text().write_all(words().as_bytes())),
            OutputFormat::Json => print_json(&value()),
        }
    }
}

/// First error of [`say`].
static LOST: OnceLock<io::Error> = OnceLock::new();

/// True if text for people is unwanted.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Silences [`text`] and [`inform`] from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns true if text for people is unwanted.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Refuses a path at which something exists.
pub fn must_be_new(path: &Path) -> Result<()> {
    match path.exists() {
        false => Ok(()),
        true => Err(Error::Usage(format!(
            "{} is there already; remove it, or choose another place with -o",
            path.display()
        ))),
    }
}

/// Makes a folder at a path at which nothing exists. `fill` writes into a temporary folder next to it, which gets its name once it is
/// complete. So nothing incomplete has that name, even if this process is killed.
pub fn make_folder<T>(path: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    must_be_new(path)?;
    let temporary = temporary_name(path);
    let filled = create_folder(&temporary).and_then(|()| fill(&temporary));
    let made = filled.and_then(|content| {
        fs::rename(&temporary, path).map_err(Error::io("create", path))?;
        Ok(content)
    });
    if made.is_err() {
        // Best effort: on a full disk, the partial folder would only take space.
        let _ = fs::remove_dir_all(&temporary);
    }
    made
}

/// Returns the exit of a subcommand that ends by writing. A closed pipe is not an error.
pub fn finish(written: io::Result<()>) -> Result<Exit> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::io("write", "standard output")(error)),
        _ => Ok(Exit::Done),
    }
}

/// Destination of output, which escapes control characters.
type Out = Printable<Box<dyn Write>>;

/// Returns standard output for text that people read.
pub fn text() -> Out {
    Printable::lines(match QUIET.load(Ordering::Relaxed) {
        true => Box::new(io::sink()),
        false => Box::new(Screen::new(io::stdout().lock())),
    })
}

/// Returns standard output for a requested text format such as CSV, which `--quiet` does not silence.
pub fn file() -> Out {
    Printable::lines(Box::new(io::stdout().lock()))
}

/// Returns standard output for JSON.
pub fn json() -> Out {
    Printable::json(Box::new(io::stdout().lock()))
}

/// Prints JSON on standard output.
pub fn print_json(value: &impl Serialize) -> Result<Exit> {
    let text = serde_json::to_string_pretty(value).expect("plain data always serialises");
    finish(writeln!(json(), "{text}"))
}

/// Prints a line for people on standard output. The first error is kept for [`all_said`], so that the work goes on.
pub fn say(line: impl Display) {
    if let Err(error) = writeln!(text(), "{line}")
        && error.kind() != ErrorKind::BrokenPipe
    {
        // Only the first error is reported.
        let _ = LOST.set(error);
    }
}

/// Returns the first error of [`say`], if there was one.
pub fn all_said() -> Result<()> {
    let lost = LOST.get().map(|error| io::Error::new(error.kind(), error.to_string()));
    lost.map_or(Ok(()), |error| Err(Error::io("write", "standard output")(error)))
}

/// Prints the verdicts on the plan's requirements: broken and undecided ones on standard error, met ones on standard output if `is_shown`
/// is true. Returns the exit code for them.
pub fn print_requirements(judged: &[RequirementResult], is_shown: bool) -> Exit {
    let mut exit = Exit::Done;
    for judged in judged {
        match judged.verdict {
            RequirementVerdict::Met if is_shown => say(judged),
            RequirementVerdict::Met => {}
            RequirementVerdict::Broken | RequirementVerdict::Undecided => print_note(judged),
        }
        exit = exit.or(exit_for(judged.verdict));
    }
    exit
}

/// Returns the exit code for the verdict on a requirement.
pub fn exit_for(verdict: RequirementVerdict) -> Exit {
    match verdict {
        RequirementVerdict::Met => Exit::Done,
        RequirementVerdict::Broken => Exit::Unmet,
        RequirementVerdict::Undecided => Exit::Undecided,
    }
}

/// Prints a sentence on standard error. Ignores errors, because the work must go on.
pub fn print_note(sentence: impl Display) {
    print_text(format_args!("vsweep: {sentence}"));
}

/// Prints a sentence unless `--quiet` is given.
pub fn inform(sentence: impl Display) {
    if !QUIET.load(Ordering::Relaxed) {
        print_note(sentence);
    }
}

/// Prints text, which may have several lines, on standard error.
pub fn print_text(text: impl Display) {
    let text = show(&printable_lines(&text.to_string()), &Term::stderr());
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints coloured text on standard error. It must not contain other control characters.
pub fn print_styled(text: impl Display) {
    let text = show_places(&text.to_string(), &Term::stderr());
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write_atomic;

    #[test]
    fn a_folder_is_made_whole_or_not_at_all() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let path = parent.path().join("new");
        let refused: Result<()> = make_folder(&path, |folder| {
            write_atomic(&folder.join("half"), b"x")?;
            Err(Error::Fatal("the disk is full".into()))
        });
        assert!(refused.is_err());
        assert_eq!(fs::read_dir(parent.path()).expect("readable").count(), 0);
        let written = make_folder(&path, |folder| {
            assert!(!path.exists());
            write_atomic(&folder.join("all"), b"x")
        });
        written.expect("made");
        assert!(path.join("all").is_file());
        assert!(make_folder(&path, |_| Ok(())).is_err());
        assert_eq!(fs::read_dir(parent.path()).expect("readable").count(), 1);
    }
}
