//! Splits a server's command line into flags, in the form of a configuration file for `vllm serve --config`: the reverse of
//! [`super::argv`]. Words that such a file cannot hold are kept apart.

use super::argv::{is_list, is_repeated, is_switch};
use crate::spelling::{self, is_flag};
use crate::{Flag, HIDDEN, ServeCommand};

/// The flags of one server command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServeFlags {
    /// The words before the flags: `vllm serve`, with its launcher if it has one.
    pub program: Vec<String>,
    /// The model, if the command names it.
    pub model: Option<String>,
    /// Name of each flag without its leading dashes (`max-num-seqs`) and its values, in the order of the command. If a flag is given twice,
    /// the last one counts. A switch has no values.
    pub flags: Vec<(String, Vec<String>)>,
    /// Words that a file cannot hold: unknown short flags, flags that may be given several times, flags with values that look like flags or
    /// with hidden secrets, and words that belong to no flag.
    pub apart: Vec<String>,
}

impl ServeFlags {
    /// Splits a command line. Returns `None` if it does not show where the server's flags begin, or if some of them are in a configuration
    /// file (`--config`).
    pub fn of(argv: &[String]) -> Option<ServeFlags> {
        let whole = ServeCommand::of(argv);
        if !whole.shows_flags() || whole.flags().any(|flag| flag.is("config")) {
            return None;
        }
        let mut command = ServeFlags {
            program: whole.before().to_vec(),
            ..ServeFlags::default()
        };
        command.add_positional(whole.positional());
        let flags: Vec<Flag<'_>> = whole.flags().collect();
        for (at, flag) in flags.iter().enumerate() {
            let words = flag.words(command.most_values(flag));
            let (values, others) = flag.after.split_at(words.len() - 1);
            let given = flag
                .attached
                .map_or_else(|| values.to_vec(), |value| vec![value.to_owned()]);
            let counts = flag
                .name
                .as_deref()
                .is_none_or(|name| is_repeated(name) || !flags[at + 1..].iter().any(|later| later.is(name)));
            if counts && !command.add(flag, given) {
                command.apart.extend_from_slice(&argv[words]);
            }
            command.add_positional(others);
        }
        Some(command)
    }

    /// Adds words that belong to no flag. The first is the model, if that is not known yet; the others are kept apart.
    fn add_positional(&mut self, words: &[String]) {
        let model = words.first().filter(|_| self.model.is_none());
        self.apart.extend_from_slice(&words[model.iter().count()..]);
        self.model = self.model.take().or(model.cloned());
    }

    /// Returns the largest number of words after a flag that may be its values. Until the model is known, the word after them may be the
    /// model.
    fn most_values(&self, flag: &Flag<'_>) -> usize {
        let name = flag.name.as_deref().unwrap_or_default();
        if self.model.is_some() || is_list(name) {
            usize::MAX
        } else if is_switch(flag.flag, name) {
            0
        } else {
            1
        }
    }

    /// Adds a flag if a file can hold it, and returns true if it did.
    fn add(&mut self, flag: &Flag<'_>, values: Vec<String>) -> bool {
        let Some(name) = &flag.name else { return false };
        if values.iter().any(|value| is_flag(value) || value.contains(HIDDEN)) {
            return false;
        }
        if name == "model" && values.len() == 1 {
            self.model = values.into_iter().next();
            return true;
        }
        // A file can hold each name only once.
        if is_repeated(name) {
            return false;
        }
        self.flags.push((spelling::flag(name), values));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &str) -> Option<ServeFlags> {
        ServeFlags::of(&shell_words::split(command).expect("a command line"))
    }

    /// Formats the parsed flags as one text.
    fn shown(command: &str) -> String {
        let command = read(command).expect("flags");
        let flags = command.flags.iter().map(|(name, values)| match values.as_slice() {
            [] => name.clone(),
            [word] => format!("{name}={word}"),
            words => format!("{name}={words:?}"),
        });
        let flags: Vec<String> = flags.collect();
        let model = command.model.unwrap_or_default();
        format!("{model} | {} | {}", flags.join(" "), shell_words::join(command.apart))
    }

    #[test]
    fn flags_that_add_to_each_other_stay_on_the_command_line() {
        assert_eq!(
            shown("vllm serve m --middleware a.b --max-num-seqs 8 --middleware c.d"),
            "m | max-num-seqs=8 | --middleware a.b --middleware c.d"
        );
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
        assert_eq!(shown("vllm serve m --lr=-a --lr 1"), "m | lr=1 | ");
        assert_eq!(shown("vllm serve m --lr 1 --lr=-a"), "m |  | '--lr=-a'");
    }

    #[test]
    fn commands_that_do_not_show_their_flags_are_not_taken_apart() {
        assert_eq!(read("./start-server --seed 1"), None);
        assert_eq!(read("vllm serve m --config my.yaml"), None);
        assert_eq!(ServeFlags::of(&[]), None);
    }
}
