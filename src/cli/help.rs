//! The help: commands in groups, with an example of each.

use clap::Command;
use clap::builder::StyledStr;
use itertools::Itertools;

/// The groups, with the path and an example of each command. A command that is in no group is hidden.
const GROUPS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Sweep",
        &[
            (
                "init",
                "vsweep init --model meta-llama/Llama-3.1-8B-Instruct --gpus 8 --goal tune -o tune.toml",
            ),
            ("check", "vsweep check tune.toml"),
            ("plan", "vsweep plan tune.toml --rehearse"),
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
                "plot pareto",
                "vsweep plot pareto results/tune --x p99_ttft_ms --y output_throughput",
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
                "bench iterations",
                "vsweep bench iterations --port 8000 --mode decode --context-len 1024 --batch-size 32",
            ),
            ("bench phases", "vsweep bench phases --port 8000"),
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
    let examples = GROUPS.iter().flat_map(|(_, commands)| *commands);
    let mut command = examples.fold(command, |command, (path, example)| add_example(command, path, example));
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

/// Adds an example to the end of a subcommand's help.
fn add_example(command: Command, path: &str, example: &str) -> Command {
    if let Some((name, rest)) = path.split_once(' ') {
        return command.mut_subcommand(name, |subcommand| add_example(subcommand, rest, example));
    }
    command.mut_subcommand(path, |subcommand| {
        let example = format!("Example:\n  {example}");
        let text = match subcommand.get_after_help() {
            Some(before) => format!("{before}\n\n{example}"),
            None => example,
        };
        subcommand.after_help(text).disable_help_subcommand(true)
    })
}

/// Returns the subcommand at the end of a path such as `bench phases`.
fn find<'a>(command: &'a Command, path: &str) -> Option<&'a Command> {
    path.split(' ')
        .try_fold(command, |command, name| command.find_subcommand(name))
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
        let about = find(command, name).and_then(Command::get_about);
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
            assert!(find(&command, name).is_some(), "{name}");
            let words = shell_words::split(example).expect("a command line");
            let read = command.clone().try_get_matches_from(&words);
            assert!(read.is_ok(), "{example}: {}", read.expect_err("refused"));
        }
    }
}
