//! The command line of `vllm serve`, parsed as argparse does: kebab and snake case, `--k v` and `--k=v`, `--no-x`, short names, JSON and
//! dotted values, with the same errors. `table` declares the flags. Other modules interpret the values.

mod table;

pub use table::{has_negative, help, names};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use table::{FlagKind, FoundFlag, find, looks_like_a_flag, take_value};

/// The arguments as given. Each flag is named by its destination, argparse's `dest` (`max_num_seqs`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flags {
    /// The positional model, if any.
    pub model_tag: Option<String>,
    values: Map<String, Value>,
}

/// Reason why a server would not start, in vLLM's words.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The command line is wrong.
    Usage(String),
    /// This file of vLLM would raise this exception while the configuration is built.
    Exception(&'static str, String),
}

impl Refusal {
    /// Returns the refusal of a flag, named by its destination, for a reason in argparse's words.
    pub fn argument(name: &str, why: impl std::fmt::Display) -> Refusal {
        Refusal::labelled(&format!("--{}", name.replace('_', "-")), why)
    }

    fn labelled(label: &str, why: impl std::fmt::Display) -> Refusal {
        Refusal::Usage(format!(
            "usage: vllm serve [model_tag] [options]\nvllm serve: error: argument {label}: {why}"
        ))
    }

    fn unrecognized(extras: &[&str]) -> Refusal {
        Refusal::Usage(format!(
            "usage: vllm [-h] [-v]\n            \
             {{chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch,snapshot}}\n            \
             ...\nvllm: error: unrecognized arguments: {}",
            extras.join(" ")
        ))
    }
}

/// A part of a command line.
enum Argument<'a> {
    /// A word that belongs to no flag.
    Word(&'a str),
    /// A flag that vLLM does not have, and the next word, which is most likely its value.
    Unknown(&'a str, Option<&'a str>),
    /// A flag as it is typed, the flag of vLLM that this text means, and its value or argparse's error.
    Known(&'a str, FoundFlag, Result<Value, String>),
}

/// Returns the words of a command line as vLLM hands them to argparse. It replaces `-O3`, `-O=3` and `-O 3`, which its help does not list.
pub fn spelt_out(args: &[String]) -> Vec<&str> {
    const LEVEL: &str = "--optimization-level";
    let is_level = |word: Option<&String>| word.is_some_and(|word| ["0", "1", "2", "3"].contains(&&**word));
    let spelt = args
        .iter()
        .enumerate()
        .flat_map(|(at, word)| match word.strip_prefix("-O") {
            Some("") if is_level(args.get(at + 1)) => [Some(LEVEL), None],
            Some(level) if !level.is_empty() && !level.starts_with('.') => {
                [Some(LEVEL), Some(level.strip_prefix('=').unwrap_or(level))]
            }
            _ => [Some(word.as_str()), None],
        });
    spelt.flatten().collect()
}

/// Returns the parts of a command line, in their order.
fn arguments(args: &[String]) -> impl Iterator<Item = Argument<'_>> {
    let mut rest = spelt_out(args).into_iter().peekable();
    std::iter::from_fn(move || {
        let argument = rest.next()?;
        if !looks_like_a_flag(argument) {
            return Some(Argument::Word(argument));
        }
        let (typed, attached) = match argument.split_once('=') {
            Some((typed, value)) => (typed, Some(value)),
            None => (argument, None),
        };
        Some(match find(typed) {
            None if attached.is_some() => Argument::Unknown(argument, None),
            None => Argument::Unknown(argument, rest.next_if(|word| !looks_like_a_flag(word))),
            Some(found) => {
                let value = take_value(&found, attached, &mut rest);
                Argument::Known(typed, found, value)
            }
        })
    })
}

/// One error of vLLM about its arguments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objection {
    /// vLLM has no flag of this name.
    Unknown {
        /// The flag as it is typed, without a value in the same word.
        flag: String,
    },
    /// The flag does not accept the value.
    Value {
        /// The flag as it is typed, without a value in the same word.
        flag: String,
        /// The error of argparse, such as `invalid int value: 'many'`.
        why: String,
    },
    /// A word that belongs to no flag, after the model.
    Word {
        /// The word.
        word: String,
    },
}

impl Objection {
    /// Returns true for a value that is missing or of a wrong type, which every release refuses. Choices differ between releases.
    pub fn is_of_every_release(&self) -> bool {
        matches!(self, Objection::Value { why, .. } if !why.starts_with("invalid choice"))
    }
}

/// Returns all errors of vLLM about the arguments after `serve`, in their order. argparse itself stops at the first.
pub fn objections(args: &[String]) -> Vec<Objection> {
    let mut has_model = false;
    let objection = |argument| match argument {
        Argument::Word(word) => {
            let word = word.to_owned();
            std::mem::replace(&mut has_model, true).then_some(Objection::Word { word })
        }
        Argument::Unknown(argument, _) => {
            let flag = argument.split('=').next().unwrap_or(argument).to_owned();
            Some(Objection::Unknown { flag })
        }
        Argument::Known(typed, _, value) => {
            let (flag, why) = (typed.to_owned(), value.err()?);
            Some(Objection::Value { flag, why })
        }
    };
    arguments(args).filter_map(objection).collect()
}

impl Flags {
    /// Parses the arguments after `serve`.
    pub fn parse(args: &[String]) -> Result<Flags, Refusal> {
        let mut flags = Flags::default();
        let mut extras = Vec::new();
        for argument in arguments(args) {
            match argument {
                Argument::Word(word) if flags.model_tag.is_none() => flags.model_tag = Some(word.to_owned()),
                Argument::Word(word) => extras.push(word),
                Argument::Unknown(flag, value) => extras.extend(std::iter::once(flag).chain(value)),
                Argument::Known(_, found, value) => {
                    let value = value.map_err(|why| Refusal::labelled(&found.flag.names.join("/"), why))?;
                    flags.put(found, value);
                }
            }
        }
        match extras.is_empty() {
            true => Ok(flags),
            false => Err(Refusal::unrecognized(&extras)),
        }
    }

    fn put(&mut self, found: FoundFlag, value: Value) {
        let name = found.flag.names[0].trim_start_matches('-').replace('-', "_");
        let entry = self.values.entry(name);
        match (found.flag.kind, found.path) {
            (FlagKind::Append, _) => {
                let list = entry.or_insert_with(|| json!([])).as_array_mut();
                list.expect("only a list is put here").push(value);
            }
            (_, path) => {
                let mut node = entry.or_insert(Value::Null);
                for key in path.iter().flat_map(|path| path.split('.')) {
                    if !node.is_object() {
                        *node = json!({});
                    }
                    node = &mut node[key.replace('-', "_")];
                }
                *node = value;
            }
        }
    }

    /// Sets a flag by its destination.
    pub fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// Returns the flags without those that `leave_out` selects by their destination.
    pub fn without(&self, leave_out: impl Fn(&str) -> bool) -> Flags {
        let mut kept = self.clone();
        kept.values.retain(|name, _| !leave_out(name));
        kept
    }

    /// Returns the value of a flag by its destination.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Returns the text of a flag.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Returns the texts of a flag that takes several.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let list = self.get(name).and_then(|list| Vec::deserialize(list).ok());
        list.unwrap_or_default()
    }

    /// Returns true if a switch is on; `default` if it is not given.
    pub fn is_on(&self, name: &str, default: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// Returns the number of a flag, or `default` if it is not given. A number that is not finite is NaN.
    pub fn float(&self, name: &str, default: f64) -> f64 {
        self.get(name)
            .map_or(default, |value| value.as_f64().unwrap_or(f64::NAN))
    }

    /// Returns the model, named as the first word or by `--model`.
    pub fn model(&self) -> Option<&str> {
        self.model_tag.as_deref().or_else(|| self.text("model"))
    }

    /// Returns the given arguments for vLLM's log line of non-default arguments, as Python prints a dict. The simulator's own flags are
    /// left out.
    pub fn non_default(&self) -> String {
        let model = self
            .model_tag
            .iter()
            .map(|model| ("model_tag".to_owned(), model.as_str().into()));
        let given = self.values.clone().into_iter();
        let given = given.filter(|(name, _)| !name.starts_with("sim_"));
        python(&model.chain(given).collect())
    }
}

/// Formats a value as Python's `repr` does.
pub fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.contains('\'') && !text.contains('"') => format!("\"{text}\""),
        Value::String(text) => format!(
            "'{}'",
            text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")
        ),
        Value::Array(list) => format!("[{}]", list.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| format!("'{key}': {}", python(value));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<Flags, Refusal> {
        Flags::parse(&shell_words::split(line).expect("quoted well"))
    }

    fn refusal(line: &str) -> String {
        match parse(line).expect_err("refused") {
            Refusal::Usage(text) | Refusal::Exception(_, text) => text,
        }
    }

    #[test]
    fn every_spelling_of_a_flag_is_the_same_flag() {
        for line in [
            "m --max-num-seqs 8",
            "m --max_num_seqs 8",
            "--max-num-seqs=8 m",
            "m --max_num-seqs=8",
        ] {
            let flags = parse(line).expect(line);
            assert_eq!(flags.get("max_num_seqs"), Some(&json!(8)), "{line}");
            assert_eq!(flags.model_tag.as_deref(), Some("m"));
        }
        assert_eq!(
            parse("-tp 2").expect("short").get("tensor_parallel_size"),
            Some(&json!(2))
        );
    }

    #[test]
    fn booleans_have_a_negative() {
        let flags = parse("--enable-prefix-caching --no-enable_prefix_caching").expect("valid");
        assert_eq!(flags.get("enable_prefix_caching"), Some(&json!(false)));
        assert!(refusal("--enable-prefix-caching=false").contains("ignored explicit argument 'false'"));
    }

    #[test]
    fn values_may_be_json_dotted_human_or_many() {
        let flags = parse(
            "--compilation-config '{\"mode\": 3}' -cc.level=2 --max-model-len 8k --max-num-batched-tokens 4K \
             --served-model-name a b --cudagraph-capture-sizes 1 2 --port 0 --sim-fault hang-after:1 --sim-fault oom-at-load",
        );
        let flags = flags.expect("valid");
        assert_eq!(flags.get("compilation_config"), Some(&json!({"mode": 3, "level": 2})));
        assert_eq!(flags.get("max_model_len"), Some(&json!(8000)));
        assert_eq!(flags.get("max_num_batched_tokens"), Some(&json!(4096)));
        assert_eq!(flags.get("served_model_name"), Some(&json!(["a", "b"])));
        assert_eq!(flags.get("cudagraph_capture_sizes"), Some(&json!([1, 2])));
        assert_eq!(flags.get("sim_fault"), Some(&json!(["hang-after:1", "oom-at-load"])));
    }

    #[test]
    fn refusals_are_vllms() {
        assert_eq!(
            refusal("m --max-num-seqs abc"),
            "usage: vllm serve [model_tag] [options]\n\
             vllm serve: error: argument --max-num-seqs: invalid int value: 'abc'"
        );
        assert!(refusal("m --no-such-flag 3").ends_with("\nvllm: error: unrecognized arguments: --no-such-flag 3"));
        assert!(refusal("m --max-num-seqs").ends_with("argument --max-num-seqs: expected one argument"));
        assert!(refusal("m --dtype int3").contains("argument --dtype: invalid choice: 'int3' (choose from 'auto', "));
        assert!(refusal("m -tp x").contains("argument --tensor-parallel-size/-tp: invalid int value: 'x'"));
    }

    #[test]
    fn non_default_arguments_are_printed_as_python_does() {
        let flags = parse("m --max-num-seqs 8 --enforce-eager --sim-speed 4").expect("valid");
        assert_eq!(
            flags.non_default(),
            "{'model_tag': 'm', 'max_num_seqs': 8, 'enforce_eager': True}"
        );
    }

    fn objected(line: &str) -> String {
        let texts = objections(&shell_words::split(line).expect("quoted well"))
            .into_iter()
            .map(|objection| match objection {
                Objection::Unknown { flag } => flag,
                Objection::Value { flag, why } => format!("{flag}: {why}"),
                Objection::Word { word } => word,
            });
        texts.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn everything_is_told_at_once() {
        let line = "m --tensor-paralel-size 2 --max_num_seqs=many --dtype --enforce-eager true --no-such --port x";
        assert_eq!(
            objected(line),
            "--tensor-paralel-size; --max_num_seqs: invalid int value: 'many'; --dtype: expected one argument; true; --no-such; \
             --port: invalid int value: 'x'"
        );
        assert_eq!(
            objected("m --max-model-len 8k -tp 2 --compilation-config.mode=3 --served-model-name a b"),
            ""
        );
        for line in ["m -O3", "m -O 3", "m -O=3 --port 1"] {
            assert_eq!(objected(line), "", "{line}");
            assert_eq!(parse(line).expect(line).text("optimization_level"), Some("3"), "{line}");
        }
        assert_eq!(objected("m -O"), "-O");
        assert_eq!(
            objected("--enable-prefix-caching=false"),
            "--enable-prefix-caching: ignored explicit argument 'false'"
        );
    }

    proptest! {
        #[test]
        fn what_is_refused_is_objected_to(line in prop::collection::vec(prop::sample::select(vec![
            "m", "--max-num-seqs", "--port=3", "x", "7", "--no-such", "-tp", "--enforce-eager", "--dtype", "auto", "--x=1", "--no-enforce-eager",
        ]), 0..8)) {
            let args: Vec<String> = line.into_iter().map(str::to_owned).collect();
            let is_refused = Flags::parse(&args).is_err();
            prop_assert_eq!(is_refused, !objections(&args).is_empty());
        }
    }
}
