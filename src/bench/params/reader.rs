//! Typed values from parameters: numbers may be texts, lists may be one text, flags may be texts. Collects what is wrong.

use crate::bench::params::{self, Flag};
use crate::plan::Params;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Takes typed values out of parameters and collects what is wrong with them.
pub(in crate::bench) struct Reader<'a> {
    pub values: BTreeMap<String, &'a Value>,
    pub problems: Vec<String>,
}

impl<'a> Reader<'a> {
    pub fn new(params: &'a Params) -> Self {
        Reader::of(params, params::find, params::unknown)
    }

    /// Over parameters of another table, in which `find` looks; `unknown` says what is wrong with a name that it lacks.
    pub fn of(
        params: &'a Params,
        find: impl Fn(&str) -> Option<&'static Flag>,
        unknown: impl Fn(&str) -> String,
    ) -> Self {
        let mut reader = Reader {
            values: BTreeMap::new(),
            problems: vec![],
        };
        for (name, value) in params {
            match find(name) {
                None => reader.problems.push(unknown(name)),
                Some(_) if value.is_null() => {}
                Some(flag) => {
                    if reader.values.insert(flag.name.to_owned(), value).is_some() {
                        reader
                            .problems
                            .push(format!("{} is given twice, in two spellings; keep one", flag.name));
                    }
                }
            }
        }
        reader
    }

    pub fn wrong(&mut self, name: &str, wants: &str) {
        let value = self.values.get(name).map(|value| value.to_string()).unwrap_or_default();
        self.problems.push(format!("{name} is {value}; it must be {wants}"));
    }

    pub fn number(&mut self, name: &str, wants: &str, fits: impl Fn(f64) -> bool) -> Option<f64> {
        let number = match self.values.get(name)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| !number.is_nan() && fits(*number));
        if number.is_none() {
            self.wrong(name, wants);
        }
        number
    }

    pub fn count(&mut self, name: &str, least: u64) -> Option<u64> {
        let most = 1e15;
        let fits = |number: f64| number.fract() == 0.0 && number >= least as f64 && number <= most;
        let is_huge = |value: &&Value| value.as_f64().is_some_and(|number| number > most);
        let wants = match self.values.get(name).is_some_and(is_huge) {
            true => "at most 10^15".to_owned(),
            false => format!("a whole number of at least {least}"),
        };
        self.number(name, &wants, fits).map(|number| number as u64)
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        match *self.values.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Array(items) => Some(
                items
                    .iter()
                    .map(|item| item.as_str().map_or(item.to_string(), str::to_owned))
                    .collect::<Vec<_>>()
                    .join(","),
            ),
            _ => {
                self.wrong(name, "a text");
                None
            }
        }
    }

    pub fn is_set(&mut self, name: &str) -> bool {
        match self.values.get(name) {
            None => false,
            Some(Value::Bool(set)) => *set,
            Some(Value::String(text)) if text.is_empty() || text == "true" => true,
            Some(Value::String(text)) if text == "false" => false,
            Some(_) => {
                self.wrong(name, "true or false");
                false
            }
        }
    }

    pub fn seed(&mut self) -> u32 {
        let seed = self.number("seed", "a whole number from 0 to 4294967295", |seed| {
            seed.fract() == 0.0 && (0.0..4_294_967_296.0).contains(&seed)
        });
        seed.unwrap_or(0.0) as u32
    }

    pub fn vocab_size(&mut self) -> Option<u32> {
        self.count("vocab_size", 1).map(|size| size.min(u32::MAX.into()) as u32)
    }

    pub fn texts(&mut self, name: &str) -> Vec<String> {
        match self.values.get(name) {
            None => vec![],
            Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
                items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(_) => {
                self.wrong(name, "a list of texts");
                vec![]
            }
        }
    }

    pub fn pairs(&mut self, name: &str) -> Vec<(String, String)> {
        if let Some(Value::Object(object)) = self.values.get(name) {
            let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
            return object.iter().map(|(key, value)| (key.clone(), text(value))).collect();
        }
        let texts = self.texts(name);
        let mut pairs = vec![];
        for text in texts {
            match text.split_once('=') {
                Some((key, value)) => pairs.push((key.trim().to_owned(), value.trim().to_owned())),
                None => self
                    .problems
                    .push(format!("{name} \"{text}\" has no \"=\"; write KEY=VALUE")),
            }
        }
        pairs
    }

    pub fn object(&mut self, name: &str) -> Map<String, Value> {
        let parsed = match self.values.get(name) {
            None => return Map::new(),
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
            Some(value) => (*value).clone(),
        };
        match parsed {
            Value::Object(object) => object,
            _ => {
                self.wrong(name, "a JSON object");
                Map::new()
            }
        }
    }

    pub fn checked<T>(&mut self, read: Result<T, String>) -> Option<T> {
        read.map_err(|problem| self.problems.push(problem)).ok()
    }
}
