//! Command-line flags that are made from a benchmark's table of parameters, and parsers for the flags of other commands.

use crate::bench::params::{Param, Table, Takes};
use crate::plan::Params;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use serde_json::{Value, json};
use std::marker::PhantomData;

/// A table of parameters from which a subcommand's flags are made.
pub trait FlagTable {
    /// The table. The parameters that it refuses become flags that are hidden from the help.
    const TABLE: &'static Table;
    /// Parameters for which the subcommand declares flags itself.
    const DECLARED_ELSEWHERE: &'static [&'static str] = &[];

    /// Returns the parameters that become flags here, each with the title of its group.
    fn params() -> impl Iterator<Item = (&'static str, &'static Param)> {
        let params = Self::TABLE.all();
        params.filter(|(_, param)| !Self::DECLARED_ELSEWHERE.contains(&param.name))
    }
}

/// The parameters of a table as they were given, to be flattened into the arguments of a subcommand.
#[derive(Debug)]
pub struct TableFlags<T> {
    /// Parameters that the subcommand has, with their given values.
    pub given: Params,
    /// Parameters that the table refuses, with their given values.
    pub refused: Vec<(&'static str, Vec<String>)>,
    table: PhantomData<T>,
}

impl<T: FlagTable> clap::Args for TableFlags<T> {
    fn augment_args(command: Command) -> Command {
        let refused = T::TABLE
            .refused
            .iter()
            .map(|(name, _)| flag(name).num_args(0..).hide(true));
        command.args(refused).args(T::params().map(|(title, param)| {
            let flag = flag(param.name).help(param.help()).help_heading(title);
            match param.takes {
                Takes::Nothing => flag.action(ArgAction::SetTrue),
                Takes::Texts => flag.num_args(0..).value_name("TEXT"),
                Takes::Count | Takes::Number => flag.allow_hyphen_values(true).value_name("N"),
                Takes::Text => flag.value_name("TEXT"),
                Takes::Json => flag.value_name("JSON"),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(name: &'static str) -> Arg {
    Arg::new(name).long(name.replace('_', "-"))
}

impl<T: FlagTable> FromArgMatches for TableFlags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let texts = |name: &str| Some(matches.get_many::<String>(name)?.cloned().collect::<Vec<_>>());
        let value = |param: &Param| match param.takes {
            Takes::Nothing => matches.get_flag(param.name).then_some(Value::Bool(true)),
            Takes::Texts => texts(param.name).map(|texts| json!(texts)),
            _ => matches.get_one::<String>(param.name).map(|text| json!(text)),
        };
        let given = T::params().filter_map(|(_, param)| Some((param.name.to_owned(), value(param)?)));
        let refused = T::TABLE.refused.iter();
        let refused = refused.filter_map(|(name, _)| Some((*name, texts(name)?)));
        Ok(TableFlags {
            given: given.collect(),
            refused: refused.collect(),
            table: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns a word of a command line with dashes instead of underscores in its flag. vLLM accepts both.
pub fn dashed(word: &str) -> String {
    let (flag, value) = word.split_at(word.find('=').unwrap_or(word.len()));
    match flag.starts_with("--") && !flag.contains(' ') {
        true => flag.replace('_', "-") + value,
        false => word.to_owned(),
    }
}

/// Returns a parser that accepts one of these names and returns its value.
pub fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    values: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let value = move |name: String| {
        let mut named = values.iter().filter(|(other, _)| *other == name);
        named.next().expect("the parser accepts only these names").1
    };
    PossibleValuesParser::new(values.map(|(name, _)| name)).map(value)
}

/// Parses a number for which `fits` is true. The error is `wants`.
pub fn number(text: &str, wants: &str, fits: impl Fn(f64) -> bool) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number| fits(*number));
    number.ok_or_else(|| wants.to_owned())
}
