//! Machine and software of an experiment: `manifest.json`. The `run` room collects the facts.

use super::directory::Directory;
use super::event::FORMAT;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use vsweep_base::error::Result;
use vsweep_base::files::{MOST_FACTS, MOST_TEXT, read_text, write_atomic};
use vsweep_plan::HIDDEN;

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
    /// Names of the GPUs that servers may use; empty without any.
    pub gpus: Vec<String>,
    /// Number of GPUs on which servers are compared, if it is another one: of all nodes of a server, of the first machine that had any, or
    /// the most that a worker had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_gpus: Option<u32>,
    /// Version of the GPU driver.
    pub gpu_driver: Option<String>,
    /// Commit of the repository that holds the plan.
    pub git_commit: Option<String>,
    /// True if that repository had uncommitted changes.
    pub git_dirty: Option<bool>,
    /// Absolute path of the plan.
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

    /// Returns the arguments that continue the experiment: the path of its plan, and the options that changed the plan. If the plan's file
    /// does not exist, they name the copy in the directory. `None` if that does not exist either, or if a secret is hidden in it.
    pub fn continuing(directory: &Directory) -> Option<Vec<String>> {
        let manifest = Manifest::of(directory)?;
        let path = Path::new(&manifest.plan);
        if path.is_file() {
            let here = std::env::current_dir().unwrap_or_default();
            let short = path.strip_prefix(here).unwrap_or(path).display().to_string();
            return Some(std::iter::once(short).chain(manifest.options).collect());
        }
        let copies = [false, true].map(|is_json| directory.plan(is_json));
        let copy = copies.into_iter().find(|copy| copy.is_file())?;
        let text = read_text(&copy, MOST_TEXT).ok()?;
        // The options are part of the copy.
        (!text.contains(HIDDEN)).then(|| vec![copy.display().to_string()])
    }

    /// Returns the number of GPUs of the first machine of a directory that had any, or the most that one of its workers had; `None` if none
    /// had, or if that is unknown. Servers are compared on that many, whatever machine continues the experiment.
    pub fn gpus_of(directory: &Directory) -> Option<u32> {
        Manifest::of(directory)?.gpus_that_count()
    }

    fn gpus_that_count(&self) -> Option<u32> {
        let counting = self.first_gpus.unwrap_or(self.gpus.len() as u32);
        (counting > 0).then_some(counting)
    }

    /// Returns what this manifest says of the plan, with what another one says of the machine.
    fn at(self, machine: Manifest) -> Manifest {
        Manifest {
            git_commit: self.git_commit,
            git_dirty: self.git_dirty,
            plan: self.plan,
            options: self.options,
            ..machine
        }
    }

    fn of(directory: &Directory) -> Option<Manifest> {
        serde_json::from_str(&read_text(&directory.manifest(), MOST_FACTS).ok()?).ok()
    }

    /// Writes the manifest of the latest session. If that session has no work, the earlier manifest keeps what it says of the machine, and
    /// a new one has no GPUs. A worker reads the recorded plan, so the earlier manifest keeps what it says of the plan; and a cluster shows
    /// it only its part of a node, so the manifest changes only if it has more GPUs than the earlier ones.
    pub fn write(mut self, directory: &Directory, has_work: bool, is_worker: bool) -> Result<()> {
        let earlier = Manifest::of(directory);
        let known = earlier.as_ref().and_then(Manifest::gpus_that_count);
        let own = self.gpus_that_count().filter(|_| has_work);
        if is_worker && known.is_some() && own <= known {
            return Ok(());
        }
        let counting = if is_worker { own } else { known.or(own) };
        self = match earlier {
            Some(earlier) if is_worker && has_work => earlier.at(self),
            Some(earlier) if is_worker => earlier,
            Some(earlier) if !has_work => self.at(earlier),
            None if !has_work => Manifest {
                gpus: Vec::new(),
                gpu_driver: None,
                ..self
            },
            _ => self,
        };
        let latest = self.gpus.len() as u32;
        self.first_gpus = counting.filter(|count| *count != latest);
        self.format = format!("{}.{}", FORMAT.0, FORMAT.1);
        let mut text = serde_json::to_string_pretty(&self).expect("plain data always serialises");
        text.push('\n');
        write_atomic(&directory.manifest(), text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_gpus_of_the_first_machine_is_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let begin = |host: &str, gpus: usize, has_work: bool| {
            let manifest = Manifest {
                host: host.to_owned(),
                gpus: vec!["H100".to_owned(); gpus],
                ..Manifest::default()
            };
            manifest.write(&directory, has_work, false).expect("written");
            let host = Manifest::of(&directory).expect("readable").host;
            (host, Manifest::gpus_of(&directory))
        };
        assert_eq!(begin("submits", 1, false), ("submits".to_owned(), None));
        assert_eq!(begin("a", 0, true), ("a".to_owned(), None));
        assert_eq!(begin("b", 8, true), ("b".to_owned(), Some(8)));
        assert_eq!(begin("c", 4, true), ("c".to_owned(), Some(8)));
        assert_eq!(begin("d", 0, false), ("c".to_owned(), Some(8)));
        assert_eq!(begin("d", 0, true), ("d".to_owned(), Some(8)));
    }

    #[test]
    fn a_plan_that_was_moved_continues_from_its_copy() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path().join("out"));
        directory.create().expect("created");
        let plan = folder.path().join("plan.toml").display().to_string();
        let options = vec!["--set".to_owned(), "runs=5".to_owned()];
        let manifest = Manifest {
            plan: plan.clone(),
            options: options.clone(),
            ..Manifest::default()
        };
        manifest.write(&directory, true, false).expect("written");
        assert_eq!(Manifest::continuing(&directory), None);
        let copy = directory.plan(false);
        std::fs::write(&copy, "runs = 5").expect("written");
        assert_eq!(Manifest::continuing(&directory), Some(vec![copy.display().to_string()]));
        std::fs::write(&plan, "").expect("written");
        let given = [vec![plan.clone()], options].concat();
        assert_eq!(Manifest::continuing(&directory), Some(given));
        std::fs::remove_file(&plan).expect("removed");
        std::fs::write(&copy, HIDDEN).expect("written");
        assert_eq!(Manifest::continuing(&directory), None);
    }

    #[test]
    fn the_most_gpus_that_a_worker_had_are_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let begin = |gpus: usize, first_gpus: Option<u32>| {
            let manifest = Manifest {
                gpus: vec!["H100".to_owned(); gpus],
                first_gpus,
                ..Manifest::default()
            };
            manifest.write(&directory, true, true).expect("written");
            Manifest::gpus_of(&directory)
        };
        assert_eq!(begin(0, None), None);
        assert_eq!(begin(1, None), Some(1));
        assert_eq!(begin(4, None), Some(4));
        assert_eq!(begin(2, None), Some(4));
        assert_eq!(begin(8, Some(16)), Some(16), "of two nodes");
        assert_eq!(begin(8, None), Some(16));
    }

    #[test]
    fn a_worker_adds_its_machine_to_what_is_known_of_the_plan() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let submitted = Manifest {
            options: vec!["--set".to_owned(), "runs=5".to_owned()],
            ..Manifest::default()
        };
        submitted.write(&directory, false, false).expect("written");
        let of_worker = Manifest {
            gpus: vec!["H100".to_owned(); 8],
            ..Manifest::default()
        };
        of_worker.write(&directory, true, true).expect("written");
        let options = Manifest::of(&directory).expect("readable").options;
        assert_eq!((options.len(), Manifest::gpus_of(&directory)), (2, Some(8)));
    }
}
