//! The layout of an experiment directory, on which other programs rely: the names of its files and folders.

use super::rank::{Launch, LineId};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::{REFUSED, create_folder, create_folder_in, is_trusted, open};
use vsweep_base::ids::{PointId, ServerId};

/// Declares the files and folders that occur once in a directory.
macro_rules! names {
    ($($(#[$doc:meta])+ $name:ident $path:literal;)+) => {
        const NAMES: &[&str] = &[$($path),+];

        impl Directory {
            $($(#[$doc])+
            pub fn $name(&self) -> PathBuf {
                self.root.join($path)
            })+
        }
    };
}

names! {
    /// Folder of the journals.
    journal_folder "journal";
    /// Folder of the results of runs.
    runs_folder "runs";
    /// Machine and software of the experiment, and the format version.
    manifest "manifest.json";
    /// Table with one row for each run.
    summary_csv "summary.csv";
    /// Like `summary.csv`, with the types of its columns.
    summary_parquet "summary.parquet";
    /// Table with one row for each point.
    points_csv "points.csv";
    /// Table with one row for each result that does not count.
    duplicates_csv "duplicates.csv";
    /// Table with one row for each start of a server.
    starts_csv "starts.csv";
    /// Table with one row for each target of a search.
    sla_csv "sla.csv";
    /// Table with one row for each server of an optimisation.
    optimize_csv "optimize.csv";
    /// The answer as JSON.
    answer_json "answer.json";
    /// Output of the command at the end of the sweep.
    on_finish_log "on_finish.log";
    /// The report as a web page.
    report_html "report.html";
    /// The report for a pull request.
    report_markdown "report.md";
    /// Folder of the charts.
    charts "charts";
    /// Folder of the timelines of runs.
    timelines "timelines";
    /// Folder of the winners' configuration files.
    best "best";
    /// List of the files in `charts` and `best` that reports wrote, one on each line. Other files in these folders are the user's.
    written "written.txt";
    /// Folder of the leases by which workers share the work.
    leases "leases";
    /// Folder of the submissions to a cluster.
    submissions "submissions";
}

/// An experiment directory, existing or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Returns the directory at this path. Creates nothing.
    pub fn at(root: impl Into<PathBuf>) -> Directory {
        Directory { root: root.into() }
    }

    /// Opens an existing experiment.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong with the path.
    pub fn open(root: impl Into<PathBuf>) -> Result<Directory> {
        let directory = Directory::at(root);
        if directory.is_experiment() {
            return Ok(directory);
        }
        directory.check_journal()?;
        let root = directory.root.display();
        Err(Error::Usage(if directory.root.is_dir() {
            format!("{root} holds no experiment (no journal/*.jsonl); give the directory that `vsweep run` wrote")
        } else if directory.root.exists() {
            format!("{root} is a file; give the directory that `vsweep run` wrote, such as results/demo")
        } else {
            format!("there is no directory {root}; give the directory that `vsweep run` wrote, such as results/demo")
        }))
    }

    /// Creates the directory and its folders.
    pub fn create(&self) -> Result<()> {
        create_folder(&self.root)?;
        for folder in ["journal", "runs", "servers", "charts"] {
            self.create_folder(&self.root.join(folder))?;
        }
        Ok(())
    }

    /// Creates a folder in the directory. Follows no links, because another user may have made the directory and planted links.
    pub fn create_folder(&self, folder: &Path) -> Result<()> {
        create_folder_in(&self.root, folder)
    }

    /// Returns true if there is a journal.
    pub fn is_experiment(&self) -> bool {
        self.journals().is_ok_and(|journals| !journals.is_empty())
    }

    /// Returns an error if the experiment has lost its journal.
    pub fn check_journal(&self) -> Result<()> {
        let is_gone = self.manifest().is_file() && self.runs_folder().is_dir() && !self.is_experiment();
        match is_gone {
            false => Ok(()),
            true => Err(Error::Usage(self.lost_journal())),
        }
    }

    /// Returns the message for results whose journal is gone.
    pub(super) fn lost_journal(&self) -> String {
        format!(
            "{} holds runs, but its journal is missing or empty; restore journal/ from a copy, or start over with `vsweep run \
             --fresh`",
            self.root.display()
        )
    }

    /// Returns true if an experiment may begin or continue here: the directory holds one already, or nothing but files and folders with
    /// vsweep's names.
    pub fn is_ours(&self) -> bool {
        let Ok(entries) = fs::read_dir(&self.root) else {
            return true;
        };
        let stem = |name: &str| name.split(['.', '-']).next().unwrap_or_default().to_owned();
        let ours: Vec<String> = NAMES
            .iter()
            .copied()
            .chain(["servers", "plan", "lock"])
            .map(stem)
            .collect();
        let is_ours = |entry: fs::DirEntry| ours.contains(&stem(&entry.file_name().to_string_lossy()));
        self.is_experiment() || entries.flatten().all(is_ours)
    }

    /// Returns the path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the experiment's name, which is that of the directory.
    pub fn name(&self) -> String {
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        root.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the path of the plan's text; `json` if the plan is written in JSON.
    pub fn plan(&self, json: bool) -> PathBuf {
        self.root.join(if json { "plan.json" } else { "plan.toml" })
    }

    /// Returns the path of the lock of a shard. The lock of the whole experiment is `lock`.
    pub fn lock(&self, shard: Shard) -> PathBuf {
        self.root.join(if shard == Shard::WHOLE {
            "lock".into()
        } else {
            format!("lock-{shard}")
        })
    }

    /// Returns the path of the lock that workers share.
    pub(super) fn lock_of_workers(&self) -> PathBuf {
        self.root.join("lock-workers")
    }

    /// Returns true if no sweep has begun here.
    pub fn is_new(&self) -> bool {
        !self.journal_folder().exists() && !self.has_runs()
    }

    /// Returns true if there are results of runs.
    pub fn has_runs(&self) -> bool {
        fs::read_dir(self.runs_folder()).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Returns the experiments in a folder that belong to this user or to root, latest manifest first. Experiments of other users are not
    /// trusted.
    pub fn all_in(folder: &Path) -> Vec<Directory> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let is_own =
            |root: &PathBuf| fs::symlink_metadata(root).is_ok_and(|found| found.is_dir() && is_trusted(&found));
        let roots = entries.map(|entry| entry.path()).filter(is_own);
        let dated = roots.filter_map(|root| {
            let manifest = fs::metadata(Directory::at(&root).manifest()).ok()?;
            Some((manifest.modified().ok()?, root))
        });
        let mut dated: Vec<_> = dated.collect();
        dated.sort_unstable();
        dated.iter().rev().map(|(_, root)| Directory::at(root)).collect()
    }

    /// Checks the manifest, the copies of the plan and the lock. Returns one sentence for each of them that exists and is not read, because
    /// it is not a regular file.
    pub(super) fn irregular(&self) -> Vec<String> {
        let paths = [
            self.manifest(),
            self.plan(false),
            self.plan(true),
            self.lock(Shard::WHOLE),
        ];
        let refused = paths.iter().filter_map(|path| {
            let error = open(path).err().filter(|error| error.kind() == REFUSED)?;
            Some(format!("{} is not read: {error}", path.display()))
        });
        refused.collect()
    }

    /// Returns the size of all journals together, in bytes; 0 if they cannot be listed.
    pub fn journal_bytes(&self) -> u64 {
        let journals = self.journals().unwrap_or_default();
        let bytes = journals
            .iter()
            .map(|journal| fs::symlink_metadata(journal).map_or(0, |found| found.len()));
        bytes.sum()
    }

    /// Returns the path of every journal that exists, in name order.
    pub fn journals(&self) -> Result<Vec<PathBuf>> {
        let folder = self.journal_folder();
        let mut journals = Vec::new();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(journals),
            entries => entries.map_err(Error::io("read", &folder))?,
        };
        for entry in entries {
            let path = entry.map_err(Error::io("read", &folder))?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                journals.push(path);
            }
        }
        journals.sort();
        Ok(journals)
    }

    /// Returns the path of the log of a launch.
    pub fn server_log(&self, server: &ServerId, launch: Launch) -> PathBuf {
        self.root.join(Directory::server_log_file(server, launch))
    }

    /// Returns the path of a launch's log, relative to the directory.
    pub fn server_log_file(server: &ServerId, launch: Launch) -> String {
        format!("servers/{server}/{launch}.log")
    }

    /// Returns the path of the timeline of a run's requests, a web page.
    pub fn timeline(&self, point: &PointId, number: &str) -> PathBuf {
        self.timelines().join(format!("{point}-{number}.html"))
    }
}

/// Names of the files of one run. They contain the id of the line that began the run, so no other session writes files of these names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFiles {
    /// Path of the files, relative to the directory, with forward slashes, without an extension.
    stem: String,
}

impl RunFiles {
    /// Returns the names for a repetition of a point on a start slot. `line` is the line that began the run.
    pub fn of(point: &PointId, slot: u32, run: u32, line: LineId) -> RunFiles {
        RunFiles {
            stem: format!("runs/{point}/{slot}.{run}-{line}"),
        }
    }

    /// Returns the path of the file with the run's figures, relative to the directory.
    pub fn json(&self) -> String {
        format!("{}.json", self.stem)
    }

    /// Returns the path of the readings of the server and the machine during the run.
    pub fn telemetry(&self, directory: &Directory) -> PathBuf {
        directory.root.join(format!("{}.telemetry.csv", self.stem))
    }

    /// Returns the path of the scratch folder of an external benchmark, which keeps its output.
    pub fn scratch(&self, directory: &Directory) -> PathBuf {
        directory.root.join(format!("{}.bench", self.stem))
    }
}

/// A share of the server groups: `index` of `count`, counted from 1, written `2/8` by users and `2-of-8` in names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Number of this share, from 1 to `count`.
    pub index: u32,
    /// Number of shares, at least 1.
    pub count: u32,
}

impl Shard {
    /// The shard of all server groups.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };

    /// Returns true if the server group at this position belongs to the shard.
    pub fn takes(self, position: usize) -> bool {
        position as u64 % u64::from(self.count) == u64::from(self.index - 1)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-of-{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parsed = text.split_once('/').and_then(|(index, count)| {
            Some(Shard {
                index: index.trim().parse().ok()?,
                count: count.trim().parse().ok()?,
            })
        });
        parsed
            .filter(|shard| (1..=shard.count).contains(&shard.index))
            .ok_or_else(|| format!("`{text}` is not a shard; write I/N with I from 1 to N, such as 2/8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_out_everything_once() {
        let shards: Vec<Shard> = (1..=3).map(|i| format!("{i}/3").parse().expect("a shard")).collect();
        for position in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.takes(position)).count(), 1);
        }
    }

    #[test]
    fn a_wrong_shard_is_refused() {
        for text in ["0/3", "4/3", "1/0", "x", "1-3", "1/"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_directory_without_a_journal_is_no_experiment() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = Directory::open(folder.path()).expect_err("no experiment");
        assert!(error.to_string().contains("holds no experiment"), "{error}");
        let error = Directory::open(folder.path().join("none")).expect_err("no directory");
        assert!(error.to_string().contains("there is no directory"), "{error}");
        let directory = Directory::at(folder.path());
        directory.create().expect("created");
        fs::write(directory.manifest(), "{}").expect("written");
        let error = Directory::open(folder.path()).expect_err("its journal is gone");
        assert!(error.to_string().contains("restore"), "{error}");
    }
}
