//! Takes typed values out of a table of parameters, and collects all problems with them.

use super::{FromParam, Param};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Parameters being read.
#[derive(Debug)]
pub struct ParamReader<'a> {
    values: BTreeMap<&'static str, &'a Value>,
    problems: Vec<String>,
}

impl<'a> ParamReader<'a> {
    /// Makes a reader of `params`. `find` returns the parameter of a name, which may have underscores or hyphens. `unknown` returns the
    /// problem with a name that no parameter has. A null counts as not given.
    pub fn new(
        params: &'a Map<String, Value>,
        find: impl Fn(&str) -> Option<&'static Param>,
        unknown: impl Fn(&str) -> String,
    ) -> Self {
        let mut reader = ParamReader {
            values: BTreeMap::new(),
            problems: Vec::new(),
        };
        for (name, value) in params {
            match find(name) {
                None => reader.problem(unknown(name)),
                Some(_) if value.is_null() => {}
                Some(param) => {
                    if reader.values.insert(param.name, value).is_some() {
                        reader.problem(format!("{} is given twice, in two spellings; keep one", param.name));
                    }
                }
            }
        }
        reader
    }

    /// Returns the value of a parameter: its own value, else the value of the more general parameter, else its default. A wrong value is
    /// reported and skipped.
    pub fn take<T: FromParam>(&mut self, param: &Param) -> T {
        let names = [Some(param.name), param.general];
        for name in names.into_iter().flatten() {
            let Some(value) = self.values.get(name) else { continue };
            match T::from_param(&Param { name, ..*param }, value) {
                Ok(value) => return value,
                Err(problem) => self.problem(problem),
            }
        }
        if let Some(says) = param.required.filter(|_| !self.has(param.name)) {
            self.problem(format!("{} is missing; {says}", param.name));
        }
        let default = param.default.map(|text| T::from_param(param, &Value::from(text)));
        let default = default.map(|read| read.expect("a default is a value that the parameter takes"));
        default
            .or_else(T::absent)
            .expect("only optional parameters have no default")
    }

    /// Returns true if a parameter is given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Reports a problem: a sentence that names the parameter and ends with the remedy.
    pub fn problem(&mut self, problem: impl Into<String>) {
        let problem = problem.into();
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Reports that the value of a parameter is wrong. `wants` describes the valid ones.
    pub fn wrong(&mut self, name: &str, wants: &str) {
        let value = self.values.get(name).map(|value| value.to_string()).unwrap_or_default();
        self.problem(format!("{name} is {value}; it must be {wants}"));
    }

    /// Returns `read` if there were no problems, else all problems.
    pub fn finish<T>(self, read: T) -> Result<T, Vec<String>> {
        match self.problems.is_empty() {
            true => Ok(read),
            false => Err(self.problems),
        }
    }

    /// Returns true if there are no problems so far.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    crate::params! {
        /// One of each kind.
        struct Kinds {
            /// A count.
            count: u64 = param("count").or("general").least(1).default("7"),
            /// A number.
            share: f64 = param("share").within("a share below 1", |share| share < 1.0).default("0.5"),
            /// A limit in
            /// seconds
            limit: Option<Duration> = param("limit").otherwise("none"),
            /// A flag.
            flag: bool = param("flag"),
            /// Pairs.
            pairs: Vec<(String, String)> = param("pairs"),
        }
    }

    fn read(params: Value) -> Result<Kinds, Vec<String>> {
        let params = params.as_object().expect("an object");
        let find = |name: &str| {
            let name = name.replace('-', "_");
            let known = Kinds::PARAMS.iter().find(|param| param.name == name);
            known.or((name == "general").then_some(&Kinds::PARAMS[0]))
        };
        let mut reader = ParamReader::new(params, find, |name| format!("no {name}"));
        let kinds = Kinds::read(&mut reader);
        reader.finish(kinds)
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let kinds = read(json!({"flag": null})).expect("sound");
        assert_eq!(
            (kinds.count, kinds.share, kinds.limit, kinds.flag),
            (7, 0.5, None, false)
        );
        let given = json!({"count": "3", "limit": 1.5, "flag": "", "pairs": "a=1 b=x=y"});
        let kinds = read(given).expect("sound");
        assert_eq!(
            (kinds.count, kinds.limit, kinds.flag),
            (3, Some(Duration::from_millis(1500)), true)
        );
        assert_eq!(kinds.pairs[1], ("b".to_owned(), "x=y".to_owned()));
    }

    #[test]
    fn every_problem_is_noted_once() {
        let problems = read(json!({"count": 0, "share": 1, "flag": 3, "pairs": ["a"], "x": 1})).expect_err("wrong");
        let wanted = [
            "no x",
            "count is 0; it must be a whole number of at least 1",
            "share is 1; it must be a share below 1",
            "flag is 3; it must be true or false",
            "pairs \"a\" has no \"=\"; write KEY=VALUE",
        ];
        assert_eq!(problems, wanted);
        assert_eq!(
            read(json!({"count": 1, "c-ount": 1})).expect_err("unknown"),
            ["no c-ount"]
        );
        assert!(read(json!({"count": 1e16})).expect_err("huge")[0].ends_with("at most 10^15"));
    }

    #[test]
    fn help_shows_what_holds_otherwise() {
        let help: Vec<String> = Kinds::PARAMS.iter().map(Param::help).collect();
        assert_eq!(
            help[..3],
            [
                "A count [general, else 7]",
                "A number [0.5]",
                "A limit in seconds [none]"
            ]
        );
    }
}
