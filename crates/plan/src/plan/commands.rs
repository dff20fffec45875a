//! What else than flags tells servers of one plan apart: their command lines and their environment. Benchmarks have command lines, too.
//!
//! Where a plan gives several, each is a parameter of its side under a name that no flag can have: `command`, and `env.NAME`
//! for a variable. So they vary, combine, link and exclude as flags do, and have their columns. Here they become a command line and
//! an environment again.

use super::{Axis, Params, show};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The parameter that names a server's command line.
pub const COMMAND: &str = "command";
/// What the name of a parameter for an environment variable begins with.
pub const ENV: &str = "env.";

/// The command lines that a plan launches servers or sends loads with, program first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commands {
    /// One for all servers that choose no other.
    One(Vec<String>),
    /// By the names that the plan gives them, in order.
    Named(Vec<(String, Vec<String>)>),
}

impl Default for Commands {
    fn default() -> Commands {
        Commands::One(Vec::new())
    }
}

impl Commands {
    /// The one that a server with these parameters is launched with: a name of the table, or the whole line.
    pub fn of(&self, params: &Params) -> Cow<'_, [String]> {
        let chosen = params.get(COMMAND).and_then(Value::as_str);
        match (self, chosen) {
            (Commands::One(words), None) => words.into(),
            (Commands::Named(_), None) => Cow::default(),
            (Commands::One(_), Some(line)) => split(line),
            (Commands::Named(named), Some(chosen)) => match named.iter().find(|(name, _)| name == chosen) {
                Some((_, words)) => words.into(),
                None => split(chosen),
            },
        }
    }

    /// The axis over their names, where there are several.
    pub(super) fn axis(&self) -> Option<(String, Axis)> {
        match self {
            Commands::Named(named) if !named.is_empty() => {
                let names = named.iter().map(|(name, _)| name.as_str().into());
                Some((COMMAND.to_owned(), Axis::Values(names.collect())))
            }
            _ => None,
        }
    }

    /// All that the plan gives beside those of combinations.
    pub fn iter(&self) -> impl Iterator<Item = &[String]> {
        let (one, named) = match self {
            Commands::One(words) => (Some(words.as_slice()), [].as_slice()),
            Commands::Named(named) => (None, named.as_slice()),
        };
        one.into_iter().chain(named.iter().map(|(_, words)| words.as_slice()))
    }
}

/// A whole line as a combination has it, which the plan's reader has joined of words.
fn split(line: &str) -> Cow<'static, [String]> {
    shell_words::split(line).unwrap_or_default().into()
}

/// Whether a parameter of the server side is no flag.
pub fn is_no_flag(name: &str) -> bool {
    name == COMMAND || name.starts_with(ENV)
}

/// The parameters that are flags.
pub fn flags(params: &Params) -> Cow<'_, Params> {
    if !params.keys().any(|name| is_no_flag(name)) {
        return Cow::Borrowed(params);
    }
    let flags = params.iter().filter(|(name, _)| !is_no_flag(name));
    Cow::Owned(flags.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The plan's environment, with the variables among the parameters.
pub fn environment(fixed: &BTreeMap<String, String>, params: &Params) -> BTreeMap<String, String> {
    let mut env = fixed.clone();
    let varied = params
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(ENV)?, value)));
    env.extend(varied.map(|(name, value)| (name.to_owned(), show(value))));
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_has_the_command_and_the_variables_of_its_parameters() {
        let words = |line: &str| shell_words::split(line).expect("closed quotes");
        let named = Commands::Named(vec![("old".into(), words("a serve")), ("new".into(), words("b serve"))]);
        let params = |value: Value| value.as_object().cloned().expect("an object");
        let varied = params(json!({"command": "new", "env.A": "2", "seqs": 8}));
        assert_eq!(*named.of(&varied), words("b serve"));
        assert_eq!(*named.of(&params(json!({"command": "'c d' x"}))), words("'c d' x"));
        assert_eq!(
            *Commands::One(words("a serve")).of(&params(json!({}))),
            words("a serve")
        );
        assert_eq!(*flags(&varied), params(json!({"seqs": 8})));
        let fixed = [("A", "1"), ("B", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = environment(&fixed.into(), &varied);
        assert_eq!((env["A"].as_str(), env["B"].as_str()), ("2", "1"));
    }
}
