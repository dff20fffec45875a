//! `--only EXPR`: measuring a part of the matrix, such as `tensor_parallel_size=2,bench.max_concurrency>=8`.

use super::Matrix;
use super::filter::Match;
use crate::error::{Error, Result};
use crate::plan::{Condition, Op, ParamRef, Side, condition, spelling, suggest};
use serde_json::Value;
use std::sync::OnceLock;

/// Conditions that must all hold. A name without `serve.` or `bench.` is looked for on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Only {
    conditions: Vec<(String, Op, Value)>,
}

impl Only {
    /// Reads conditions separated by commas.
    pub fn parse(text: &str) -> Result<Only> {
        let conditions = text.split(',').map(|part| condition::parse(part.trim()));
        match conditions.collect() {
            Ok(conditions) => Ok(Only { conditions }),
            Err(why) => {
                let remedy = "write conditions such as max_num_seqs=64,max_concurrency>=8";
                Err(Error::Usage(format!("--only: {why}; {remedy}")))
            }
        }
    }
}

impl std::str::FromStr for Only {
    type Err = Error;

    fn from_str(text: &str) -> Result<Only> {
        Only::parse(text)
    }
}

impl Matrix {
    /// The part of the matrix that meets all conditions. Fails if a parameter is unknown or nothing is left.
    pub fn only(&self, only: &Only) -> Result<Matrix> {
        let conditions = only.conditions.iter().map(|(key, op, value)| {
            Ok(Condition {
                param: self.find_param(key)?,
                op: *op,
                value: value.clone(),
            })
        });
        let conditions: Vec<Condition> = conditions.collect::<Result<_>>()?;
        let mut matrix = self.clone();
        matrix.only.push(Match::new(&conditions, &self.sides));
        matrix.count();
        matrix.servers_by_id = OnceLock::new();
        if matrix.points_of_server.iter().all(|count| *count == 0) {
            let remedy = "`vsweep plan` without --only lists all points";
            return Err(Error::Usage(format!("--only leaves no point; {remedy}")));
        }
        Ok(matrix)
    }

    fn find_param(&self, key: &str) -> Result<ParamRef> {
        let all = [Side::Serve, Side::Bench].map(|side| self.params_of(side));
        let matches = |param: &&ParamRef| spelling::same(&param.name, key) || spelling::same(&param.to_string(), key);
        let found: Vec<&ParamRef> = all.iter().flatten().filter(matches).collect();
        match found.as_slice() {
            [param] => Ok((*param).clone()),
            [] => {
                let known: Vec<String> = all.iter().flatten().map(ToString::to_string).collect();
                let remedy = suggest(key, known.iter().map(String::as_str));
                Err(Error::Usage(format!(
                    "--only: no parameter is called `{key}`; {remedy}"
                )))
            }
            _ => Err(Error::Usage(format!(
                "--only: both sides have `{key}`; write serve.{key} or bench.{key}"
            ))),
        }
    }

    fn params_of(&self, side: Side) -> Vec<ParamRef> {
        let names = self.sides.of(side).names().into_iter().map(String::from);
        names.map(|name| ParamRef { side, name }).collect()
    }
}
