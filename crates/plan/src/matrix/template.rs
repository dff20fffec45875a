//! The text of a load's identity, with gaps for the parameters that vary: of a million loads most is the same. Plans whose loads differ in
//! more than single parameters have no template.

use super::identity::{LoadContent, SharedLoad, members};
use super::space::{Slot, Space};
use crate::{Axis, BenchRunner, MIX, Params, Plan, Secrets};
use serde_json::Value;
use std::borrow::Cow;

/// The content of every load of a plan.
#[derive(Debug, Clone)]
pub(super) struct LoadTemplate {
    pieces: Vec<Piece>,
    frame: LoadContent,
}

#[derive(Debug, Clone)]
enum Piece {
    /// The members that are the same in all loads.
    Fixed(String),
    /// A parameter that varies.
    Varied {
        /// Its place among the slots.
        slot: usize,
        /// Its name as the key of a member.
        key: String,
        /// True if its name announces a secret.
        is_secret: bool,
    },
}

impl LoadTemplate {
    /// The template of a plan's loads, if they have one.
    pub fn of(plan: &Plan, space: &Space, shared: &SharedLoad, secrets: &Secrets) -> Option<LoadTemplate> {
        let is_plain = |slot: &Slot| match &slot.axis {
            Axis::Fixed(_) => true,
            Axis::Values(_) => !shared.decides_dataset(&slot.name),
            // One that follows a derived one depends on the order.
            Axis::Derived(derived) => space.derived(&derived.per).is_none() && !shared.decides_dataset(&slot.name),
        };
        let names: Vec<String> = space.slots.iter().map(|slot| secrets.redact(&slot.name)).collect();
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|at| &names[*at]);
        let are_distinct = order.windows(2).all(|pair| names[pair[0]] != names[pair[1]]);
        let is_command = matches!(plan.bench.runner, BenchRunner::Command(_));
        let has_mix = space.slot(MIX).is_some();
        if is_command || has_mix || !space.combos.is_empty() || !are_distinct || !space.slots.iter().all(is_plain) {
            return None;
        }
        let fixed = |slot: &Slot| match &slot.axis {
            Axis::Fixed(value) => Some((slot.name.clone(), value.clone())),
            _ => None,
        };
        let all_fixed: Params = space.slots.iter().filter_map(fixed).collect();
        let piece = |at: usize| match &space.slots[at] {
            Slot {
                name,
                axis: Axis::Fixed(value),
                ..
            } => Piece::Fixed(member(name, value.clone(), secrets)),
            Slot { name, .. } => Piece::Varied {
                slot: at,
                key: format!("{}:", Value::from(names[at].as_str())),
                is_secret: secrets.announces(name),
            },
        };
        Some(LoadTemplate {
            pieces: order.into_iter().map(piece).collect(),
            frame: shared.frame(&all_fixed, None, secrets),
        })
    }

    /// The content of the load at an index.
    pub fn content(&self, space: &Space, index: usize, secrets: &Secrets) -> LoadContent {
        let texts = self.pieces.iter().map(|piece| match piece {
            Piece::Fixed(text) => Cow::Borrowed(text.as_str()),
            Piece::Varied { slot, key, is_secret } => {
                let name = &space.slots[*slot].name;
                match space.value(index, name).as_deref() {
                    Some(Value::Number(number)) if !is_secret => Cow::Owned(format!("{key}{number}")),
                    value => Cow::Owned(member(name, value.cloned().unwrap_or_default(), secrets)),
                }
            }
        });
        self.frame.with(texts)
    }
}

fn member(name: &str, value: Value, secrets: &Secrets) -> String {
    members(&Params::from_iter([(name.to_owned(), value)]), secrets)
}
