//! Finds the programs of commands: this very binary for `vsweep`, otherwise the one on PATH. Reads the flags of an installed vLLM from its
//! help. vLLM takes some 20 s to print it, so the flags of each installation are kept in the user's cache folder.

use crate::cause::{Cause, Failure};
use crate::files::{MOST_FACTS, create_folder, read_text, write_atomic};
use crate::ids::sha256_hex;
use crate::plan::spelling;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Time limit for printing a help.
const LONGEST: Duration = Duration::from_secs(120);
/// Least number of flags in a complete help. Every release of vLLM has more.
const FEWEST: usize = 50;

/// The flags of one installation.
#[derive(Debug)]
pub struct InstalledFlags {
    /// The program whose flags these are.
    pub program: PathBuf,
    names: BTreeSet<String>,
}

impl InstalledFlags {
    /// Returns the flags of a command, such as `serve`, of the program that the word `program` starts in the environment `env`. If the
    /// flags are not in the cache, calls `announce` and runs the program. `None` if the program does not exist, if its help is not like
    /// vLLM's, or if it would have to be run but `announce` is `None`.
    pub fn of(
        program: &str,
        command: &[&str],
        env: &BTreeMap<String, String>,
        announce: Option<fn(&Path)>,
    ) -> Option<InstalledFlags> {
        let program = locate(program, env)?;
        let cached = cache_file(&program, command);
        let known = cached.as_ref().and_then(|path| read_text(path, MOST_FACTS).ok());
        let names = match known.map(|text| text.lines().map(str::to_owned).collect::<BTreeSet<String>>()) {
            Some(names) if names.len() >= FEWEST => names,
            _ => {
                announce?(&program);
                let names = names_in(&ask(&program, command, env)?);
                if names.len() < FEWEST {
                    return None;
                }
                let text: Vec<&str> = names.iter().map(String::as_str).collect();
                // Errors are ignored, because the program can be run again.
                if let Some(path) = &cached {
                    let _ = path.parent().map_or(Ok(()), create_folder);
                    let _ = write_atomic(path, text.join("\n").as_bytes());
                }
                names
            }
        };
        Some(InstalledFlags { program, names })
    }

    /// Returns true if the installation has a flag, in any spelling. Of a dotted flag, only the part before the dot counts.
    pub fn has(&self, flag: &str) -> bool {
        let plain = flag.split('.').next().unwrap_or(flag);
        match plain.strip_prefix("--") {
            Some(name) => self.names.contains(&format!("--{}", spelling::flag(name))),
            None => self.names.contains(plain),
        }
    }

    /// Every flag.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Returns the path of the cached flags of an installation. Installing another release rewrites the program, which changes the path.
fn cache_file(program: &Path, command: &[&str]) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let file = fs::metadata(program).ok()?;
    let installation = format!(
        "{} {} {} {} {}",
        command.join(" "),
        program.display(),
        file.len(),
        file.mtime(),
        file.mtime_nsec()
    );
    let name = &sha256_hex(installation.as_bytes())[..16];
    Some(cache.join("vsweep").join(format!("vllm-flags-{name}.txt")))
}

fn ask(program: &Path, command: &[&str], env: &BTreeMap<String, String>) -> Option<String> {
    let mut help = Command::new(program);
    help.args(command).arg("--help=all").envs(env);
    help.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let output = runtime.block_on(async { timeout(LONGEST, help.output()).await });
    let output = output.ok()?.ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// Returns the flags in argparse's help. Each flag begins a line, after two blanks; its other names follow after commas.
fn names_in(help: &str) -> BTreeSet<String> {
    let lines = help.lines().filter(|line| line.starts_with("  -"));
    let names = lines.flat_map(|line| {
        let parts = line.trim_start().split(", ");
        parts
            .filter_map(|part| part.split_whitespace().next())
            .filter(|word| is_name(word))
    });
    names.map(str::to_owned).collect()
}

fn is_name(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
    word.starts_with('-') && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the path of the `vsweep` binary, which guards and commands called `vsweep` run. This is for tests, and for programs that use vsweep
/// as a library. The default is the running executable. The first call wins.
pub fn use_program(path: impl Into<PathBuf>) {
    PROGRAM.get_or_init(|| path.into());
}

/// Returns the path of the `vsweep` binary. If its file was replaced while this process runs, for example by a rebuild during a sweep, the
/// path is `/proc/self/exe`, which still is the running binary.
pub fn this_program() -> PathBuf {
    if let Some(path) = PROGRAM.get() {
        return path.clone();
    }
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

/// Returns the command line with this binary in place of `vsweep`. Any other program must exist and be executable; it is searched on the
/// PATH of `env`, or else of this process.
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

/// Returns the file of a program: the word itself if it has a slash, or else the first file of that name on the PATH of `env`, or on that
/// of this process.
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
    fn names_are_read_from_the_help() {
        let help = "\
usage: vllm serve [model_tag] [options]

options:
  --api-server-count API_SERVER_COUNT, -asc API_SERVER_COUNT
                        How many API server processes to run, see --data-parallel-size.
  --config CONFIG       Read CLI options from a config file.
  --enable-log-requests, --no-enable-log-requests
                        Enable logging:
                        - INFO: Request ID, - DEBUG: more
  --gdn-prefill-backend {flashinfer,triton, cutedsl}
  --compilation-config COMPILATION_CONFIG, -cc COMPILATION_CONFIG
";
        let names = names_in(help);
        let expected = "--api-server-count --compilation-config --config --enable-log-requests --gdn-prefill-backend \
                        --no-enable-log-requests -asc -cc";
        assert_eq!(Vec::from_iter(names.iter().map(String::as_str)).join(" "), expected);
        let program = PathBuf::from("vllm");
        let flags = InstalledFlags { program, names };
        for flag in [
            "--api_server-count",
            "-cc",
            "-cc.mode",
            "--compilation_config.pass_config.x",
            "--no-enable_log_requests",
        ] {
            assert!(flags.has(flag), "{flag}");
        }
        assert!(!flags.has("--data-parallel-size") && !flags.has("--no-config") && !flags.has("-x"));
    }
}

#[cfg(test)]
mod program_tests {
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
