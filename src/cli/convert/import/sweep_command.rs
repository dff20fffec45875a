//! Parses the arguments of `vllm bench sweep`, with vLLM's names and defaults, of all its releases.

use crate::bench::{params_of, speaks_vllm_bench};
use crate::cli::flags::dashed;
use crate::error::{Error, Result};
use crate::import::{Loads, Sweep};
use crate::lint::flags::has;
use crate::plan::Offline;
use crate::shell::shlex;
use clap::Parser;
use std::path::PathBuf;

#[derive(Debug, Parser)]
#[command(name = "vllm bench sweep", args_override_self = true, rename_all = "snake_case")]
enum SweepCommand {
    #[command(alias = "serve_multi")]
    Serve(Serve),
    ServeWorkload(Serve),
    ServeSla(Serve),
    Startup(Startup),
}

/// Options of all subcommands.
#[derive(Debug, clap::Args)]
struct CommonOptions {
    #[arg(long)]
    serve_params: Option<PathBuf>,
    #[arg(long)]
    show_stdout: bool,
    #[arg(short, long, default_value = "results")]
    output_dir: String,
    #[arg(short, long)]
    experiment_name: Option<String>,
    #[arg(long)]
    dry_run: bool,
}

/// Further options of `startup`.
#[derive(Debug, clap::Args)]
struct Startup {
    #[command(flatten)]
    common: CommonOptions,
    #[arg(long, allow_hyphen_values = true, default_value = "vllm bench startup")]
    startup_cmd: String,
    #[arg(long)]
    startup_params: Option<PathBuf>,
    #[arg(long)]
    strict_params: bool,
    #[arg(long, default_value_t = 1)]
    num_runs: u32,
    #[arg(long)]
    resume: bool,
}

/// Further options of the other subcommands. Each option existed in some of these subcommands, in some release.
#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    common: CommonOptions,
    #[arg(long, allow_hyphen_values = true)]
    serve_cmd: String,
    #[arg(long, allow_hyphen_values = true)]
    bench_cmd: String,
    #[arg(long, allow_hyphen_values = true)]
    after_bench_cmd: Option<String>,
    #[arg(long, default_value_t = 300)]
    server_ready_timeout: u32,
    #[arg(long)]
    bench_params: Option<PathBuf>,
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    link_vars: String,
    #[arg(long, default_value_t = 3)]
    num_runs: u32,
    #[arg(long, default_value_t = 0)]
    warmup_num_prompts: u32,
    #[arg(long)]
    continue_on_error: bool,
    /// A flag; in early releases the name of the folder to go on in.
    #[arg(long, num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
    #[arg(long, alias = "sla-variable", default_value = "request_rate")]
    #[arg(value_parser = ["request_rate", "max_concurrency"])]
    workload_var: String,
    #[arg(long, alias = "sla-iters", default_value_t = 10)]
    workload_iters: u32,
    #[arg(long)]
    sla_params: Option<PathBuf>,
}

/// Returns the alternative to a subcommand that cannot become a plan.
fn instead(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "plot" => "a picture is not a sweep; draw it with `vsweep plot DIR` and the same options",
        "plot_pareto" => "a picture is not a sweep; draw it with `vsweep plot pareto DIR`",
        "tune_speculative_k" => "vsweep does not tune the length of speculation; give each length a combination",
        _ => return None,
    })
}

/// Parses a command line. The words that start vLLM in it do not matter.
pub fn read(words: &[String]) -> Result<Sweep> {
    let words = own_words(words).ok_or_else(|| {
        let example = "give it after --, such as: vsweep import -- vllm bench sweep serve ...";
        Error::Usage(format!("this is not a command line of `vllm bench sweep`; {example}"))
    })?;
    if let Some((kind, why)) = words.first().and_then(|kind| Some((kind, instead(kind)?))) {
        return Err(Error::Usage(format!("`vllm bench sweep {kind}`: {why}")));
    }
    let words = std::iter::once("vllm bench sweep".to_owned()).chain(words);
    let command = SweepCommand::try_parse_from(words).map_err(|error| {
        let why = error.to_string();
        Error::Usage(format!("the command line of vLLM cannot be read: {}", why.trim()))
    })?;
    let (serve, is_explored) = match command {
        SweepCommand::Serve(serve) => (serve, false),
        SweepCommand::ServeWorkload(serve) | SweepCommand::ServeSla(serve) => (serve, true),
        SweepCommand::Startup(startup) => return Ok(of_startup(startup)),
    };
    let (vary, levels) = (serve.workload_var, serve.workload_iters);
    let remarks = remarks(&serve.common, serve.continue_on_error, serve.resume.is_some());
    let of_client = of_client(&serve.bench_cmd, serve.warmup_num_prompts);
    Ok(Sweep {
        loads: match serve.sla_params {
            Some(criteria) => Loads::Searched { vary, criteria },
            None if is_explored => Loads::Explored { vary, levels },
            None => Loads::Listed,
        },
        remarks: remarks.into_iter().chain(of_client).collect(),
        serve_cmd: serve.serve_cmd,
        bench_cmd: serve.bench_cmd,
        after_bench_cmd: serve.after_bench_cmd,
        ready_timeout_s: serve.server_ready_timeout,
        serve_params: serve.common.serve_params,
        bench_params: serve.bench_params,
        link_vars: serve.link_vars,
        experiment_name: serve.common.experiment_name,
        num_runs: serve.num_runs,
        warmup_num_prompts: serve.warmup_num_prompts,
    })
}

fn of_startup(startup: Startup) -> Sweep {
    let common = startup.common;
    Sweep {
        loads: Loads::Startup {
            has: |name| has(Offline::Startup, name),
            is_strict: startup.strict_params,
        },
        remarks: remarks(&common, false, startup.resume),
        bench_cmd: startup.startup_cmd,
        serve_params: common.serve_params,
        bench_params: startup.startup_params,
        experiment_name: common.experiment_name,
        num_runs: startup.num_runs,
        ..Sweep::default()
    }
}

/// Returns the words from the subcommand on, with dashes in their flags. The subcommand follows `bench sweep`, or is run as a Python
/// module.
fn own_words(words: &[String]) -> Option<Vec<String>> {
    let module = |word: &String| {
        let path = word.trim_end_matches(".py").replace('/', ".");
        let name = path.rsplit('.').next()?.to_owned();
        (path.contains("benchmarks.sweep.") || name == "serve_multi").then_some(name)
    };
    let after = words.windows(2).position(|pair| pair[..] == ["bench", "sweep"]);
    let mut arguments = match after {
        Some(index) => words[index + 2..].to_vec(),
        None => {
            let index = words.iter().position(|word| module(word).is_some())?;
            let rest = words[index + 1..].iter().cloned();
            module(&words[index]).into_iter().chain(rest).collect()
        }
    };
    arguments.iter_mut().for_each(|word| *word = dashed(word));
    Some(arguments)
}

/// Returns a remark about a benchmark that vsweep starts or warms up in another way than vLLM's sweep.
fn of_client(bench_cmd: &str, warmups: u32) -> Option<String> {
    let words = shlex(bench_cmd).filter(|words| !words.is_empty())?;
    if !speaks_vllm_bench(&words) {
        let note = "--bench-cmd: a program other than `vllm bench serve` gets no flags from vsweep; write {host}, {port} and {result} into \
                    bench.command where it takes them";
        return Some(note.to_owned());
    }
    let is_vllm = params_of(&words).is_some() && warmups > 0;
    is_vllm.then(|| {
        format!(
            "--warmup-num-prompts {warmups}: the warm-up of `vllm bench serve` repeats the first measured prompt, which is then in the \
             prefix cache"
        )
    })
}

/// Returns remarks about the given options that have no key in a plan.
fn remarks(common: &CommonOptions, goes_on: bool, resume: bool) -> Vec<String> {
    let dir = &common.output_dir;
    let moved = format!("--output-dir {dir}: give `vsweep run` its directory with -o {dir}/NAME");
    let said = [
        (dir != "results", &*moved),
        (
            common.show_stdout,
            "--show-stdout: logs of servers are always kept, in servers/ of the experiment",
        ),
        (common.dry_run, "--dry-run: `vsweep run --dry-run` and `vsweep plan`"),
        (
            goes_on,
            "--continue-on-error: a plan goes on unless on_failure = \"stop\"",
        ),
        (resume, "--resume: `vsweep run` always goes on where it was"),
    ];
    let given = said.iter().filter(|(is_given, _)| *is_given);
    given.map(|(_, said)| (*said).to_owned()).collect()
}
