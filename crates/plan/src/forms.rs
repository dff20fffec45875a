//! The forms that a plan's values may have, for the schema. These types only describe the forms: values are read into other types.

use super::written::{any_of, words};
use std::collections::BTreeMap;
use vsweep_strategy::search::{Spacing, Vary};

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
