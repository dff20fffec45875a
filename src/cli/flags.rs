//! Command-line flags made from a benchmark's table of parameters, in both spellings of their names.

use crate::bench::params::{Param, Takes};
use crate::plan::Params;
use clap::{ArgAction, ArgMatches, Command, FromArgMatches};
use serde_json::{Value, json};
use std::marker::PhantomData;

/// Where the flags of a subcommand come from.
pub trait FlagTable {
    /// Its parameters, each with the title of its group.
    fn params() -> impl Iterator<Item = (&'static str, &'static Param)>;

    /// Flags of others that it has not, hidden from the help.
    fn refused() -> impl Iterator<Item = &'static str> {
        std::iter::empty()
    }
}

/// The parameters of a table as they were given, to be flattened into the arguments of a subcommand.
#[derive(Debug)]
pub struct TableFlags<T> {
    pub given: Params,
    /// Those that it has not, with what was given to them.
    pub refused: Vec<(&'static str, Vec<String>)>,
    table: PhantomData<T>,
}

impl<T: FlagTable> clap::Args for TableFlags<T> {
    fn augment_args(command: Command) -> Command {
        let command = T::refused().fold(command, |command, name| {
            let argument = clap::Arg::new(name).long(name.replace('_', "-")).alias(name);
            command.arg(argument.num_args(0..).hide(true))
        });
        augment(command, T::params())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: FlagTable> FromArgMatches for TableFlags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let refused = T::refused().filter_map(|name| Some((name, matches.get_many(name)?.cloned().collect())));
        Ok(TableFlags {
            given: read(matches, T::params()),
            refused: refused.collect(),
            table: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds a flag for every parameter, each under the title of its group.
fn augment<'a>(command: Command, params: impl Iterator<Item = (&'static str, &'a Param)>) -> Command {
    params.fold(command, |command, (title, param)| {
        let argument = clap::Arg::new(param.name)
            .long(param.name.replace('_', "-"))
            .aliases(param.name.contains('_').then_some(param.name))
            .help(param.help())
            .help_heading(title);
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
fn read<'a>(matches: &ArgMatches, params: impl Iterator<Item = (&'static str, &'a Param)>) -> Params {
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
