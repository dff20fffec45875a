//! Command-line flags made from a benchmark's table of parameters, in both spellings of their names.

use crate::bench::params::{Flag, Takes};
use crate::plan::Params;
use clap::{ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

/// Adds a flag for every parameter.
pub fn augment<'a>(command: Command, flags: impl IntoIterator<Item = &'a Flag>) -> Command {
    flags.into_iter().fold(command, |command, flag| {
        let argument = clap::Arg::new(flag.name)
            .long(flag.name.replace('_', "-"))
            .help(flag.help);
        let argument = if flag.name.contains('_') {
            argument.alias(flag.name)
        } else {
            argument
        };
        command.arg(match flag.takes {
            Takes::Nothing => argument.action(ArgAction::SetTrue),
            Takes::Texts => argument.num_args(0..).value_name("TEXT"),
            Takes::Count | Takes::Number => argument.allow_hyphen_values(true).value_name("N"),
            Takes::Text => argument.value_name("TEXT"),
            Takes::Json => argument.value_name("JSON"),
        })
    })
}

/// The parameters that were given.
pub fn read<'a>(matches: &ArgMatches, flags: impl IntoIterator<Item = &'a Flag>) -> Params {
    let mut params = Params::new();
    for flag in flags {
        let value = match flag.takes {
            Takes::Nothing => matches.get_flag(flag.name).then_some(Value::Bool(true)),
            Takes::Texts => matches
                .get_many::<String>(flag.name)
                .map(|texts| texts.cloned().collect()),
            _ => matches.get_one::<String>(flag.name).map(|text| json!(text)),
        };
        if let Some(value) = value {
            params.insert(flag.name.to_owned(), value);
        }
    }
    params
}
