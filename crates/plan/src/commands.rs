//! Treats command lines and environment variables as parameters, so that the servers of a plan can differ in them as in flags. Benchmarks
//! have command lines, too.
//!
//! If a plan gives several command lines for its servers, or for its benchmarks, the parameter `command` of that side is the name of one.
//! A variable with several values is the parameter `env.NAME`. No flag can have these names. So command lines and variables can vary, be
//! combined, linked and excluded like flags, and they have columns in tables. This file turns the parameters back into a command line and
//! an environment.

use super::{Axis, Params, show};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The parameter that names the command line of a server or a benchmark.
pub const COMMAND: &str = "command";
/// Prefix of parameters that set an environment variable.
pub const ENV: &str = "env.";

/// The command lines of a plan that launch its servers, or those that run its benchmarks. The first word of each is the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// Name and words of each command line, in the order of the plan. The name is empty if the plan gives none.
    named: Vec<(String, Vec<String>)>,
}

impl Default for Commands {
    fn default() -> Commands {
        Commands::one(Vec::new())
    }
}

impl Commands {
    /// Returns a single command line, which has no name.
    pub fn one(words: Vec<String>) -> Commands {
        Commands::named([(String::new(), words)])
    }

    /// Returns several command lines, each with its name.
    pub(super) fn named(named: impl IntoIterator<Item = (String, Vec<String>)>) -> Commands {
        let named = named.into_iter().collect();
        Commands { named }
    }

    /// Returns the command line of a server or a benchmark with these parameters. Their `command` is one of the names, or a whole command
    /// line: the plan's reader joins the words of a combination's command.
    pub fn of(&self, params: &Params) -> Cow<'_, [String]> {
        let chosen = params.get(COMMAND).and_then(Value::as_str).unwrap_or_default();
        match self.named.iter().find(|(name, _)| name == chosen) {
            Some((_, words)) => words.into(),
            None => shell_words::split(chosen).unwrap_or_default().into(),
        }
    }

    /// Returns the axis of the names, or `None` if there are no names.
    pub(super) fn axis(&self) -> Option<(String, Axis)> {
        let names = self.named.iter().filter(|(name, _)| !name.is_empty());
        let names: Vec<Value> = names.map(|(name, _)| name.as_str().into()).collect();
        (!names.is_empty()).then(|| (COMMAND.to_owned(), Axis::Values(names)))
    }

    /// The command lines, without those of combinations.
    pub fn iter(&self) -> impl Iterator<Item = &[String]> {
        self.named.iter().map(|(_, words)| words.as_slice())
    }
}

/// Returns true if a parameter of the server side is a command or an environment variable instead of a flag.
pub fn is_command_or_variable(name: &str) -> bool {
    name == COMMAND || name.starts_with(ENV)
}

/// Returns the parameters that are flags.
pub fn flags(params: &Params) -> Cow<'_, Params> {
    if !params.keys().any(|name| is_command_or_variable(name)) {
        return Cow::Borrowed(params);
    }
    let flags = params.iter().filter(|(name, _)| !is_command_or_variable(name));
    Cow::Owned(flags.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Returns the variables that are the same for all servers (`fixed`) and the variables among the parameters, which take precedence.
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
        let named = Commands::named([("old".into(), words("a serve")), ("new".into(), words("b serve"))]);
        let params = |value: Value| value.as_object().cloned().expect("an object");
        let varied = params(json!({"command": "new", "env.A": "2", "seqs": 8}));
        assert_eq!(*named.of(&varied), words("b serve"));
        assert_eq!(*named.of(&params(json!({"command": "'c d' x"}))), words("'c d' x"));
        assert_eq!(
            *Commands::one(words("a serve")).of(&params(json!({}))),
            words("a serve")
        );
        assert_eq!(*flags(&varied), params(json!({"seqs": 8})));
        let fixed = [("A", "1"), ("B", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = environment(&fixed.into(), &varied);
        assert_eq!((env["A"].as_str(), env["B"].as_str()), ("2", "1"));
    }
}
