//! Reading files that others could have made. Only a regular file is read: no link leads elsewhere, no pipe is waited for, and no file takes
//! more memory than its reader allows.

use nix::fcntl::OFlag;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Most bytes of a file that tells a few facts, such as a manifest or a lease.
pub const FACTS: u64 = 1 << 20;
/// Most bytes of a file that people may write, such as a plan, or of a list of what a process tree made.
pub const TEXT: u64 = 1 << 26;
/// Most bytes of a table, a page or the result of one run.
pub const RESULT: u64 = 1 << 30;
/// Kind of the error for a path that is not a regular file, or a file that is too long, as opposed to one that cannot be read.
pub const REFUSED: ErrorKind = ErrorKind::InvalidInput;

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, File::options().read(true))
}

/// Opens a file with these options. Never follows a link or waits for the other end of a pipe.
pub fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let careful = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = options.custom_flags(careful.bits()).open(path);
    let found = match &opened {
        Ok(file) => file.metadata(),
        Err(_) => path.symlink_metadata(),
    };
    match found {
        Ok(found) => must_be_plain(found.file_type()).and(opened),
        Err(_) => opened,
    }
}

/// Fails for anything but a regular file.
pub(super) fn must_be_plain(kind: FileType) -> io::Result<()> {
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        () if kind.is_symlink() => "a link, which is not followed,",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(refused(format!("it is {what} and no regular file; remove it")))
}

/// Reads a file of at most so many bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_all(&open(path)?, most)
}

/// Reads a text of at most so many bytes.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Reads the rest of an open file, at most `most` bytes.
pub fn read_all(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let mut content = Vec::new();
    if length <= most {
        content.reserve_exact(length as usize + 1);
        file.take(most + 1).read_to_end(&mut content)?;
    }
    match length.max(content.len() as u64) <= most {
        true => Ok(content),
        false => Err(refused(format!(
            "it is longer than {most} bytes, which is the most that is read; remove it"
        ))),
    }
}

fn refused(why: String) -> io::Error {
    io::Error::new(REFUSED, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_a_regular_file_is_read_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "text").expect("written");
        symlink("file", at("link")).expect("linked");
        symlink("/dev/zero", at("device")).expect("linked");
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("made");
        let _socket = UnixListener::bind(at("socket")).expect("bound");
        assert_eq!(read_text(&at("file"), 4).expect("a file"), "text");
        for (name, what) in [
            ("link", "a link"),
            ("device", "a link"),
            ("pipe", "a pipe"),
            ("socket", "a socket"),
        ] {
            let error = read(&at(name), 9).expect_err(name);
            assert_eq!(error.kind(), REFUSED);
            assert!(error.to_string().contains(what), "{error}");
        }
        assert!(
            read(Path::new("/dev/zero"), 9)
                .expect_err("a device")
                .to_string()
                .contains("a device")
        );
        assert_eq!(
            read(folder.path(), 9).expect_err("a folder").kind(),
            ErrorKind::IsADirectory
        );
        assert_eq!(read(&at("none"), 9).expect_err("nothing").kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_is_too_long_takes_no_memory() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("sparse");
        File::create(&path)
            .and_then(|file| file.set_len(1 << 40))
            .expect("made");
        let error = read(&path, RESULT).expect_err("too long");
        assert_eq!(error.kind(), REFUSED);
        assert!(error.to_string().contains("longer than 1073741824 bytes"), "{error}");
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for_by_a_writer() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
        let error = open_with(&path, File::options().append(true)).expect_err("a pipe");
        assert!(error.to_string().contains("a pipe"), "{error}");
    }
}
