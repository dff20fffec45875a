//! Limits the length of a tree's log. A server that repeats itself for a night must not fill the disk. So the guard, whose standard error
//! is the log, keeps the two ends of the log and removes the middle.
//!
//! The processes of the tree write to the file themselves, but always append, so the file can be shortened while they have it open. Text
//! that they write during the cut may be lost or come before the kept end.

use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Length at which a log is cut, in bytes.
const MOST: u64 = 64 << 20;
/// Bytes that are kept of its beginning, which has the settings of the server, and also of its end, which has the reason of a failure.
const KEPT: u64 = 16 << 20;

/// The log of a tree.
pub struct Log {
    /// `None` if it is not a file.
    file: Option<File>,
    /// Length at which it is cut, in bytes.
    most: u64,
    /// Bytes that are kept of either end.
    kept: u64,
    /// Offset of the end of the kept beginning, once the log was cut.
    head: Option<u64>,
    /// Number of bytes left out so far.
    left_out: u64,
    /// Length of the line that reports this number, in bytes. The next cut replaces the line.
    notice: u64,
}

impl Log {
    /// Returns the log that is the standard error of this process, if that is a file.
    pub fn of_stderr() -> Log {
        let path = format!("/proc/self/fd/{}", io::stderr().as_raw_fd());
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            // A terminal that is opened must not become the controlling terminal.
            .custom_flags(OFlag::O_NOCTTY.bits())
            .open(path)
            .ok()
            .filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()));
        Log::new(file, MOST, KEPT)
    }

    fn new(file: Option<File>, most: u64, kept: u64) -> Log {
        Log {
            file,
            most,
            kept,
            head: None,
            left_out: 0,
            notice: 0,
        }
    }

    /// Cuts the log if it is too long. Errors of the disk are ignored, because the measurement must go on.
    pub fn bound(&mut self) {
        if let Some(file) = self.file.take() {
            if let Some(length) = length_of(&file).ok().filter(|length| *length > self.most) {
                let _ = self.cut(&file, length);
            }
            self.file = Some(file);
        }
    }

    /// Removes the middle of a log of this length, and what was written since. Keeps whole lines of both ends.
    fn cut(&mut self, mut file: &File, length: u64) -> io::Result<()> {
        let start = match self.head {
            Some(head) => head,
            None => *self.head.insert(after_line(file, self.kept)?),
        };
        let end_from = after_line(file, length - self.kept)?;
        file.seek(SeekFrom::Start(end_from))?;
        let mut end = Vec::new();
        // A tree that writes without end would keep this process reading.
        file.take(length - end_from).read_to_end(&mut end)?;
        let later = length_of(file)?.saturating_sub(length);
        file.set_len(start)?;
        self.left_out += end_from.saturating_sub(start + self.notice) + later;
        let mut text = format!("[vsweep: {} bytes of this log were left out here]\n", self.left_out).into_bytes();
        self.notice = text.len() as u64;
        text.append(&mut end);
        file.write_all(&text)
    }
}

fn length_of(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// Returns the offset of the first line that begins at or after `at`, or `at` itself if the line there is too long.
fn after_line(mut file: &File, at: u64) -> io::Result<u64> {
    const LONGEST: u64 = 1 << 16;
    file.seek(SeekFrom::Start(at - 1))?;
    let mut line = Vec::new();
    let length = BufReader::new(file.take(LONGEST)).read_until(b'\n', &mut line)?;
    Ok(match line.ends_with(b"\n") {
        true => at - 1 + length as u64,
        false => at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    fn appended(path: &Path) -> File {
        let mut options = OpenOptions::new();
        options.append(true).create(true).read(true).open(path).expect("a log")
    }

    #[test]
    fn both_ends_are_kept_and_what_is_missing_is_counted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        let mut file = appended(&path);
        let mut log = Log::new(Some(file.try_clone().expect("cloned")), 1000, 300);
        let mut written = 0;
        for number in 0..500 {
            let line = format!("line {number}\n");
            file.write_all(line.as_bytes()).expect("written");
            written += line.len();
            log.bound();
            assert!(fs::metadata(&path).expect("there").len() <= 1000);
        }
        let text = fs::read_to_string(&path).expect("whole lines");
        assert!(text.starts_with("line 0\nline 1\n") && text.ends_with("line 498\nline 499\n"));
        let notices: Vec<&str> = text.lines().filter(|line| line.starts_with("[vsweep: ")).collect();
        let [notice] = notices[..] else {
            panic!("one notice: {text}")
        };
        assert_eq!(written - log.left_out as usize + notice.len() + 1, text.len());
        assert!(notice.contains(&format!(" {} bytes", log.left_out)), "{notice}");
    }

    #[test]
    fn a_cut_does_not_follow_a_tree_that_goes_on_writing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        let mut file = appended(&path);
        let mut log = Log::new(None, 1000, 300);
        file.write_all(&b"before\n".repeat(200)).expect("written");
        let length = length_of(&file).expect("there");
        file.write_all(&b"later\n".repeat(1000)).expect("written");
        log.cut(&file, length).expect("cut");
        let text = fs::read_to_string(&path).expect("whole lines");
        assert!(text.len() < 700 && text.ends_with("before\n"), "{text}");
        assert_eq!(log.left_out + text.len() as u64 - log.notice, 1400 + 6000);
    }

    proptest! {
        #[test]
        fn any_log_stays_within_its_bound(blocks in prop::collection::vec("[a\n]{0,700}", 0..20)) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut file = appended(&folder.path().join("log"));
            let mut log = Log::new(Some(file.try_clone().expect("cloned")), 500, 100);
            for block in blocks {
                file.write_all(block.as_bytes()).expect("written");
                log.bound();
                prop_assert!(file.metadata().expect("there").len() <= 500);
            }
        }
    }
}
