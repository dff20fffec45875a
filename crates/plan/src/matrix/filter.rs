//! Decides which pairs of server and load are kept. Links, exclusions and `--only` are each reduced to one small number per configuration
//! of a side, so that testing a pair compares integers.

use super::space::{Sides, Space};
use super::{FilterCount, FilterKind, Matrix, PairFilter};
use crate::condition::{compared, parse_list};
use crate::value::read_text;
use crate::{Condition, ParamRef, Side, equality_key, suggest};
use itertools::Itertools;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use vsweep_base::error::{Error, Result};

/// Number of a configuration that is in no pair.
const NEVER: u32 = u32::MAX;

/// A set of pairs: those in which the configurations of both sides have the same number.
#[derive(Debug, Clone)]
pub(super) struct Agreement {
    serve: Vec<u32>,
    bench: Vec<u32>,
}

impl Agreement {
    /// Returns the pairs in which both sides have the same key. A configuration without a key is in no pair.
    fn new<K: Hash + Eq>(sides: &Sides, key: impl Fn(Side, &Space, usize) -> Option<K>) -> Agreement {
        let mut numbers: HashMap<K, u32> = HashMap::new();
        let mut numbered = |side: Side| {
            let space = sides.of(side);
            let number = |index: usize| {
                let next = numbers.len() as u32;
                key(side, space, index).map_or(NEVER, |key| *numbers.entry(key).or_insert(next))
            };
            (0..space.len()).map(number).collect()
        };
        Agreement {
            serve: numbered(Side::Serve),
            bench: numbered(Side::Bench),
        }
    }

    /// Returns the pairs in which all parameters of the group have equal values; a number equals a text that spells it. If they all belong
    /// to one side, every configuration of the other side fits.
    pub fn of_values(group: &[ParamRef], sides: &Sides) -> Agreement {
        let is_across = [Side::Serve, Side::Bench].map(|side| names_of(group, side).next().is_some()) == [true; 2];
        Agreement::new(sides, |side, space, index| {
            let value = |name: &str| space.value(index, name).map(|value| equality_key(&read_text(&value)));
            let mut values = names_of(group, side).map(value);
            let first = values.next().unwrap_or_else(|| Some(String::new()))?;
            let are_equal = values.all(|value| value.as_ref() == Some(&first));
            are_equal.then_some(if is_across { first } else { String::new() })
        })
    }

    /// Returns the pairs in which all axes of the group are at the same position; `None` if the group does not span both sides.
    pub fn of_positions(group: &[ParamRef], sides: &Sides) -> Option<Agreement> {
        let dimension = |side: Side| sides.of(side).param(names_of(group, side).next()?)?.dimension;
        let (serve, bench) = (dimension(Side::Serve)?, dimension(Side::Bench)?);
        Some(Agreement::new(sides, |side, space, index| {
            let dimension = if side == Side::Serve { serve } else { bench };
            Some(space.position(index, dimension))
        }))
    }

    /// Returns the pairs for which all conditions hold. A missing parameter meets no condition.
    pub fn of_conditions(conditions: &[Condition], sides: &Sides) -> Agreement {
        Agreement::new(sides, |side, space, index| {
            let mut own = conditions.iter().filter(|condition| condition.param.side == side);
            let holds = |Condition {
                             param,
                             op,
                             value: bound,
                         }: &Condition| {
                let value = space.value(index, &param.name);
                value.is_some_and(|value| op.holds(&value, bound))
            };
            own.all(holds).then_some(())
        })
    }

    /// Returns true if the set has this pair.
    pub fn has(&self, serve: usize, bench: usize) -> bool {
        self.serve[serve] != NEVER && self.serve[serve] == self.bench[bench]
    }

    /// Returns true if the set has any pair.
    pub fn is_possible(&self) -> bool {
        let numbers: HashSet<&u32> = self.bench.iter().filter(|number| **number != NEVER).collect();
        self.serve.iter().any(|number| numbers.contains(number))
    }
}

fn names_of(group: &[ParamRef], side: Side) -> impl Iterator<Item = &str> {
    group
        .iter()
        .filter(move |param| param.side == side)
        .map(|param| param.name.as_str())
}

impl Matrix {
    /// Returns the part of the matrix that meets all conditions, which are separated by commas. A name without `serve.` or `bench.` is
    /// sought on both sides. Fails if the text is not a list of conditions, if a parameter is unknown or on both sides, or if no point is
    /// left.
    pub fn only(&self, text: &str) -> Result<Matrix> {
        let conditions = parse_list(text, |key, op, right| Ok((key.to_owned(), op, compared(op, right)?)));
        let conditions = conditions.map_err(Error::Usage)?.into_iter().map(|(key, op, value)| {
            let param = self.find_param(&key)?;
            Ok(Condition { param, op, value })
        });
        let conditions: Vec<Condition> = conditions.collect::<Result<_>>()?;
        let mut matrix = self.clone();
        matrix.filters.push(PairFilter {
            kind: FilterKind::Only,
            pairs: Agreement::of_conditions(&conditions, &self.sides),
            removed: FilterCount {
                text: format!("--only {text}"),
                pairs: 0,
            },
        });
        matrix.count();
        if matrix.points_of_server.iter().all(|count| *count == 0) {
            let remedy = "`vsweep plan --fresh` without it lists all points";
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
