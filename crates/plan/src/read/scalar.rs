//! Reads single values: texts, in which references are expanded, whole numbers, durations, choices and command lines.

use super::Reader;
use super::table::{FromNode, Table};
use crate::written::ListOfWords;
use crate::{Entry, Kind, Node, Span, suggest, syntax::interpolate};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;
use vsweep_base::units::parse_duration;

impl FromNode for String {
    type Written = String;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<String> {
        reader.text(node, what)
    }
}

impl FromNode for bool {
    type Written = bool;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<bool> {
        match node.kind {
            Kind::Bool(answer) => Some(answer),
            _ => reader.expected(node, what, "true or false"),
        }
    }
}

impl FromNode for Duration {
    type Written = String;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Duration> {
        let Kind::Text(text) = &node.kind else {
            return reader.wrong_kind(node, what, "a duration such as \"30s\", \"15m\" or \"1h 30m\"");
        };
        let (message, remedy) = match parse_duration(&reader.expand(text, node.span)) {
            Ok(duration) if !duration.is_zero() => return Some(duration),
            Ok(_) => ("longer than 0", "write a duration such as \"30s\"".to_owned()),
            Err(why) => ("a duration such as `15m`", why),
        };
        reader.refuse(node.span, format!("`{what}` must be {message}"), remedy)
    }
}

impl FromNode for Vec<String> {
    type Written = Vec<String>;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<String>> {
        let remedy = "write a list of strings, such as [\"max_concurrency\"]";
        reader.each(node, what, remedy, |reader, item| reader.text(item, what))
    }
}

impl<T: FromNode> FromNode for Option<T> {
    type Written = T::Written;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Option<T>> {
        T::from_node(reader, node, what).map(Some)
    }
}

/// A list of tables of one kind.
impl<T: Table> FromNode for Vec<T> {
    type Written = Vec<T>;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<T>> {
        let remedy = format!("write each below its own [[{what}]]");
        reader.each(node, what, &remedy, |reader, item| T::from_node(reader, item, what))
    }
}

impl Reader<'_> {
    /// Reports a value that is not as `expected`, which completes the sentences "must be …" and "write …".
    pub(crate) fn expected<T>(&mut self, node: &Node, what: &str, expected: &str) -> Option<T> {
        let message = format!("`{what}` must be {expected}");
        self.refuse(node.span, message, format!("write {expected}"))
    }

    /// Reports a value of the wrong type, with the expected type as the remedy.
    pub(crate) fn wrong_kind<T>(&mut self, node: &Node, what: &str, expected: &str) -> Option<T> {
        self.not_a(expected, node, what, &format!("write {expected}"))
    }

    /// Reports a value of the wrong type, with the given remedy.
    pub(crate) fn not_a<T>(&mut self, expected: &str, node: &Node, what: &str, remedy: &str) -> Option<T> {
        let message = format!("`{what}` must be {expected}, found {}", node.kind_name());
        self.refuse(node.span, message, remedy)
    }

    /// Returns a text with its references expanded, and notes the secrets in it, because every text of a plan is read here. A text that
    /// cannot be expanded is reported, and returned as it is.
    pub(crate) fn expand(&mut self, text: &str, span: Span) -> String {
        match interpolate::expand(text, &self.world.vars) {
            Ok((expanded, used)) => {
                for (name, value) in used {
                    self.secrets.note(name, value);
                }
                self.secrets.note_text(&expanded);
                expanded
            }
            Err(problem) => {
                self.found.add(problem.at(span));
                text.to_string()
            }
        }
    }

    /// Reads a text, and expands the references in it.
    pub(crate) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.kind {
            Kind::Text(text) => Some(self.expand(text, node.span)),
            _ => self.wrong_kind(node, what, "a string"),
        }
    }

    /// Reads a whole number within these bounds.
    pub(crate) fn whole(&mut self, node: &Node, what: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let value = match &node.kind {
            Kind::Number(number) => number.as_u64().and_then(|value| u32::try_from(value).ok()),
            _ => None,
        };
        value.filter(|value| range.contains(value)).or_else(|| {
            let (least, most) = (range.start(), range.end());
            let expected = match least == most {
                true => format!("{least}"),
                false => format!("a whole number from {least} to {most}"),
            };
            self.expected(node, what, &expected)
        })
    }

    /// Reads one of the words of `W`.
    pub(crate) fn word<W: ListOfWords>(&mut self, node: &Node, what: &str) -> Option<String> {
        let words: Vec<&str> = W::WORDS.iter().map(|(word, _)| *word).collect();
        self.among(node, what, &words)
    }

    /// Reads one of these words.
    pub(crate) fn among(&mut self, node: &Node, what: &str, words: &[&str]) -> Option<String> {
        let text = self.text(node, what)?;
        if words.contains(&text.as_str()) {
            return Some(text);
        }
        let remedy = suggest(&text, words);
        self.refuse(node.span, format!("`{what}` cannot be `{text}`"), remedy)
    }

    /// Returns the items of a list. Any other value is reported with this remedy.
    pub(crate) fn list<'n>(&mut self, node: &'n Node, what: &str, remedy: &str) -> Option<&'n [Node]> {
        match &node.kind {
            Kind::List(items) => Some(items),
            _ => self.not_a("a list", node, what, remedy),
        }
    }

    /// Reads the items of a list one by one. Items that cannot be read are left out.
    pub(crate) fn each<T>(
        &mut self,
        node: &Node,
        what: &str,
        remedy: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let items = self.list(node, what, remedy)?;
        Some(items.iter().filter_map(|item| read(self, item)).collect())
    }

    /// Returns the entries of a table. Any other value is reported with this remedy.
    pub(crate) fn table<'n>(&mut self, node: &'n Node, what: &str, remedy: &str) -> Option<&'n [Entry]> {
        match &node.kind {
            Kind::Table(entries) => Some(entries),
            _ => self.not_a("a table", node, what, remedy),
        }
    }

    /// Reads a value that is neither a list nor a table.
    pub(crate) fn scalar(&mut self, node: &Node, what: &str) -> Option<Value> {
        match &node.kind {
            Kind::List(_) | Kind::Table(_) => self.wrong_kind(node, what, "a string, a number or a boolean"),
            _ => Some(self.value(node)),
        }
    }

    /// Reads any value, and expands the references in its texts.
    pub(crate) fn value(&mut self, node: &Node) -> Value {
        node.to_json(&mut |text, span| self.expand(text, span))
    }

    /// Reads a command line. It is split into words as by a shell before the references in each word are expanded, so that the value of a
    /// variable is never split.
    pub(crate) fn words(&mut self, node: &Node, what: &str) -> Option<Vec<String>> {
        let words: Vec<String> = match &node.kind {
            Kind::Text(line) => match shell_words::split(line) {
                Ok(words) => words.iter().map(|word| self.expand(word, node.span)).collect(),
                Err(_) => {
                    let message = format!("`{what}` has a quote that is never closed");
                    return self.refuse(node.span, message, "close it, or write a list of words");
                }
            },
            Kind::List(items) => items.iter().filter_map(|item| self.text(item, what)).collect(),
            _ => return self.wrong_kind(node, what, "a string or a list of strings"),
        };
        if words.first().is_none_or(String::is_empty) {
            let message = format!("`{what}` names no program");
            return self.refuse(node.span, message, "write a program and its arguments");
        }
        if words.iter().any(|word| word.contains('\0')) {
            let message = format!("`{what}` holds a zero byte, which no program can be given");
            return self.refuse(node.span, message, "remove it");
        }
        self.refuse_shell(&words, node, what);
        self.secrets.note_argv(&words);
        Some(words)
    }

    /// Rejects shell syntax, which the program would take for arguments.
    fn refuse_shell(&mut self, words: &[String], node: &Node, what: &str) {
        let assignment = words[0].split_once('=');
        if let Some((name, _)) = assignment.filter(|(name, _)| interpolate::is_name(name)) {
            let message = format!("`{what}` sets `{name}` as a shell would, but no shell is involved");
            let remedy = format!("set it in `env`: env = {{ {name} = \"...\" }}");
            self.object(node.span, message, remedy);
        }
        let operators = ["|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>"];
        if let Some(operator) = words.iter().find(|word| operators.contains(&word.as_str())) {
            let message = format!("`{what}` has `{operator}`, but no shell is involved");
            let remedy = "write one program and its arguments, or [\"sh\", \"-c\", \"...\"]";
            self.object(node.span, message, remedy);
        }
    }

    /// Reads a table of environment variables.
    pub(crate) fn env(&mut self, node: &Node, what: &str) -> Option<BTreeMap<String, String>> {
        let Kind::Table(entries) = &node.kind else {
            return self.wrong_kind(node, what, "a table of variables");
        };
        let variable = |entry: &Entry| Some((entry.key.clone(), self.variable(entry, &entry.value)?));
        Some(entries.iter().filter_map(variable).collect())
    }

    /// Reads one value of the variable that an entry names.
    pub(crate) fn variable(&mut self, entry: &Entry, node: &Node) -> Option<String> {
        let name = &entry.key;
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("`{name}` cannot name an environment variable");
            return self.refuse(entry.key_span, message, "use letters, digits and `_`");
        }
        let value = match self.scalar(node, name)? {
            Value::String(text) => text,
            Value::Null => return self.wrong_kind(node, name, "a string, a number or a boolean"),
            value => value.to_string(),
        };
        if value.contains('\0') {
            return self.refuse(node.span, "the value holds a zero byte", "remove it");
        }
        self.secrets.note(name, &value);
        Some(value)
    }

    /// Reads a number within these bounds.
    pub(crate) fn ratio(&mut self, node: &Node, what: &str, range: RangeInclusive<f64>) -> Option<f64> {
        node.number().filter(|value| range.contains(value)).or_else(|| {
            let expected = format!("a number from {} to {}", range.start(), range.end());
            self.expected(node, what, &expected)
        })
    }

    /// Reads a percentage from a text; `3 %` gives 3.
    pub(crate) fn percent(&mut self, node: &Node, what: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let text = match &node.kind {
            Kind::Text(text) => self.expand(text, node.span),
            _ => String::new(),
        };
        let number = text.trim().strip_suffix('%').map(str::trim);
        let percent = number.and_then(|number| number.parse::<f64>().ok());
        percent.filter(|percent| range.contains(percent)).or_else(|| {
            let (least, most) = (range.start(), range.end());
            let message = format!("`{what}` must be a percentage from {least} to {most}");
            // A number below 1 may be meant as a share, so it is not repeated as a percentage.
            let meant = node.number().filter(|number| *number >= 1.0 && range.contains(number));
            self.refuse(node.span, message, format!("write \"{} %\"", meant.unwrap_or(3.0)))
        })
    }
}
