//! From a plan to its matrix: both sides' spaces are laid out, tied axes share a dimension, and everything that can only
//! be judged together is checked.

use super::check::{self, MOST_PAIRS};
use super::filter::{Agreement, Match, Sides};
use super::identity::{SharedLoad, file_digest};
use super::space::{Slot, Space};
use super::starved;
use super::{Matrix, Removed};
use crate::plan::{Axis, BenchRunner, Combo, Condition, Diagnostics, Link, ParamRef, Plan, Side, Warmup, spelling};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

/// Whether a plan has no more pairs than a matrix may hold.
pub(super) fn fits(plan: &Plan) -> bool {
    check::pairs(&space(plan, Side::Serve), &space(plan, Side::Bench)).is_some_and(|pairs| pairs <= MOST_PAIRS)
}

/// Expands a plan; see [`Matrix::draft`].
pub(super) fn expand(plan: &Plan, found: &mut Diagnostics) -> Option<Matrix> {
    let is_whole = found.is_empty();
    let mut serve = space(plan, Side::Serve);
    let mut bench = space(plan, Side::Bench);
    tell_apart(&mut serve, &mut bench);
    if !check::size(plan, &serve, &bench, found) {
        return None;
    }
    let sides = Sides { serve, bench };
    let (links, mut removed) = links(plan, &sides);
    let mut exclusions = Vec::with_capacity(plan.exclude.len());
    for (position, exclusion) in plan.exclude.iter().enumerate() {
        let shown: Vec<String> = exclusion.iter().map(ToString::to_string).collect();
        removed.push(Removed {
            text: format!("exclude {}", shown.join(" and ")),
            pairs: 0,
        });
        let matched = Match::new(exclusion, &sides);
        let is_read = |condition: &Condition| {
            let params = plan.params(condition.param.side);
            params.iter().any(|(name, _)| *name == condition.param.name)
        };
        if !matched.is_possible() && (is_whole || exclusion.iter().all(is_read)) {
            let span = plan.origin.value_span(&["exclude", &position.to_string()]);
            let remedy = "correct a condition, or remove the block";
            found.object(span, "this exclusion matches nothing", remedy);
        }
        exclusions.push(matched);
    }
    let mut matrix = Matrix {
        load: load(plan, &sides.bench),
        starts: fewest_starts(plan, sides.serve.len()),
        sides,
        links,
        exclusions,
        only: Vec::new(),
        points_of_server: Vec::new(),
        servers_by_id: OnceLock::new(),
        removed,
        secrets: plan.secrets.of_plan(),
        plan: plan.clone(),
    };
    check::duplicates(plan, &matrix, found);
    matrix.count();
    if is_whole {
        check::leftovers(plan, &matrix, found);
        check::rates(plan, &matrix, found);
        check::reach(plan, &matrix, found);
        check::comparison(plan, &matrix, found);
        starved::warn(plan, &matrix, found);
    }
    Some(matrix)
}

/// Starts of each server that the plan takes in any case. A comparison looks first after four pairs, an axis after two starts of
/// either end.
fn fewest_starts(plan: &Plan, servers: usize) -> u32 {
    match (&plan.compare, servers) {
        (None, _) => plan.starts,
        (Some(_), 2) => 4,
        (Some(_), _) => 1,
    }
}

/// Gives parameters that are on both sides a name with their side where people read it.
fn tell_apart(serve: &mut Space, bench: &mut Space) {
    let names = |space: &Space| -> Vec<String> { space.names().into_iter().map(String::from).collect() };
    let (of_serve, of_bench) = (names(serve), names(bench));
    for name in &of_serve {
        if let Some(other) = of_bench.iter().find(|other| spelling::same(name, other)) {
            serve.shown_as.insert(name.clone(), format!("serve.{name}"));
            bench.shown_as.insert(other.clone(), format!("bench.{other}"));
        }
    }
}

/// The combinations of one side, a parameter that is spelled in several ways everywhere as it is spelled first.
fn combos(plan: &Plan, side: Side) -> Vec<Combo> {
    let mut spelled: HashMap<String, String> = HashMap::new();
    for (name, _) in plan.params(side) {
        spelled.insert(spelling::canonical(name), name.clone());
    }
    let mut respell = |(name, value): (&String, &Value)| {
        let first = spelled.entry(spelling::canonical(name)).or_insert_with(|| name.clone());
        (first.clone(), value.clone())
    };
    let respelled = plan.combos(side).iter().map(|combo| Combo {
        name: combo.name.clone(),
        params: combo.params.iter().map(&mut respell).collect(),
    });
    respelled.collect()
}

/// The space of one side, its tied axes sharing a dimension.
fn space(plan: &Plan, side: Side) -> Space {
    let mut space = Space {
        combos: combos(plan, side),
        ..Space::default()
    };
    if !space.combos.is_empty() {
        space.lengths.push(space.combos.len());
    }
    let mut zipped: HashMap<usize, usize> = HashMap::new();
    for (name, axis) in plan.params(side) {
        let slot = match axis {
            Axis::Fixed(value) => Slot::Fixed(value.clone()),
            Axis::Values(values) => {
                let group = zip_group(&plan.link, side, name);
                let dimension = match group.and_then(|group| zipped.get(&group)) {
                    Some(dimension) => *dimension,
                    None => {
                        space.lengths.push(values.len());
                        space.lengths.len() - 1
                    }
                };
                if let Some(group) = group {
                    zipped.insert(group, dimension);
                }
                Slot::Axis {
                    dimension,
                    values: values.clone(),
                }
            }
            Axis::Derived(derived) => Slot::Derived(derived.clone()),
        };
        space.slots.push((name.clone(), slot));
    }
    space
}

fn zip_group(link: &Link, side: Side, name: &str) -> Option<usize> {
    let member = |param: &ParamRef| param.side == side && param.name == name;
    link.zip.iter().position(|group| group.iter().any(member))
}

/// The filters that the links amount to, and what each is called.
fn links(plan: &Plan, sides: &Sides) -> (Vec<Agreement>, Vec<Removed>) {
    let named = |kind: &str, group: &[ParamRef]| Removed {
        text: format!(
            "{kind} {}",
            group.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ),
        pairs: 0,
    };
    let equal = plan
        .link
        .equal
        .iter()
        .map(|group| (Agreement::of_values(group, sides), named("equal", group)));
    let across =
        plan.link.zip.iter().filter_map(|group| {
            Agreement::of_positions(group, sides).map(|agreement| (agreement, named("zip", group)))
        });
    equal.chain(across).unzip()
}

fn load(plan: &Plan, bench: &Space) -> SharedLoad {
    let mut datasets = BTreeMap::new();
    let varies = bench
        .slots
        .iter()
        .any(|(name, slot)| spelling::same(name, "dataset_path") && matches!(slot, Slot::Axis { .. }));
    let of_combos = bench
        .combos
        .iter()
        .any(|combo| spelling::find(&combo.params, "dataset_path").is_some());
    let looked_at = match varies || of_combos {
        true => bench.len(),
        false => bench.len().min(1),
    };
    for index in 0..looked_at {
        let value = bench.value(index, "dataset_path");
        if let Some(path) = value.as_deref().and_then(Value::as_str)
            && !datasets.contains_key(path)
            && let Some(digest) = file_digest(path)
        {
            datasets.insert(path.to_string(), digest);
        }
    }
    let env = match plan.bench.runner {
        BenchRunner::Command(_) => plan.bench.env.clone(),
        _ => BTreeMap::new(),
    };
    SharedLoad {
        runner: match plan.bench.runner {
            BenchRunner::Native => None,
            ref other => other.name(),
        },
        env,
        warmup_prompts: match plan.bench.warmup {
            Warmup::Automatic => None,
            Warmup::Requests(count) => Some(count),
        },
        datasets,
    }
}
