//! `--only EXPR`: measuring a part of the matrix, such as `tensor_parallel_size=2,bench.max_concurrency>=8`.

use super::filter::Agreement;
use super::{FilterKind, Matrix, PairFilter, Removed};
use crate::{Condition, ParamRef, Side, condition, suggest};
use itertools::Itertools;
use vsweep_base::error::{Error, Result};

impl Matrix {
    /// The part of the matrix that meets all conditions, which are separated by commas. A name without `serve.` or `bench.` is looked
    /// for on both sides. Fails if the text says no conditions, a parameter is unknown or nothing is left.
    pub fn only(&self, text: &str) -> Result<Matrix> {
        let conditions = text.split(',').map(|part| condition::parse(part.trim()));
        let conditions = conditions.collect::<Result<Vec<_>, String>>().map_err(|why| {
            let remedy = "write conditions such as max_num_seqs=64,max_concurrency>=8";
            Error::Usage(format!("--only: {why}; {remedy}"))
        })?;
        let conditions = conditions.into_iter().map(|(key, op, value)| {
            let param = self.find_param(&key)?;
            Ok(Condition { param, op, value })
        });
        let conditions: Vec<Condition> = conditions.collect::<Result<_>>()?;
        let mut matrix = self.clone();
        matrix.filters.push(PairFilter {
            kind: FilterKind::Only,
            pairs: Agreement::of_conditions(&conditions, &self.sides),
            removed: Removed::default(),
        });
        matrix.count();
        if matrix.points_of_server.iter().all(|count| *count == 0) {
            let remedy = "`vsweep plan` without --only lists all points";
            return Err(Error::Usage(format!("--only leaves no point; {remedy}")));
        }
        Ok(matrix)
    }

    fn find_param(&self, key: &str) -> Result<ParamRef> {
        let params = [Side::Serve, Side::Bench].into_iter().flat_map(|side| {
            let names = self.names(side).into_iter().map(String::from);
            names.map(move |name| ParamRef { side, name })
        });
        let params: Vec<ParamRef> = params.collect();
        let meant = params.iter().filter(|param| param.is_meant_by(key)).collect_vec();
        let why = match meant.as_slice() {
            [param] => return Ok((*param).clone()),
            [] => {
                let known = params.iter().map(ToString::to_string).collect_vec();
                let remedy = suggest(key, known.iter().map(String::as_str));
                format!("no parameter is called `{key}`; {remedy}")
            }
            _ => format!("both sides have `{key}`; write serve.{key} or bench.{key}"),
        };
        Err(Error::Usage(format!("--only: {why}")))
    }
}
