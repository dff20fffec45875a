//! The flags that the vLLM on this machine has, as its own help tells. It takes a vLLM some 20 s to say so, so they are
//! remembered for each installation in the user's cache folder.

use super::program::locate;
use crate::files::{FACTS, create_folder, read_text, write_atomic};
use crate::ids::sha256_hex;
use crate::plan::spelling;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// A help that takes longer is not waited for.
const LONGEST: Duration = Duration::from_secs(120);
/// Any release of vLLM has more.
const FEWEST: usize = 50;

/// The flags of one installation.
#[derive(Debug)]
pub struct InstalledFlags {
    /// The program that was asked.
    pub program: PathBuf,
    names: BTreeSet<String>,
}

impl InstalledFlags {
    /// Returns the flags of a command (`serve`) of the program that this word starts, in this environment. Calls `announce` before it runs
    /// the program, if it is to be run at all. `None` if the program does not exist, does not answer as vLLM does, or was never asked.
    pub fn of(
        program: &str,
        command: &[&str],
        env: &BTreeMap<String, String>,
        announce: Option<fn(&Path)>,
    ) -> Option<InstalledFlags> {
        let program = locate(program, env)?;
        let remembered = remembered(&program, command);
        let known = remembered.as_ref().and_then(|path| read_text(path, FACTS).ok());
        let names = match known.map(|text| text.lines().map(str::to_owned).collect::<BTreeSet<String>>()) {
            Some(names) if names.len() >= FEWEST => names,
            _ => {
                announce?(&program);
                let names = names_in(&ask(&program, command, env)?);
                if names.len() < FEWEST {
                    return None;
                }
                let text: Vec<&str> = names.iter().map(String::as_str).collect();
                // It can be asked again, so errors are ignored.
                if let Some(path) = &remembered {
                    let _ = path.parent().map_or(Ok(()), create_folder);
                    let _ = write_atomic(path, text.join("\n").as_bytes());
                }
                names
            }
        };
        Some(InstalledFlags { program, names })
    }

    /// Returns true if it has a flag, in any spelling. Only the part before a dot counts.
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

/// Cache file for the flags of an installation. Another release rewrites its program, which changes the key.
fn remembered(program: &Path, command: &[&str]) -> Option<PathBuf> {
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

/// The flags in argparse's help: each begins a line of its own, with two blanks before it and its other names behind commas.
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
