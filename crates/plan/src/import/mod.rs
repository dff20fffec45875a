//! Converts a `vllm bench sweep` command line to a plan: parameter files become combinations, `--link-vars` becomes links, and other
//! options become keys.
//!
//! The plan is then read back, and its command lines are compared with those that vLLM would run. Notes report the differences, and the
//! options without a key. This room writes no files, and reads only those that the command line names.

mod compare;
mod plan_text;
mod records;
mod startup;
pub mod suite;
pub mod vllm_sweep;

use crate::{Combo, Diagnostics, Params, Problem, Problems, Secrets, ServeCommand, Sources, spelling};
use itertools::Itertools;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use vsweep_base::shell::shlex;

/// Reads a file that the command line names.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Options of a `vllm bench sweep` command line.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    /// Source of its loads.
    pub loads: Loads,
    /// `--serve-cmd`.
    pub serve_cmd: String,
    /// `--bench-cmd`.
    pub bench_cmd: String,
    /// `--after-bench-cmd`.
    pub after_bench_cmd: Option<String>,
    /// `--server-ready-timeout`, in seconds.
    pub ready_timeout_s: u32,
    /// `--serve-params`.
    pub serve_params: Option<PathBuf>,
    /// `--bench-params`.
    pub bench_params: Option<PathBuf>,
    /// `--link-vars`.
    pub link_vars: String,
    /// `--experiment-name`.
    pub experiment_name: Option<String>,
    /// `--num-runs`.
    pub num_runs: u32,
    /// `--warmup-num-prompts`.
    pub warmup_num_prompts: u32,
    /// Effects of options for which a plan has no key.
    pub remarks: Vec<String>,
}

/// Source of the loads of a sweep.
#[derive(Debug, Clone, Default)]
pub enum Loads {
    /// Loads of the parameter file (`serve`).
    #[default]
    Listed,
    /// A number of levels between the lowest and the highest load (`serve_workload`, and `serve_sla` with `--sla-iters`).
    Explored {
        /// `request_rate` or `max_concurrency`.
        vary: String,
        /// Number of levels, both ends included.
        levels: u32,
    },
    /// The highest load that meets each of these criteria (`serve_sla` with `--sla-params`).
    Searched {
        /// `request_rate` or `max_concurrency`.
        vary: String,
        /// The file of criteria.
        criteria: PathBuf,
    },
    /// No loads: engines are started, and nothing is served (`startup`).
    Startup {
        /// Returns true if `vllm bench startup` has an option of this name.
        has: fn(&str) -> bool,
        /// `--strict-params`: a parameter for which `vllm bench startup` has no option is an error.
        is_strict: bool,
    },
}

/// A plan made from a `vllm bench sweep` command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanImport {
    /// The plan, as TOML.
    pub text: String,
    /// Differences from the command line, and options that have no key. The text contains them as comments.
    pub notes: Vec<String>,
    /// The folder of each point in vLLM's result tree, in the order of the plan. `None` if the loads are not listed, or if the plan has
    /// other pairs of server and load.
    pub folders: Option<Vec<String>>,
}

/// Content of a command line and the files that it names.
struct ReadSweep<'a> {
    sweep: &'a Sweep,
    serve_command: Vec<String>,
    bench_command: Vec<String>,
    reset: Option<Vec<String>>,
    serve: Vec<Combo>,
    bench: Vec<Combo>,
    links: Vec<(String, String)>,
    criteria: Vec<Params>,
}

/// Messages about a command line and its files.
#[derive(Default)]
struct Remarks {
    /// Differences between the plan and the command line, and options that have no key.
    notes: Vec<String>,
    /// Errors found so far.
    found: Diagnostics,
    sources: Sources,
}

impl Remarks {
    fn object(&mut self, message: impl Into<String>, remedy: impl Into<String>) {
        self.found.add(Problem::of(message, remedy));
    }

    /// Returns the remarks if no errors were found, else the errors.
    fn checked(self) -> Result<Remarks, Problems> {
        match self.found.is_empty() {
            true => Ok(self),
            false => Err(self.found.into_problems(&self.sources, &Secrets::default())),
        }
    }
}

/// Makes a plan from a command line. The error lists everything that is wrong with the command line, or that a plan cannot express.
pub fn import(sweep: &Sweep, read: ReadFile<'_>) -> Result<PlanImport, Problems> {
    let mut remarks = Remarks {
        notes: sweep.remarks.clone(),
        ..Remarks::default()
    };
    let mut read = gather(sweep, read, &mut remarks);
    remarks = remarks.checked()?;
    if let Loads::Startup { has, is_strict } = sweep.loads {
        startup::leave_out(&mut read, has, is_strict, &mut remarks);
    }
    let sides = records::translate(&read, &mut remarks);
    let mut notes = remarks.checked()?.notes;
    let body = plan_text::write(&read, &sides, &mut notes);
    let folders = compare::compare(&read, &sides, &body, &mut notes)?;
    Ok(PlanImport {
        folders,
        text: plan_text::with_notes(&body, &notes),
        notes,
    })
}

fn gather<'a>(sweep: &'a Sweep, read: ReadFile<'_>, remarks: &mut Remarks) -> ReadSweep<'a> {
    let mut command = |flag: &str, line: &str| {
        let words = shlex(line);
        match &words {
            Some(words) if !words.is_empty() => {}
            Some(_) => remarks.object(format!("{flag} is empty"), "give a program and its arguments"),
            None => remarks.object(format!("{flag} has a quote that is never closed"), "close it"),
        }
        words.unwrap_or_default()
    };
    let is_startup = matches!(sweep.loads, Loads::Startup { .. });
    let bench_flag = if is_startup { "--startup-cmd" } else { "--bench-cmd" };
    let bench_command = command(bench_flag, &sweep.bench_cmd);
    let serve_command = match is_startup {
        true => startup::serve_command(&bench_command),
        false => command("--serve-cmd", &sweep.serve_cmd),
    };
    let after = sweep.after_bench_cmd.as_deref();
    let reset = after.map(|line| command("--after-bench-cmd", line));
    if sweep.num_runs == 0 {
        remarks.object("--num-runs is 0", "give 1 or more");
    }
    let links = vllm_sweep::link_vars(&sweep.link_vars).unwrap_or_else(|why| {
        remarks.object(format!("--link-vars: {why}"), "correct it");
        Vec::new()
    });
    let mut file = |path: &Option<PathBuf>| match path {
        Some(path) => records::of_file(path, read, remarks),
        None => vec![Combo::default()],
    };
    let (serve, bench) = (file(&sweep.serve_params), file(&sweep.bench_params));
    let criteria = match &sweep.loads {
        Loads::Searched { criteria, .. } => records::of_file(criteria, read, remarks),
        Loads::Listed | Loads::Explored { .. } | Loads::Startup { .. } => Vec::new(),
    };
    let mut pairs = serve.iter().cartesian_product(&bench);
    if remarks.found.is_empty()
        && !pairs.any(|(serve, bench)| vllm_sweep::links_keep(&links, &serve.params, &bench.params))
    {
        let message = format!("--link-vars {} keeps no pair of server and load", sweep.link_vars);
        remarks.object(message, "name parameters that both files set to equal values");
    }
    ReadSweep {
        sweep,
        serve_command,
        bench_command,
        reset,
        serve,
        bench,
        links,
        criteria: criteria.into_iter().map(|combo| combo.params).collect(),
    }
}

impl ReadSweep<'_> {
    /// Number of requests that vLLM's runs send under a load, which is also the highest concurrency of its exploration.
    fn num_prompts(&self, bench: &Params) -> u64 {
        let whole = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let given = spelling::find(bench, "num_prompts").and_then(whole);
        let typed = || ServeCommand::of(&self.bench_command).value("num_prompts")?.parse().ok();
        given.or_else(typed).unwrap_or(1000)
    }
}
