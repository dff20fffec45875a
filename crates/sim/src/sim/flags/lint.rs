//! Everything that vLLM would object to in a command line, where argparse ends with the first thing.

use super::{Argument, arguments, table};

/// One thing that vLLM would refuse.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objection {
    /// It has no flag of this name.
    Unknown {
        /// The flag as it is typed, without a value in the same word.
        flag: String,
    },
    /// The flag takes no such value.
    Value {
        /// The flag as it is typed, without a value in the same word.
        flag: String,
        /// What argparse says, such as `invalid int value: 'many'`.
        why: String,
    },
    /// A word that belongs to no flag, when the model is known already.
    Word {
        /// The word.
        word: String,
    },
}

/// Every objection to the arguments after `serve`, in their order.
pub fn objections(args: &[String]) -> Vec<Objection> {
    let mut has_model = false;
    let mut objection = |argument| match argument {
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
    arguments(&table(), args).filter_map(&mut objection).collect()
}

/// The long names of all flags.
pub fn names() -> Vec<&'static str> {
    let flags = table().into_iter().flat_map(|flag| flag.names);
    flags.filter(|name| name.starts_with("--")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::flags::Flags;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<String> {
        shell_words::split(line).expect("quoted well")
    }

    fn objected(line: &str) -> String {
        let told = objections(&words(line)).into_iter().map(|objection| match objection {
            Objection::Unknown { flag } => flag,
            Objection::Value { flag, why } => format!("{flag}: {why}"),
            Objection::Word { word } => word,
        });
        told.collect::<Vec<_>>().join("; ")
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
