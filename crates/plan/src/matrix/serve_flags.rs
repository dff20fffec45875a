//! A server's command line taken apart into flags, as a configuration file for `vllm serve --config` holds them: the
//! reverse of [`super::argv`]. What only a command line can say is kept apart.

use super::argv::is_switch;
use super::flags::is_list;
use crate::plan::spelling::{self, is_flag};
use crate::plan::{HIDDEN, ServeCommand};

/// The flags of one server command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServeFlags {
    /// The words before the flags: `vllm serve`, with its launcher if it has one.
    pub program: Vec<String>,
    /// The model, where the command names it.
    pub model: Option<String>,
    /// Name of each flag without its leading dashes (`max-num-seqs`) and its value, in the order of the command; of a flag
    /// that is given twice, the last.
    pub flags: Vec<(String, FlagValue)>,
    /// Words that a file cannot hold: short flags we do not know, values that look like flags, secrets (hidden).
    pub apart: Vec<String>,
}

/// The value of a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagValue {
    /// None: `--x` or `--no-x`.
    Switch,
    /// One word.
    One(String),
    /// Several words.
    Many(Vec<String>),
}

/// What `-O` stands for; its level may follow without a space.
const OPTIMIZATION: &str = "--optimization-level";

impl ServeFlags {
    /// Takes a command line apart. `None` where it does not show where the server's flags begin (no word `serve`), or where
    /// some of them stand in a file of their own (`--config`).
    pub fn of(argv: &[String]) -> Option<ServeFlags> {
        let whole = ServeCommand::of(argv);
        if !whole.shows_flags() {
            return None;
        }
        let (program, mut rest) = argv.split_at(whole.first_flag());
        let mut command = ServeFlags {
            program: program.to_vec(),
            ..ServeFlags::default()
        };
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if !is_flag(word) {
                match command.model {
                    None => command.model = Some(word.clone()),
                    Some(_) => command.apart.push(word.clone()),
                }
                continue;
            }
            let (flag, attached) = split(word);
            if spelling::same(flag.trim_start_matches('-'), "config") {
                return None;
            }
            let count = attached.map_or_else(|| command.words_after(flag, rest), |_| 0);
            let (following, after) = rest.split_at(count);
            rest = after;
            let values = attached.map_or_else(|| following.to_vec(), |value| vec![value.to_owned()]);
            command.take(flag, values).unwrap_or_else(|| {
                command.apart.push(word.clone());
                command.apart.extend_from_slice(following);
            });
        }
        Some(command)
    }

    /// How many of the words after a flag are its values. Once the model is known, no other word stands alone.
    fn words_after(&self, flag: &str, rest: &[String]) -> usize {
        let words = rest.iter().take_while(|word| !is_flag(word)).count();
        let name = spelling::parameter(flag).unwrap_or_default();
        if self.model.is_some() || is_list(&name) {
            words
        } else if is_switch(flag, &name) {
            0
        } else {
            words.min(1)
        }
    }

    /// Adds a flag; `None` if a file cannot hold it.
    fn take(&mut self, flag: &str, mut values: Vec<String>) -> Option<()> {
        if values.iter().any(|value| is_flag(value) || value.contains(HIDDEN)) {
            return None;
        }
        let name = spelling::flag(&spelling::parameter(flag)?);
        let value = match values.len() {
            0 => FlagValue::Switch,
            1 if name == "model" => {
                self.model = values.pop();
                return Some(());
            }
            1 => FlagValue::One(values.remove(0)),
            _ => FlagValue::Many(values),
        };
        self.flags.retain(|(known, _)| *known != name);
        self.flags.push((name, value));
        Some(())
    }
}

/// A flag and the value in the same word, if one is.
fn split(word: &str) -> (&str, Option<&str>) {
    match (word.strip_prefix("-O"), word.split_once('=')) {
        (Some(""), _) => (OPTIMIZATION, None),
        (Some(level), _) => (OPTIMIZATION, Some(level.trim_start_matches('='))),
        (None, Some((flag, value))) => (flag, Some(value)),
        (None, None) => (word, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &str) -> Option<ServeFlags> {
        ServeFlags::of(&shell_words::split(command).expect("a command line"))
    }

    /// What was taken apart, as one text.
    fn shown(command: &str) -> String {
        let command = read(command).expect("flags");
        let flags = command.flags.iter().map(|(name, value)| match value {
            FlagValue::Switch => name.clone(),
            FlagValue::One(word) => format!("{name}={word}"),
            FlagValue::Many(words) => format!("{name}={words:?}"),
        });
        let flags: Vec<String> = flags.collect();
        let model = command.model.unwrap_or_default();
        format!("{model} | {} | {}", flags.join(" "), shell_words::join(command.apart))
    }

    #[test]
    fn every_spelling_is_one_setting() {
        assert_eq!(
            shown("vllm serve m -tp 2 --max_num_seqs=8 --enforce-eager --no-enable-prefix-caching -O3 --lr -1"),
            "m | tensor-parallel-size=2 max-num-seqs=8 enforce-eager no-enable-prefix-caching \
             optimization-level=3 lr=-1 | "
        );
        assert_eq!(
            shown("vllm serve m --served-model-name a b --compilation-config.pass_config.x=false --seed 1 --seed 2"),
            r#"m | served-model-name=["a", "b"] compilation-config.pass_config.x=false seed=2 | "#
        );
    }

    #[test]
    fn the_model_may_stand_anywhere() {
        assert_eq!(
            shown("vllm serve --seed 1 --enforce-eager m"),
            "m | seed=1 enforce-eager | "
        );
        assert_eq!(
            shown("python -m vllm.entrypoints.openai.api_server --model m --seed 1"),
            "m | seed=1 | "
        );
        assert_eq!(shown("docker run -p 1:1 image vllm serve m --seed 1"), "m | seed=1 | ");
    }

    #[test]
    fn what_a_file_cannot_hold_is_kept_apart() {
        assert_eq!(
            shown("vllm serve m --x=-a -zz 3 --api-key '***' --seed 1"),
            "m | seed=1 | '--x=-a' -zz 3 --api-key '***'"
        );
    }

    #[test]
    fn commands_that_do_not_show_their_flags_are_not_taken_apart() {
        assert_eq!(read("./start-server --seed 1"), None);
        assert_eq!(read("vllm serve m --config my.yaml"), None);
        assert_eq!(ServeFlags::of(&[]), None);
    }
}
