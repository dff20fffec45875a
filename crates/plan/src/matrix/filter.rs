//! Which pairs of server and load are kept: links, exclusions and `--only`, each reduced to one small number for every
//! configuration of a side, so that judging a pair is a comparison of integers.

use super::space::Space;
use crate::plan::{Condition, ParamRef, Side, equality_key};
use std::collections::{HashMap, HashSet};

/// A value that agrees with nothing.
const NEVER: u32 = u32::MAX;

/// The configurations of both sides.
#[derive(Debug, Clone)]
pub(super) struct Sides {
    pub serve: Space,
    pub bench: Space,
}

impl Sides {
    pub fn of(&self, side: Side) -> &Space {
        match side {
            Side::Serve => &self.serve,
            Side::Bench => &self.bench,
        }
    }
}

/// Keeps the pairs in which both sides have the same number; a side without numbers takes no part.
#[derive(Debug, Clone)]
pub(super) struct Agreement {
    serve: Option<Vec<u32>>,
    bench: Option<Vec<u32>>,
}

impl Agreement {
    /// All parameters of the group have equal values.
    pub fn of_values(group: &[ParamRef], sides: &Sides) -> Agreement {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut keys = |side: Side| {
            let names: Vec<&str> = names_of(group, side).collect();
            let space = sides.of(side);
            let key = |index: usize| common_value(space, index, &names);
            let mut numbered = |key: Option<String>| {
                let next = numbers.len() as u32;
                key.map_or(NEVER, |key| *numbers.entry(key).or_insert(next))
            };
            (!names.is_empty()).then(|| (0..space.len()).map(|index| numbered(key(index))).collect())
        };
        let (serve, bench) = (keys(Side::Serve), keys(Side::Bench));
        Agreement { serve, bench }
    }

    /// All axes of the group are at the same position; `None` if the group does not span both sides.
    pub fn of_positions(group: &[ParamRef], sides: &Sides) -> Option<Agreement> {
        let positions = |side: Side| {
            let space = sides.of(side);
            let dimension = names_of(group, side).next().and_then(|name| space.dimension(name))?;
            Some(
                (0..space.len())
                    .map(|index| space.position(index, dimension) as u32)
                    .collect(),
            )
        };
        let (serve, bench) = (positions(Side::Serve)?, positions(Side::Bench)?);
        Some(Agreement {
            serve: Some(serve),
            bench: Some(bench),
        })
    }

    pub fn keeps(&self, serve: usize, bench: usize) -> bool {
        match (&self.serve, &self.bench) {
            (Some(of_serve), Some(of_bench)) => of_serve[serve] != NEVER && of_serve[serve] == of_bench[bench],
            (Some(of_serve), None) => of_serve[serve] != NEVER,
            (None, Some(of_bench)) => of_bench[bench] != NEVER,
            (None, None) => true,
        }
    }

    /// Whether any pair at all is kept.
    pub fn is_possible(&self) -> bool {
        match (&self.serve, &self.bench) {
            (Some(of_serve), Some(of_bench)) => {
                let values: HashSet<u32> = of_bench.iter().copied().filter(|value| *value != NEVER).collect();
                of_serve.iter().any(|value| values.contains(value))
            }
            (Some(values), None) | (None, Some(values)) => values.iter().any(|value| *value != NEVER),
            (None, None) => true,
        }
    }
}

fn names_of(group: &[ParamRef], side: Side) -> impl Iterator<Item = &str> {
    group
        .iter()
        .filter(move |param| param.side == side)
        .map(|param| param.name.as_str())
}

/// What all the parameters have in common, as a key; `None` if they differ or one is missing.
fn common_value(space: &Space, index: usize, names: &[&str]) -> Option<String> {
    let mut keys = names
        .iter()
        .map(|name| space.value(index, name).map(|value| equality_key(&value)));
    let first = keys.next()??;
    keys.all(|key| key.as_ref() == Some(&first)).then_some(first)
}

/// The pairs for which all conditions hold.
#[derive(Debug, Clone)]
pub(super) struct Match {
    serve: Vec<bool>,
    bench: Vec<bool>,
}

impl Match {
    pub fn new(conditions: &[Condition], sides: &Sides) -> Match {
        let on = |side: Side| {
            let space = sides.of(side);
            let own: Vec<&Condition> = conditions
                .iter()
                .filter(|condition| condition.param.side == side)
                .collect();
            let holds = |index: usize| own.iter().all(|condition| holds_at(condition, space, index));
            (0..space.len()).map(holds).collect()
        };
        Match {
            serve: on(Side::Serve),
            bench: on(Side::Bench),
        }
    }

    pub fn holds(&self, serve: usize, bench: usize) -> bool {
        self.serve[serve] && self.bench[bench]
    }

    /// Whether it holds for any pair at all.
    pub fn is_possible(&self) -> bool {
        self.serve.contains(&true) && self.bench.contains(&true)
    }
}

/// A parameter that a combination does not have meets no condition.
fn holds_at(condition: &Condition, space: &Space, index: usize) -> bool {
    let value = space.value(index, &condition.param.name);
    value.is_some_and(|value| condition.op.holds(&value, &condition.value))
}
