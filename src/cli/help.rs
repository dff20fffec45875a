//! The help: commands in groups, with an example of each.

use clap::Command;
use clap::builder::StyledStr;
use itertools::Itertools;

/// The groups of commands, each command with an example. A command that is in no group is hidden.
const GROUPS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Sweep",
        &[
            (
                "init",
                "vsweep init --model meta-llama/Llama-3.1-8B-Instruct --gpus 8 --goal tune -o tune.toml",
            ),
            ("check", "vsweep check tune.toml"),
            ("plan", "vsweep plan tune.toml --format sh"),
            ("rehearse", "vsweep rehearse tune.toml"),
            ("run", "vsweep run tune.toml --only 'tensor_parallel_size=2'"),
        ],
    ),
    (
        "Read",
        &[
            ("status", "vsweep status --watch"),
            ("report", "vsweep report results/tune --live"),
            (
                "compare",
                "vsweep compare results/old results/new --fail-on p99_ttft_ms:+5%",
            ),
            (
                "plot",
                "vsweep plot results/tune --var-x max_concurrency --var-y p99_ttft_ms",
            ),
            (
                "pareto",
                "vsweep pareto results/tune --x p99_ttft_ms --y output_throughput",
            ),
            ("verify", "vsweep verify results/tune"),
        ],
    ),
    (
        "Cluster",
        &[
            ("submit", "vsweep submit tune.toml --slurm"),
            ("worker", "vsweep worker results/tune"),
        ],
    ),
    (
        "One server",
        &[
            (
                "bench",
                "vsweep bench --port 8000 --model m --num-prompts 100 --max-concurrency 8",
            ),
            (
                "iterations",
                "vsweep iterations --port 8000 --mode decode --context-len 1024 --batch-size 32",
            ),
            ("phases", "vsweep phases --port 8000"),
            ("sim", "vsweep sim serve demo-8b --port 8000"),
        ],
    ),
    (
        "Convert",
        &[
            (
                "import",
                "vsweep import -- vllm bench sweep serve --serve-cmd 'vllm serve m' --bench-cmd 'vllm bench serve'",
            ),
            ("export", "vsweep export results/tune --format vllm -o tree"),
        ],
    ),
];

/// Arranges the subcommands in groups, with an example in the help of each.
pub fn arrange(command: Command) -> Command {
    let mut command = command;
    for (name, example) in GROUPS.iter().flat_map(|(_, commands)| *commands) {
        command = command.mut_subcommand(name, |subcommand| {
            subcommand.after_help(format!("Example:\n  {example}"))
        });
    }
    let groups = groups(&command);
    let all: Vec<String> = command
        .get_subcommands()
        .map(|subcommand| subcommand.get_name().to_owned())
        .collect();
    for name in all.iter().filter(|name| !is_grouped(name)) {
        command = command.mut_subcommand(name, |subcommand| subcommand.hide(true));
    }
    command
        .help_template("{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}\n")
        .after_help(StyledStr::from(groups))
}

fn is_grouped(name: &str) -> bool {
    GROUPS
        .iter()
        .any(|(_, commands)| commands.iter().any(|(subcommand, _)| *subcommand == name))
}

/// The commands by group, each with its summary.
fn groups(command: &Command) -> String {
    let names = GROUPS
        .iter()
        .flat_map(|(_, commands)| *commands)
        .map(|(name, _)| name.len());
    let width = names.max().unwrap_or_default();
    let line = |(name, _): &(&str, &str)| {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        format!(
            "  {name:width$}  {}\n",
            about.map(ToString::to_string).unwrap_or_default()
        )
    };
    let group =
        |(title, commands): &(&str, &[(&str, &str)])| format!("\n{title}:\n{}", commands.iter().map(line).join(""));
    GROUPS.iter().map(group).join("").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_summary_fits_beside_its_command() {
        let command = crate::cli::command();
        for line in groups(&command).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn every_group_names_commands_and_their_examples_are_read() {
        let command = crate::cli::command();
        for (name, example) in GROUPS.iter().flat_map(|(_, commands)| *commands) {
            assert!(command.find_subcommand(name).is_some(), "{name}");
            let words = shell_words::split(example).expect("a command line");
            let read = command.clone().try_get_matches_from(&words);
            assert!(read.is_ok(), "{example}: {}", read.expect_err("refused"));
        }
    }
}
