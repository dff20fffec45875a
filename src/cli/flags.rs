//! Command-line flags made from a benchmark's table of parameters, in both spellings of their names.

use crate::bench::params::{Param, Takes};
use crate::plan::Params;
use clap::{ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

/// Adds a flag for every parameter, each under the title of its group.
pub fn augment<'a>(command: Command, params: impl IntoIterator<Item = (&'static str, &'a Param)>) -> Command {
    params.into_iter().fold(command, |command, (title, param)| {
        let argument = clap::Arg::new(param.name)
            .long(param.name.replace('_', "-"))
            .help(param.help())
            .help_heading(title);
        let argument = if param.name.contains('_') {
            argument.alias(param.name)
        } else {
            argument
        };
        command.arg(match param.takes {
            Takes::Nothing => argument.action(ArgAction::SetTrue),
            Takes::Texts => argument.num_args(0..).value_name("TEXT"),
            Takes::Count | Takes::Number => argument.allow_hyphen_values(true).value_name("N"),
            Takes::Text => argument.value_name("TEXT"),
            Takes::Json => argument.value_name("JSON"),
        })
    })
}

/// The parameters that were given.
pub fn read<'a>(matches: &ArgMatches, params: impl IntoIterator<Item = (&'static str, &'a Param)>) -> Params {
    let mut given = Params::new();
    for (_, param) in params {
        let value = match param.takes {
            Takes::Nothing => matches.get_flag(param.name).then_some(Value::Bool(true)),
            Takes::Texts => matches
                .get_many::<String>(param.name)
                .map(|texts| texts.cloned().collect()),
            _ => matches.get_one::<String>(param.name).map(|text| json!(text)),
        };
        if let Some(value) = value {
            given.insert(param.name.to_owned(), value);
        }
    }
    given
}
