//! `vsweep init`: writes a commented plan to start from. This file chooses the plan that suits a goal; `plan` defines the format of plans.

use crate::cli::experiment::Owner;
use crate::cli::{machine, output};
use crate::error::{Error, Exit, Result};
use crate::load::ServerAddress;
use crate::plan::Secrets;
use crate::server::Server;
use crate::shell::shell_line;
use crate::sim::engine::model::Model;
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use minijinja::{Environment, context};
use std::fs::File;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Duration;

/// Write a commented plan to start from
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Goal of the plan
    #[arg(long, value_enum, default_value_t = Goal::Tune)]
    goal: Goal,
    /// Model to serve with `vllm serve`, a name or a folder
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    model: Option<String>,
    /// GPUs of the machine [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    gpus: Option<u32>,
    /// Measure the server that runs at this URL, instead of one that the plan starts
    #[arg(long, conflicts_with_all = ["model", "gpus"])]
    url: Option<String>,
    /// File to write; must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    owner: Owner,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Goal {
    /// Best server settings at every load
    Tune,
    /// The most users within latency targets
    Capacity,
    /// A new build against a base in CI, or the requirements of a server at a URL
    Guard,
    /// The demo on the built-in simulator: no model, no GPU
    Demo,
}

const TEMPLATE: &str = include_str!("init/plan.toml.jinja");
const DEMO: &str = include_str!("../../../plans/demo.toml");
/// Prompt tokens of a chat with some context. They are fewer if the model allows only short sequences.
const INPUT_LEN: u64 = 1024;
/// Output tokens of a chat. They are fewer if the model allows only short sequences.
const OUTPUT_LEN: u64 = 256;
/// Time limit of the requests to a running server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

pub fn run(args: Args) -> Result<Exit> {
    let plan = match args.goal {
        Goal::Demo if args.model.is_some() || args.url.is_some() || args.gpus.is_some() => {
            return Err(Error::Usage(
                "the demo has a simulated model of its own; leave out --model, --gpus and --url, or give another --goal".into(),
            ));
        }
        Goal::Demo => DEMO.replace("plans/demo.toml", "demo.toml"),
        _ => {
            let (model, longest) = model_of(&args)?;
            let weights = weights_gb(&model).filter(|_| args.url.is_none());
            if let Some(why) = weights.and_then(|weights| too_few_gpus(weights, args.gpus.unwrap_or(1))) {
                output::print_note(why);
            }
            render(&args, &model, longest)
        }
    };
    match &args.output {
        None => output::finish(stdout().write_all(plan.as_bytes())),
        Some(path) => {
            output::must_be_new(path)?;
            args.owner.check(path)?;
            let file = File::create_new(path).and_then(|mut file| file.write_all(plan.as_bytes()));
            file.map(|()| Exit::Done).map_err(Error::io("write", path))
        }
    }
}

/// Returns the model's name from the arguments, or from the server, and the longest sequence in tokens if the server reports it.
fn model_of(args: &Args) -> Result<(String, Option<u64>)> {
    match (&args.model, &args.url) {
        (Some(model), _) => Ok((model.clone(), None)),
        (None, Some(url)) => ask(url),
        (None, None) => Err(Error::Usage(
            "nothing to measure: give --model MODEL, the --url of a running server, or --goal demo".into(),
        )),
    }
}

/// Asks the server at a URL for its model and its longest sequence.
fn ask(url: &str) -> Result<(String, Option<u64>)> {
    let mut secrets = Secrets::default();
    secrets.note_text(url);
    ServerAddress::parse(url).map_err(|why| Error::Usage(secrets.redact(&why)))?;
    let identity =
        machine::runtime()?.block_on(async { Server::attach(url, REQUEST_TIMEOUT, REQUEST_TIMEOUT).ready().await });
    let identity = identity.map_err(|failure| {
        let detail = failure.detail;
        Error::Fatal(secrets.redact(&format!(
            "{detail}; start the server first, or give --model for one that the plan starts"
        )))
    })?;
    Ok((identity.served_model, identity.max_model_len))
}

/// Returns the text of the plan.
fn render(args: &Args, model: &str, longest: Option<u64>) -> String {
    let fits = |tokens: u64, share: u64| longest.map_or(tokens, |longest| tokens.min(longest / share).max(1));
    let goal = args.goal.to_possible_value().expect("no goal is skipped");
    let goal = goal.get_name();
    let context = context! {
        goal => goal,
        name => toml_text(&experiment(goal, model)),
        url => args.url.as_deref().map(toml_text),
        command => toml_text(&shell_line(["vllm", "serve", model])),
        arguments => toml_text(&shell_line(["serve", model])).trim_matches('"').to_owned(),
        axes => args.goal != Goal::Guard,
        gpu_counts => gpu_counts(model, args.gpus.unwrap_or(1)),
        input_len => fits(INPUT_LEN, 2),
        output_len => fits(OUTPUT_LEN, 4),
    };
    let plan = Environment::new().render_str(TEMPLATE, context);
    plan.expect("the template fits its values") + "\n"
}

/// Memory that weights may take on a GPU of 80 GB, in GB. The rest is for the KV cache.
const ROOM_FOR_WEIGHTS_GB: f64 = 68.0;

/// Returns the tensor-parallel sizes to try on these GPUs: the powers of two that hold the model's weights, as far as its name shows their
/// size. If none holds them, the largest power.
fn gpu_counts(model: &str, gpus: u32) -> Vec<u32> {
    let least = weights_gb(model).map_or(1.0, least_gpus);
    let powers = (0..32).map(|power| 1 << power);
    let mut counts: Vec<u32> = powers.take_while(|count| *count <= gpus).collect();
    let first = counts.iter().position(|count| f64::from(*count) >= least);
    counts.split_off(first.unwrap_or(counts.len().saturating_sub(1)))
}

/// Returns the smallest number of GPUs, a power of two, on which weights of this size fit.
fn least_gpus(weights_gb: f64) -> f64 {
    (weights_gb / ROOM_FOR_WEIGHTS_GB).max(1.0).log2().ceil().exp2()
}

/// Returns a note if weights of this size do not fit on these GPUs.
fn too_few_gpus(weights_gb: f64, gpus: u32) -> Option<String> {
    let least = least_gpus(weights_gb);
    (f64::from(gpus) < least).then(|| {
        format!(
            "weights of about {weights_gb:.0} GB fit on {least} GPUs of 80 GB, not on {gpus}; give --gpus {least}, or a quantised model"
        )
    })
}

/// Returns the size of a model's weights in GB, from its name, such as `70B` or `8x7B-AWQ`. `None` if the name has no size.
fn weights_gb(model: &str) -> Option<f64> {
    let name = last_part(model);
    let shape = Model::named(name);
    Model::states_its_size(name).then(|| shape.parameters / 1e9 * Model::quantized(&shape.quantization).0)
}

/// Returns the last part of a model's name or path.
pub fn last_part(model: &str) -> &str {
    model.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// Returns the name of the experiment: the last part of the model's name, and the goal. The result is valid as the name of a directory.
fn experiment(goal: &str, model: &str) -> String {
    let mut last = last_part(model).to_lowercase();
    last.retain(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    match last.trim_start_matches(['.', '-', '_']) {
        "" => goal.to_owned(),
        last => format!("{last}-{goal}"),
    }
}

/// Quotes a text for a plan. TOML accepts JSON strings. `${` is escaped, because it would begin a variable.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_sizes_hold_the_model() {
        assert_eq!(gpu_counts("meta-llama/Llama-3.3-70B-Instruct", 8), [4, 8]);
        assert_eq!(gpu_counts("Llama-3.3-70B-Instruct-FP8", 8), [2, 4, 8]);
        assert_eq!(gpu_counts("Llama-3.3-70B-Instruct-bnb-4bit", 8), [1, 2, 4, 8]);
        assert_eq!(gpu_counts("openai/gpt-oss-120b", 8), [1, 2, 4, 8]);
        assert_eq!(gpu_counts("unsloth/gpt-oss-120b-BF16", 8), [4, 8]);
        assert_eq!(gpu_counts("/models/Llama-70B/", 8), [4, 8]);
        assert_eq!(gpu_counts("Qwen/Qwen3-8B", 6), [1, 2, 4]);
        assert_eq!(gpu_counts("mistralai/Mixtral-8x7B-v0.1", 8), [2, 4, 8]);
        assert_eq!(gpu_counts("a/405B", 8), [8], "what fits nowhere gets all");
        assert_eq!(gpu_counts("facebook/opt-125m", 2), [1, 2]);
    }

    #[test]
    fn a_model_that_does_not_fit_is_told_a_number_of_gpus_that_is_tried() {
        let note = |model: &str, gpus: u32| too_few_gpus(weights_gb(model)?, gpus);
        assert!(note("a/405B", 8).is_some_and(|note| note.contains("give --gpus 16")));
        assert!(note("a/405B", 14).is_some() && note("a/405B", 16).is_none());
        assert!(note("a/70B", 3).is_some_and(|note| note.contains("fit on 4 GPUs")) && note("a/70B", 4).is_none());
        assert!(note("foo-infb", 1).is_none() && note("opt-125m", 1).is_none() && note("0B", 1).is_none());
    }

    #[test]
    fn secrets_of_the_address_are_in_no_message() {
        for url in [
            "http://user:secretpw12@127.0.0.1:1x",
            "http://127.0.0.1:1x/?api_key=secretpw12",
        ] {
            let why = ask(url).expect_err("no port").to_string();
            assert!(
                why.contains("port that is not a number") && !why.contains("secretpw12"),
                "{why}"
            );
        }
    }
}
