//! Finds the file of a command's program: this very binary for `vsweep`, else the one in PATH.

use crate::cause::{Cause, Failure};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the `vsweep` binary, for programs that use vsweep as a library and for tests: guards and commands called
/// `vsweep` run it. Without this it is the running executable. The first call wins.
pub fn use_program(path: impl Into<PathBuf>) {
    PROGRAM.get_or_init(|| path.into());
}

/// The `vsweep` binary. If its file was replaced while we run (a rebuild in the middle of a night's sweep), the kernel
/// still has the one we are.
pub fn this_program() -> PathBuf {
    if let Some(path) = PROGRAM.get() {
        return path.clone();
    }
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

/// The command line with its program found: `vsweep` becomes this binary; any other must be there and executable, on the
/// PATH of `env` if that has one.
pub fn find_program(argv: &[String], env: &BTreeMap<String, String>) -> Result<Vec<OsString>, Failure> {
    let missing = |detail: String| Failure::new(Cause::CommandNotFound, detail);
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| missing("the command is empty".into()))?;
    let mut resolved = OsString::from(program);
    if program == "vsweep" {
        resolved = this_program().into_os_string();
    } else if locate(program, env).is_none() {
        return Err(missing(match program.contains('/') {
            true => format!("`{program}` is not an executable file"),
            false => format!("`{program}` is not on PATH"),
        }));
    }
    Ok(std::iter::once(resolved)
        .chain(arguments.iter().map(OsString::from))
        .collect())
}

/// The file of a program: itself if it has a slash, else the first of its name on the PATH of `env`, or on our own.
pub(super) fn locate(program: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let inherited = || std::env::var_os("PATH").unwrap_or_default();
    let path = env.get("PATH").map_or_else(inherited, OsString::from);
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named() {
        let resolve = |program: &str| find_program(&[program.to_owned()], &BTreeMap::new());
        let failure = resolve("no-such-program-here").expect_err("not there");
        assert_eq!(failure.cause, Cause::CommandNotFound);
        assert_eq!(failure.detail, "`no-such-program-here` is not on PATH");
        assert!(resolve("/no/such/file").is_err());
        assert_eq!(resolve("sh"), Ok(vec!["sh".into()]));
        assert_eq!(resolve("vsweep").map(|argv| argv.len()), Ok(1));
    }

    #[test]
    fn the_commands_own_path_counts() {
        let env = BTreeMap::from([("PATH".to_owned(), "/nowhere".to_owned())]);
        assert!(find_program(&["sh".to_owned()], &env).is_err());
    }
}
