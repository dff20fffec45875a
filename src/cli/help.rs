//! The help: commands in groups, with an example of each.

use clap::Command;
use clap::builder::StyledStr;
use itertools::Itertools;

/// The groups, with the path and an example of each command. A command that is in no group is hidden.
const GROUPS: &str = include_str!("help.txt");

/// The path and the example of each command.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    GROUPS.lines().filter_map(|line| line.split_once(": "))
}

/// Arranges the subcommands in groups, with an example in the help of each.
pub fn arrange(command: Command) -> Command {
    let command = examples().fold(command, |command, (path, example)| add_example(command, path, example));
    let groups = groups(&command);
    command
        .mut_subcommands(|subcommand| {
            let is_listed = examples().any(|(path, _)| path == subcommand.get_name());
            subcommand.hide(!is_listed)
        })
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

/// The commands by group, each with its summary.
fn groups(command: &Command) -> String {
    let width = examples().map(|(path, _)| path.len()).max().unwrap_or_default();
    let line = |line: &str| match line.split_once(": ") {
        Some((path, _)) => {
            let about = find(command, path).and_then(Command::get_about);
            format!(
                "  {path:width$}  {}",
                about.map(ToString::to_string).unwrap_or_default()
            )
        }
        None => line.to_owned(),
    };
    GROUPS.lines().map(line).join("\n")
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
        for (name, example) in examples() {
            assert!(find(&command, name).is_some(), "{name}");
            let words = shell_words::split(example).expect("a command line");
            let read = command.clone().try_get_matches_from(&words);
            assert!(read.is_ok(), "{example}: {}", read.expect_err("refused"));
        }
    }
}
