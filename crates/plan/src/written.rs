//! The form of the plan's values as JSON Schema: simple types, the macros that declare alternatives ([`any_of!`]) and closed lists of words
//! ([`words!`]), and the forms that several tables share. These forms only describe: values are read into other types.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use vsweep_strategy::search::{Spacing, Vary};

/// A type that describes the form of its values in a plan.
pub(super) trait Written {
    /// Returns the JSON Schema of a value, or a reference to one of the definitions.
    fn schema(definitions: &mut Definitions) -> Value;
}

/// The parts of the schema that have a name, in the order of their first mention.
#[derive(Default)]
pub(super) struct Definitions(pub Map<String, Value>);

impl Definitions {
    /// Returns a reference to the part of this name. The part is described when it is first mentioned.
    pub fn refer(&mut self, name: &str, describe: impl FnOnce(&mut Definitions) -> Map<String, Value>) -> Value {
        if !self.0.contains_key(name) {
            // The part takes its place before the parts that it mentions.
            self.0.insert(name.to_owned(), Value::Null);
            let described = describe(self);
            self.0.insert(name.to_owned(), described.into());
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }
}

/// Returns a schema with its description in front.
pub(super) fn described(about: &str, schema: Value) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("description".into(), about.trim().into());
    // The schema that accepts any value is `true` instead of an object, and has nothing to add.
    if let Value::Object(schema) = schema {
        all.extend(schema);
    }
    all
}

impl Written for String {
    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "string"})
    }
}

impl Written for bool {
    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "boolean"})
    }
}

impl Written for f64 {
    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "number", "format": "double"})
    }
}

impl Written for u32 {
    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "integer", "format": "uint32", "minimum": 0})
    }
}

/// Null, which only JSON can express.
impl Written for () {
    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "null"})
    }
}

/// Any value.
impl Written for Value {
    fn schema(_: &mut Definitions) -> Value {
        true.into()
    }
}

impl<T: Written> Written for Vec<T> {
    fn schema(definitions: &mut Definitions) -> Value {
        json!({"type": "array", "items": T::schema(definitions)})
    }
}

impl<T: Written> Written for BTreeMap<String, T> {
    fn schema(definitions: &mut Definitions) -> Value {
        json!({"type": "object", "additionalProperties": T::schema(definitions)})
    }
}

/// A closed list of words.
pub(super) trait ListOfWords {
    /// The words, each with its meaning.
    const WORDS: &'static [(&'static str, &'static str)];
}

/// Declares a closed list of words of the plan: an enum with a word for each entry. The entry after `default` is used if the plan has no
/// word. With `impl`, declares the words of an enum of another room.
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        $vis:vis enum $name:ident($title:literal) {
            $($(#[doc = $meaning:literal])+ $entry:ident = $word:literal,)+
        }
        $(default $default:ident)?
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
        $vis enum $name {
            $($(#[doc = $meaning])+ #[serde(rename = $word)] $entry,)+
        }

        $(
            impl Default for $name {
                fn default() -> $name {
                    $name::$default
                }
            }
        )?

        words! {
            $(#[doc = $about])+
            impl $name($title) { $($(#[doc = $meaning])+ $word,)+ }
        }
    };
    (
        $(#[doc = $about:literal])+
        impl $name:ident($title:literal) { $($(#[doc = $meaning:literal])+ $word:literal,)+ }
    ) => {
        impl $crate::written::ListOfWords for $name {
            const WORDS: &'static [(&'static str, &'static str)] = &[$(($word, concat!($($meaning),+)),)+];
        }

        impl $crate::written::Written for $name {
            fn schema(definitions: &mut $crate::written::Definitions) -> serde_json::Value {
                definitions.refer($title, |_| $crate::written::one_of::<$name>(concat!($($about),+)))
            }
        }
    };
}

/// Declares a value that a plan writes in one of several forms, each with its meaning and its type.
macro_rules! any_of {
    (
        $(#[doc = $about:literal])+
        $vis:vis $name:ident { $($(#[doc = $meaning:literal])+ $form:ty,)+ }
    ) => {
        $(#[doc = $about])+
        $vis struct $name;

        impl $crate::written::Written for $name {
            fn schema(definitions: &mut $crate::written::Definitions) -> serde_json::Value {
                definitions.refer(stringify!($name), |definitions| {
                    let forms = vec![$($crate::written::described(
                        concat!($($meaning),+),
                        <$form as $crate::written::Written>::schema(definitions),
                    ),)+];
                    $crate::written::described(concat!($($about),+), serde_json::json!({"anyOf": forms}))
                })
            }
        }
    };
}

pub(super) use {any_of, words};

/// Returns the schema of a closed list.
pub(super) fn one_of<W: ListOfWords>(about: &str) -> Map<String, Value> {
    let word = |(word, meaning): &(&str, &str)| described(meaning, json!({"type": "string", "const": word}));
    let words: Vec<Map<String, Value>> = W::WORDS.iter().map(word).collect();
    described(about, json!({"oneOf": words}))
}

any_of! {
    /// A command line: a string split as a shell would, or a list of words.
    pub Words {
        /// Split into words as a shell would; no shell is involved.
        String,
        /// Taken as it is.
        Vec<String>,
    }
}

any_of! {
    /// One command line, or several by name.
    pub Commands {
        /// One for all servers.
        Words,
        /// An axis.
        BTreeMap<String, Words>,
    }
}

any_of! {
    /// A value, or several as an axis.
    pub Values {
        /// One.
        Scalar,
        /// An axis.
        Vec<Scalar>,
    }
}

any_of! {
    /// A value that is neither a list nor a table.
    pub Scalar {
        /// `true` or `false`.
        bool,
        /// A number.
        f64,
        /// A text; `${NAME}` and `${NAME:-default}` stand for environment variables.
        String,
    }
}

words! {
    /// Spacing of a range with a `count`.
    impl Spacing("Scale") {
        /// Equal differences.
        "linear",
        /// Equal factors.
        "log",
    }
}

words! {
    /// The load parameter that a search varies.
    impl Vary("Vary") {
        /// Requests in flight at once.
        "max_concurrency",
        /// Requests a second.
        "request_rate",
    }
}
