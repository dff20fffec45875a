//! Machine and software of an experiment: `manifest.json`. The `run` room collects the facts.

use super::directory::Directory;
use super::event::FORMAT;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use vsweep_base::error::Result;
use vsweep_base::files::{MOST_FACTS, read_text, write_atomic};

/// Facts about the machine and the software that readers of results need.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// Format version of the directory, `major.minor`; filled in when written.
    pub format: String,
    /// vsweep's own version.
    pub vsweep: String,
    /// Name of the machine.
    pub host: String,
    /// Operating system and kernel.
    pub os: String,
    /// Model name of the processor.
    pub cpu: String,
    /// Number of logical processors.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Names of the GPUs; empty without any.
    pub gpus: Vec<String>,
    /// Version of the GPU driver.
    pub gpu_driver: Option<String>,
    /// Commit of the repository that holds the plan.
    pub git_commit: Option<String>,
    /// True if that repository had uncommitted changes.
    pub git_dirty: Option<bool>,
    /// Path of the plan as given.
    pub plan: String,
    /// Options of the command line that changed the plan, without secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Manifest {
    /// Returns the path of the plan that the manifest of a directory names, if there is one.
    pub fn plan_of(directory: &Directory) -> Option<PathBuf> {
        Some(Manifest::of(directory)?.plan.into())
    }

    /// Returns the arguments that continue the experiment: the path of its plan, and the options that changed the plan. `None` if the
    /// plan's file does not exist.
    pub fn continuing(directory: &Directory) -> Option<Vec<String>> {
        let manifest = Manifest::of(directory)?;
        let is_there = Path::new(&manifest.plan).is_file();
        is_there.then(|| std::iter::once(manifest.plan).chain(manifest.options).collect())
    }

    /// Returns the number of GPUs of the machine that the manifest of a directory describes; `None` if it has none, or if that is unknown.
    pub fn gpus_of(directory: &Directory) -> Option<u32> {
        Some(Manifest::of(directory)?.gpus.len() as u32).filter(|count| *count > 0)
    }

    fn of(directory: &Directory) -> Option<Manifest> {
        serde_json::from_str(&read_text(&directory.manifest(), MOST_FACTS).ok()?).ok()
    }

    /// Writes the manifest of the latest session.
    pub fn write(mut self, directory: &Directory) -> Result<()> {
        self.format = format!("{}.{}", FORMAT.0, FORMAT.1);
        let mut text = serde_json::to_string_pretty(&self).expect("plain data always serialises");
        text.push('\n');
        write_atomic(&directory.manifest(), text.as_bytes())
    }
}
