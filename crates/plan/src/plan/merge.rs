//! Laying one tree over another: a plan over the one it extends, `--set` over the plan.

use super::node::{Entry, Kind, Node};

/// Keys of which a table has one at most: giving one puts the others of the base out of force.
const ALTERNATIVES: [[&str; 2]; 2] = [["command", "url"], ["command", "runner"]];

/// `over` laid over `base`. Tables merge key by key; everything else, and the value of each single parameter, is
/// replaced whole, so that a range never mixes with another.
pub fn merge(base: &mut Node, over: Node) {
    merge_below(base, over, false);
}

fn merge_below(base: &mut Node, over: Node, in_params: bool) {
    let (Kind::Table(old), Kind::Table(new)) = (&mut base.kind, &over.kind) else {
        *base = over;
        return;
    };
    for pair in ALTERNATIVES {
        for (given, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let gives = |key: &str| new.iter().any(|entry| entry.key == key);
            if !in_params && gives(given) && !gives(other) {
                old.retain(|entry| entry.key != other);
            }
        }
    }
    let Kind::Table(new) = over.kind else {
        return;
    };
    base.span = over.span;
    for Entry { key, key_span, value } in new {
        match old.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => {
                entry.key_span = key_span;
                match in_params {
                    true => entry.value = value,
                    false => merge_below(&mut entry.value, value, key == "params"),
                }
            }
            None => old.push(Entry { key, key_span, value }),
        }
    }
}
