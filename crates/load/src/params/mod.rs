//! Parameters of a benchmark, each declared once.
//!
//! [`params!`](crate::params!) makes a struct of parameters. Each field holds the value of a parameter. Its doc comment is the help, and
//! the expression after its type sets name, default and bounds. From these lines the macro also makes a table of the parameters, for
//! checks, command lines, help and docs. `value` parses values of each type, and `reader` reads the values that are given. The owner of the
//! struct checks values against each other.

mod reader;
mod value;

pub use reader::ParamReader;
pub use serde_json::Value;
pub use value::{FromParam, json_of};

/// One parameter, with all data for help, checks and docs.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name in snake case, as in `vllm bench serve`.
    pub name: &'static str,
    /// Type of its value.
    pub takes: Takes,
    help: &'static str,
    /// The more general parameter that is used if this one is missing.
    pub general: Option<&'static str>,
    default: Option<&'static str>,
    otherwise: Option<&'static str>,
    required: Option<&'static str>,
    least: u64,
    wants: &'static str,
    fits: fn(f64) -> bool,
}

/// Type of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A whole number of at least 0.
    Count,
    /// A number, which may be `inf`.
    Number,
    /// A text.
    Text,
    /// Several texts.
    Texts,
    /// A JSON value.
    Json,
    /// No value: a flag that is present or not.
    Nothing,
}

/// Valid range of a number, in words and as a function.
pub type Bounds = (&'static str, fn(f64) -> bool);

/// A type that is read from parameters.
pub trait Declared: Sized {
    /// Tables of its parameters.
    const TABLES: &'static [&'static [Param]];

    /// Takes the values of its parameters from the reader, which collects the problems with them.
    fn declared(reader: &mut ParamReader<'_>) -> Self;
}

/// Parameters that belong together, under a title.
#[derive(Debug, Clone, Copy)]
pub struct ParamGroup {
    /// The title, as in help.
    pub title: &'static str,
    /// The parameters.
    pub params: &'static [Param],
}

impl ParamGroup {
    /// A group of parameters under a title.
    pub const fn of(title: &'static str, params: &'static [Param]) -> ParamGroup {
        ParamGroup { title, params }
    }
}

/// A parameter of this name, without a default. [`Param::described`] sets its type.
pub const fn param(name: &'static str) -> Param {
    Param {
        name,
        takes: Takes::Text,
        help: "",
        general: None,
        default: None,
        otherwise: None,
        required: None,
        least: 0,
        wants: "",
        fits: |_| true,
    }
}

impl Param {
    /// Sets the default value, as a user would write it.
    pub const fn default(self, value: &'static str) -> Param {
        let default = Some(value);
        Param { default, ..self }
    }

    /// Sets the words that the help shows in place of the default.
    pub const fn otherwise(self, words: &'static str) -> Param {
        let otherwise = Some(words);
        Param { otherwise, ..self }
    }

    /// Makes the parameter required. `says` completes the message about a missing value. The default then only fills the field, so that
    /// further problems are found.
    pub const fn required(self, says: &'static str) -> Param {
        let required = Some(says);
        Param { required, ..self }
    }

    /// Names a more general parameter that is used if this one is missing.
    pub const fn or(self, general: &'static str) -> Param {
        let general = Some(general);
        Param { general, ..self }
    }

    /// Sets the minimum of a whole number.
    pub const fn least(self, least: u64) -> Param {
        Param { least, ..self }
    }

    /// Sets the valid range, in words and as a function.
    pub const fn within(self, wants: &'static str, fits: fn(f64) -> bool) -> Param {
        Param { wants, fits, ..self }
    }

    /// Sets a range that several parameters share.
    pub const fn bounded(self, (wants, fits): Bounds) -> Param {
        self.within(wants, fits)
    }

    /// Sets the help, and the type of a parameter whose field is a `T`.
    pub const fn described<T: FromParam>(self, help: &'static str) -> Param {
        let takes = T::TAKES;
        Param { takes, help, ..self }
    }

    /// One line of help, with the more general parameter and the default in brackets.
    pub fn help(&self) -> String {
        let help = self.help.trim().trim_end_matches('.');
        let unset = self.otherwise.or(self.default).filter(|_| self.required.is_none());
        match (self.general, unset) {
            (Some(general), Some(unset)) => format!("{help} [{general}, else {unset}]"),
            (Some(unset), None) | (None, Some(unset)) => format!("{help} [{unset}]"),
            (None, None) => help.to_owned(),
        }
    }

    /// Valid values, in words.
    pub fn wants(&self) -> String {
        match (self.wants, self.takes) {
            ("", Takes::Count) => format!("a whole number of at least {}", self.least),
            ("", Takes::Number) => "a number".to_owned(),
            ("", Takes::Text) => "a string".to_owned(),
            ("", Takes::Texts) => "strings".to_owned(),
            ("", Takes::Json) => "JSON".to_owned(),
            ("", Takes::Nothing) => "nothing".to_owned(),
            (wants, _) => wants.to_owned(),
        }
    }

    /// Returns the error message for an invalid value; `wants` describes the valid ones.
    pub fn wrong(&self, value: &Value, wants: &str) -> String {
        format!("{} is {value}; it must be {wants}", self.name)
    }
}

/// Makes a struct of parameters.
///
/// ```
/// vsweep_load::params! {
///     /// Lengths of a benchmark.
///     pub struct Lengths {
///         /// Tokens of each prompt.
///         input_len: u64 = param("my_input_len").or("input_len").default("550"),
///         /// Share of them that all prompts have in common.
///         shared: f64 = param("my_shared").within("a share from 0 to 1", |share| (0.0..=1.0).contains(&share)).default("0"),
///         /// Only prompts of this category.
///         category: Option<String> = param("my_category"),
///     }
/// }
/// assert_eq!(Lengths::PARAMS[0].help(), "Tokens of each prompt [input_len, else 550]");
/// ```
#[macro_export]
macro_rules! params {
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident {
            $($(#[doc = $help:literal])+ $field:ident: $type:ty = $param:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        $vis struct $name {
            $($(#[doc = $help])+ pub $field: $type,)*
        }

        impl $crate::params::Declared for $name {
            const TABLES: &'static [&'static [$crate::params::Param]] = &[Self::PARAMS];

            fn declared(reader: &mut $crate::params::ParamReader<'_>) -> Self {
                Self::read(reader)
            }
        }

        impl $name {
            /// The table of its parameters, in the order of its fields.
            pub const PARAMS: &'static [$crate::params::Param] = {
                #[allow(unused_imports)]
                use $crate::params::param;
                &[$($param.described::<$type>(concat!($($help),+)),)*]
            };

            /// Takes its values. The reader collects the problems with them.
            pub fn read(reader: &mut $crate::params::ParamReader<'_>) -> Self {
                let mut table = Self::PARAMS.iter();
                Self {
                    $($field: reader.take(table.next().expect("a parameter for each field")),)*
                }
            }
        }
    };
}

/// Makes an enum of the texts that a parameter takes as values.
///
/// ```
/// vsweep_load::one_of! {
///     /// What is measured.
///     pub enum Phase {
///         /// Prompts.
///         Prefill = "prefill",
///         /// Outputs.
///         Decode = "decode",
///     }
/// }
/// assert_eq!(Phase::Decode.name(), "decode");
/// ```
#[macro_export]
macro_rules! one_of {
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident {
            $($(#[$help:meta])+ $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$help])+ $variant,)*
        }

        impl $name {
            /// Returns its text in parameters.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl $crate::params::FromParam for $name {
            const TAKES: $crate::params::Takes = $crate::params::Takes::Text;

            fn from_param(
                param: &$crate::params::Param,
                value: &$crate::params::Value,
            ) -> std::result::Result<Self, String> {
                match value.as_str() {
                    $(Some($text) => Ok(Self::$variant),)*
                    _ => Err(param.wrong(value, &$crate::params::one_of(&[$($text),*]))),
                }
            }
        }
    };
}

/// Returns the description of a value that must be one of these texts.
pub fn one_of(texts: &[&str]) -> String {
    match texts {
        [a, b] => format!("\"{a}\" or \"{b}\""),
        _ => format!("one of {}", texts.join(", ")),
    }
}
