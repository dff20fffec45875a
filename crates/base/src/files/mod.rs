//! Writes files so that a crash at any moment leaves either the old content or the new, never a mixture, and reads files that other users
//! could have made. No link is followed to vsweep's own files; a path that the user names may be a link, a device or a pipe.

use crate::error::{Error, Result};
use crate::ids::digest_start;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fmt;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces a file's content durably: writes a temporary file in the same folder, syncs it, renames it over the old one and syncs the
/// folder. Replaces only a regular file, and keeps its mode.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<()> {
    write_atomic_with(path, |file| file.write_all(content))
}

/// Like [`write_atomic`], for content that is produced while it is written.
pub fn write_atomic_with(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    if let Ok(found) = path.symlink_metadata() {
        must_be_plain(found.file_type()).map_err(Error::io("write", path))?;
    }
    replace(path, write)
}

/// Like [`write_atomic_with`], for a path that a user names. A symbolic link is kept and its target is replaced; a device or a pipe is
/// written directly. A link that another user could have planted is refused.
pub fn write_named(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    if let Some(foreign) = foreign_part(path).filter(|foreign| foreign.is_planted && path.is_symlink()) {
        let why = format!("it is a link, and {foreign}; remove it, or name its target");
        return Err(Error::io("write", path)(io::Error::new(REFUSED, why)));
    }
    match &replaceable(path) {
        Some(path) => replace(path, write),
        None => write_to(path, write).map_err(Error::io("write", path)),
    }
}

fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    let temporary = temporary_name(path);
    let mode = path.symlink_metadata().map_or(0o666, |found| found.mode() & 0o777);
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|file| fill(file, write))
        .map_err(Error::io("write", path))
        .and_then(|()| fs::rename(&temporary, path).map_err(Error::io("replace", path)));
    if let Err(error) = written {
        // Best effort: on a full disk, the partial file would only take space.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder_of(path)
}

/// Returns the file that may be replaced at this path, or created there. `None` for a folder, a device or a pipe, and for a link to one of
/// these or to a file that is not there yet.
fn replaceable(path: &Path) -> Option<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => fs::canonicalize(path).ok().filter(|target| target.is_file()),
        Ok(found) if !found.is_file() => None,
        _ => Some(path.to_path_buf()),
    }
}

/// Writes to a device, a pipe, or through a link to a file that is not there yet.
fn write_to(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let mut options = File::options();
    fill(options.write(true).create(!path.exists()).open(path)?, write)
}

fn fill(file: File, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    file.flush()?;
    match file.get_ref().metadata()?.is_file() {
        true => file.get_ref().sync_all(),
        false => Ok(()),
    }
}

/// Creates a folder and its parents, and syncs the folder's entry in its parent.
pub fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::io("create", path))?;
    sync_folder_of(path)
}

/// Creates a folder somewhere below `root`. Fails if there is a link on the way, so that everything written to the folder stays below
/// `root`.
pub fn create_folder_in(root: &Path, folder: &Path) -> Result<()> {
    let below = folder.strip_prefix(root).unwrap_or(Path::new(""));
    let mut at = root.to_path_buf();
    for part in below {
        at.push(part);
        if at.is_symlink() {
            let why = "it is a link, which is not followed here; remove it";
            return Err(Error::io("create", &at)(io::Error::new(REFUSED, why)));
        }
    }
    create_folder(folder)
}

/// Syncs the folder that a file or folder is in, so that its entry there lasts.
pub fn sync_folder_of(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(Error::io("sync", folder))
}

/// Most bytes of a file's name that its temporary name repeats. A file system allows 255 bytes for a name, and the rest is needed for the
/// process.
const MOST_REPEATED: usize = 160;

/// Returns a path in the same folder that no other process or call uses, because several vsweeps may write one directory. It identifies the
/// process: `<name>.<machine>-<pid>-<start>-<count>.tmp`.
pub fn temporary_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(
        "{}.{}-{}.tmp",
        &name[..name.floor_char_boundary(MOST_REPEATED)],
        this_process(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ))
}

/// Returns a text that distinguishes this process from all others on any machine: `<machine>-<pid>-<start>`. It is `0-0-0` if `/proc`
/// cannot be read.
pub fn this_process() -> String {
    static THIS: LazyLock<String> = LazyLock::new(|| process(std::process::id()).unwrap_or_else(|| "0-0-0".to_owned()));
    THIS.clone()
}

/// Returns the text that identifies a process on this machine: a hash of the boot and of the namespace of process ids, the process id, and
/// its start in clock ticks since the boot. `None` if no process has this id, or if `/proc` cannot be read.
fn process(pid: u32) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let machine = digest_start(format!("{boot}{}", namespace.display()).as_bytes());
    Some(format!("{machine:x}-{pid}-{}", process_started(pid)?))
}

/// Returns true if the process that this text identifies has certainly ended. Never true for a process on another machine or before a
/// reboot.
pub fn is_process_dead(identity: &str) -> bool {
    let is_dead = || {
        let (machine, pid_and_start) = identity.split_once('-')?;
        let (pid, started) = pid_and_start.split_once('-')?;
        started.parse::<u64>().ok()?;
        let here = process(std::process::id())?;
        let is_here = here.split_once('-')?.0 == machine;
        Some(is_here && process(pid.parse().ok()?).as_deref() != Some(identity))
    };
    is_dead().unwrap_or(false)
}

/// Returns the text that identifies the process that wrote a temporary file, from the name of the file.
fn writer_of(name: &str) -> Option<&str> {
    let (_, writer) = name.strip_suffix(".tmp")?.rsplit_once('.')?;
    let (writer, count) = writer.rsplit_once('-')?;
    count.parse::<u64>().is_ok().then_some(writer)
}

/// Returns the start of the process with this id, in clock ticks since the boot. `None` if no such process runs, or if `/proc` cannot be
/// read.
pub fn process_started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may hold blanks and brackets; the start is the 20th field after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A process that only waits to be reaped has ended.
    fields.next().filter(|state| !matches!(*state, "Z" | "X"))?;
    fields.nth(18)?.parse().ok()
}

/// Number of levels of folders below the given one in which temporary files are sought.
const DEEPEST: u32 = 2;

/// Removes the temporary files that dead processes left in a folder, and in folders up to two levels below. Files that cannot be removed
/// are left.
pub fn remove_abandoned(folder: &Path) {
    remove_abandoned_below(folder, DEEPEST);
}

fn remove_abandoned_below(folder: &Path, depth: u32) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        if kind.is_dir() && depth > 0 {
            remove_abandoned_below(&entry.path(), depth - 1);
        } else if kind.is_file() && name.to_str().and_then(writer_of).is_some_and(is_process_dead) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

// Files and folders of other users. If everybody may write to a folder, another user can create an entry there before vsweep does.

/// Mode bit of a folder in which every user may create entries.
const WRITABLE_BY_ALL: u32 = 0o002;
/// Mode bits of a folder in which users other than its owner may create entries.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Returns true if a file or a folder belongs to this user or to root.
pub fn is_trusted(found: &Metadata) -> bool {
    [nix::unistd::geteuid().as_raw(), 0].contains(&found.uid())
}

/// A folder, or a link to one, that belongs to another user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignPath {
    /// Path of the folder or the link.
    pub path: PathBuf,
    /// Id of that user.
    pub uid: u32,
    /// True if every user could have created it there.
    pub is_planted: bool,
}

impl fmt::Display for ForeignPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} belongs to another user (uid {})", self.path.display(), self.uid)
    }
}

/// Returns the part of a path that belongs to another user: a folder or link that every user could have created, else the path itself.
/// Parts that do not exist yet belong to nobody.
pub fn foreign_part(path: &Path) -> Option<ForeignPath> {
    let path = std::path::absolute(path).ok()?;
    let real = path.canonicalize().ok();
    let found: Vec<ForeignPath> = [Some(path), real]
        .into_iter()
        .flatten()
        .filter_map(|part| foreign_at(&part))
        .collect();
    let planted = found.iter().find(|found| found.is_planted);
    planted.or(found.first()).cloned()
}

fn foreign_at(path: &Path) -> Option<ForeignPath> {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    let mut is_open = false;
    for part in parts {
        let found = fs::symlink_metadata(part).ok()?;
        if !is_trusted(&found) && (is_open || part == path) {
            return Some(ForeignPath {
                path: part.to_path_buf(),
                uid: found.uid(),
                is_planted: is_open,
            });
        }
        if found.is_dir() {
            let mode = found.permissions().mode();
            let is_closed = is_trusted(&found) && mode & WRITABLE_BY_OTHERS == 0;
            is_open = mode & WRITABLE_BY_ALL != 0 || (is_open && !is_closed);
        }
    }
    None
}

// Reading of files that other users could have made. Only a regular file is read: no link is followed, no pipe is waited for, and no file
// takes more memory than its reader allows.

/// Largest size of a small file, such as a manifest or a lease, in bytes.
pub const MOST_FACTS: u64 = 1 << 20;
/// Largest size of a file that people may write, such as a plan, or of the inventory of a process tree, in bytes.
pub const MOST_TEXT: u64 = 1 << 26;
/// Largest size of a table, a page or the result of one run, in bytes.
pub const MOST_RESULT: u64 = 1 << 30;
/// Kind of the error for a file that is refused: a link, a pipe, a socket or a device, or a file that is too long or has another name.
/// Folders and errors of reading have other kinds.
pub const REFUSED: ErrorKind = ErrorKind::InvalidInput;

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    open_plain(path, File::options().read(true))
}

/// Opens a file for writing with these options. They must not truncate it, because the file is refused afterwards if it has another name
/// elsewhere.
pub fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = open_plain(path, options)?;
    match file.metadata()?.nlink() {
        0 | 1 => Ok(file),
        _ => Err(io::Error::new(
            REFUSED,
            "it has another name elsewhere (a hard link); remove it",
        )),
    }
}

/// Opens a regular file. Never follows a link or waits for the other end of a pipe.
fn open_plain(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
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
fn must_be_plain(kind: FileType) -> io::Result<()> {
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        () if kind.is_symlink() => "a link, which is not followed,",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    let why = format!("it is {what} and no regular file; remove it");
    Err(io::Error::new(REFUSED, why))
}

/// Reads a file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_all(&open(path)?, most)
}

/// Reads a text of at most `most` bytes.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    to_text(read(path, most)?)
}

fn to_text(content: Vec<u8>) -> io::Result<String> {
    String::from_utf8(content).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Opens a file that a user names, which may be a link or a device. A pipe is only waited for if it has a writer.
fn open_named(path: &Path) -> io::Result<File> {
    let careful = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::options().read(true).custom_flags(careful.bits()).open(path)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(file)
}

/// Reads a text from standard input, of at most [`MOST_TEXT`] bytes.
pub fn read_standard_input() -> io::Result<String> {
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    to_text(read_all(&file, MOST_TEXT)?)
}

/// Reads a text that a user names, of at most [`MOST_TEXT`] bytes. It may come from a link or a pipe.
pub fn read_named_text(path: &Path) -> io::Result<String> {
    to_text(read_all(&open_named(path)?, MOST_TEXT)?)
}

/// Opens a regular file that a user names, or to which a link leads. Anything else is refused, because it may have no end.
pub fn open_named_file(path: &Path) -> io::Result<File> {
    let file = open_named(path)?;
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind if kind.is_dir() => Err(ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(REFUSED, "it is not a regular file")),
    }
}

/// Reads a regular file that a user names, of any size.
pub fn read_named_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_named_file(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Reads the rest of an open file, at most `most` bytes.
pub fn read_all(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let mut content = Vec::new();
    if length <= most {
        content.reserve_exact(length as usize + 1);
        file.take(most + 1).read_to_end(&mut content)?;
    }
    if length.max(content.len() as u64) > most {
        let why = format!("it is longer than {most} bytes, which is the most that is read; remove it");
        return Err(io::Error::new(REFUSED, why));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn replaces_the_content_and_leaves_no_neighbour() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.json");
        write_atomic(&path, b"old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        write_atomic(&path, b"new").expect("replaced");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let error = write_atomic(Path::new("/proc/none/a.json"), b"x").expect_err("cannot be written");
        assert!(error.to_string().contains("/proc/none/a.json"), "{error}");
    }

    #[test]
    fn a_file_of_the_longest_name_is_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["x".repeat(255), "é".repeat(127)] {
            let path = folder.path().join(name);
            for content in [b"old", b"new"] {
                write_atomic(&path, content).expect("written");
                assert_eq!(fs::read(&path).expect("there"), content);
            }
        }
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 2);
    }

    #[test]
    fn a_link_that_a_user_names_is_kept_even_if_its_target_is_new() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [link, target] = ["link", "target"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("target", &link).expect("linked");
        for content in [b"old", b"new"] {
            write_named(&link, |file| file.write_all(content)).expect("written");
            assert_eq!(fs::read(&target).expect("the target"), content);
            assert!(link.is_symlink());
        }
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 2);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [link, precious, root] = ["link", "precious", "root"].map(|name| folder.path().join(name));
        fs::write(&precious, "mine").expect("written");
        std::os::unix::fs::symlink("precious", &link).expect("linked");
        let error = write_atomic(&link, b"new").expect_err("a link").to_string();
        assert!(
            error.ends_with("link: it is a link, which is not followed, and no regular file; remove it"),
            "{error}"
        );
        assert_eq!(fs::read(&precious).expect("there"), b"mine");
        create_folder_in(&root, &root.join("runs/a")).expect("created");
        std::os::unix::fs::symlink("runs", root.join("charts")).expect("linked");
        for linked in ["charts", "charts/a", "charts/b"] {
            let error = create_folder_in(&root, &root.join(linked))
                .expect_err("a link")
                .to_string();
            assert!(error.contains("charts: it is a link"), "{error}");
        }
        assert!(!root.join("runs/b").exists());
    }

    #[test]
    fn a_pipe_that_a_user_names_is_written_to() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .expect("mkfifo");
        assert!(made.success());
        // Open for reading and writing, so that neither side waits for the other.
        let mut pipe = File::options().read(true).write(true).open(&path).expect("open");
        write_named(&path, |file| file.write_all(b"said")).expect("written");
        assert!(!fs::metadata(&path).expect("there").is_file(), "it was replaced");
        let mut said = [0; 4];
        io::Read::read_exact(&mut pipe, &mut said).expect("readable");
        assert_eq!(&said, b"said");
    }

    #[test]
    fn a_folder_is_refused_with_a_remedy_and_nothing_is_left() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("folder");
        fs::create_dir(&path).expect("created");
        let error = write_atomic(&path, b"x").expect_err("a folder").to_string();
        assert!(error.ends_with("; name a file in it"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn only_files_of_dead_processes_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner = folder.path().join("runs/p");
        fs::create_dir_all(&inner).expect("created");
        let own = this_process();
        let (machine, pid) = own
            .rsplit_once('-')
            .and_then(|(own, _)| own.split_once('-'))
            .expect("proc");
        let before = format!("{machine}-{pid}-1");
        let elsewhere = format!("f{machine}-{pid}-1");
        let of = |writer: &str| format!("a.json.{writer}-0.tmp");
        for name in [
            of(&own),
            of(&elsewhere),
            "a.json.12-3.tmp".to_owned(),
            "b.tmp".to_owned(),
        ] {
            fs::write(inner.join(name), "x").expect("written");
        }
        fs::write(inner.join(of(&before)), "x").expect("written");
        fs::write(folder.path().join(of(&before)), "x").expect("written");
        remove_abandoned(folder.path());
        assert_eq!(fs::read_dir(&inner).expect("readable").count(), 4);
        assert!(!inner.join(of(&before)).exists() && !folder.path().join(of(&before)).exists());
    }
}

#[cfg(test)]
mod owner_tests {
    use super::*;
    use nix::unistd::{Uid, chown};

    /// Only root can change the owner of a file.
    #[test]
    fn a_part_that_another_user_could_have_planted_differs_from_a_mounted_one() {
        if !Uid::effective().is_root() {
            return;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Nobody else may create entries in it, although the folder of temporary files itself is open to all.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let foreign = folder.path().join("foreign");
        fs::create_dir_all(foreign.join("own")).expect("made");
        let at = |path: &Path| foreign_part(path).map(|found| (found.path, found.uid, found.is_planted));
        assert_eq!(at(&foreign), None);
        chown(&foreign, Some(Uid::from_raw(4321)), None).expect("root may");
        assert_eq!(at(&foreign), Some((foreign.clone(), 4321, false)));
        assert_eq!(at(&foreign.join("own")), None);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("ours");
        for below in [foreign.clone(), foreign.join("own"), foreign.join("to-come")] {
            assert_eq!(at(&below), Some((foreign.clone(), 4321, true)), "{}", below.display());
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/usr", &link).expect("linked");
        assert_eq!(at(&link), None);
        std::os::unix::fs::lchown(&link, Some(4321), None).expect("root may");
        assert_eq!(at(&link), Some((link.clone(), 4321, true)));
        let write = |path: &Path| write_named(path, |file| file.write_all(b"new"));
        let target = folder.path().join("target");
        fs::write(&target, "old").expect("written");
        fs::remove_file(&link).expect("removed");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        std::os::unix::fs::lchown(&link, Some(4321), None).expect("root may");
        let error = write(&link).expect_err("planted").to_string();
        assert!(error.ends_with("; remove it, or name its target"), "{error}");
        assert_eq!(fs::read(&target).expect("readable"), b"old");
        write(&target).expect("our own");
    }
}

#[cfg(test)]
mod plain_tests {
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
    fn what_a_user_names_may_be_a_pipe_and_has_an_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "text").expect("written");
        symlink("file", at("link")).expect("linked");
        assert_eq!(read_named_text(&at("link")).expect("a file"), "text");
        open_named_file(&at("link")).expect("a file");
        let error = read_named_text(Path::new("/dev/zero")).expect_err("endless");
        assert_eq!(error.kind(), REFUSED, "{error}");
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("made");
        assert_eq!(read_named_text(&at("pipe")).expect("no writer"), "");
        for special in [at("pipe"), "/dev/zero".into()] {
            assert_eq!(open_named_file(&special).expect_err("special").kind(), REFUSED);
        }
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let writing = std::thread::spawn(move || {
            std::thread::yield_now();
            writer.write_all(b"late")
        });
        assert_eq!(read_named_text(Path::new(&path)).expect("a pipe"), "late");
        writing.join().expect("no panic").expect("written");
    }

    #[test]
    fn a_file_that_is_too_long_takes_no_memory() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("sparse");
        File::create(&path)
            .and_then(|file| file.set_len(1 << 40))
            .expect("made");
        let error = read(&path, MOST_RESULT).expect_err("too long");
        assert_eq!(error.kind(), REFUSED);
        assert!(error.to_string().contains("longer than 1073741824 bytes"), "{error}");
    }

    #[test]
    fn a_file_with_another_name_is_read_and_not_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, other) = (folder.path().join("lock"), folder.path().join("other"));
        fs::write(&other, "kept").expect("written");
        fs::hard_link(&other, &path).expect("linked");
        let error = open_with(&path, File::options().write(true)).expect_err("a hard link");
        assert!(error.to_string().contains("another name"), "{error}");
        assert_eq!(read(&path, MOST_FACTS).expect("read"), b"kept");
        fs::remove_file(&other).expect("removed");
        open_with(&path, File::options().write(true)).expect("one name");
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
