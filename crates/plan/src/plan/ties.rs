//! Which parameters a plan can give at once and under which names: combinations against axes, zipped axes, values that follow others,
//! short forms of flags. Checked on the plan as typed, so that these problems are told together with all others.

use super::node::Node;
use super::problem::{Diagnostics, Problem, suggest};
use super::{Axis, Combo, Derived, ParamRef, Plan, Program, ServeCommand, Side, Target, number, spelling};
use serde_json::Value;
use vsweep_strategy::search::Vary;

/// Reports every contradiction. What could not be read has been reported already and is passed over.
pub(super) fn check(plan: &Plan, found: &mut Diagnostics) {
    for side in [Side::Serve, Side::Bench] {
        for (name, axis) in plan.params(side) {
            match axis {
                Axis::Fixed(_) => {}
                Axis::Values(_) => against_combos(plan, side, name, found),
                Axis::Derived(derived) => {
                    if let Err((message, remedy)) = follow(plan, side, name, derived) {
                        let span = plan.origin.value_span(&[side.table(), "params", name, "per"]);
                        found.object(span, message, remedy);
                    }
                }
            }
        }
    }
    zips(plan, found);
    searched(plan, found);
    short_names(plan, found);
}

/// What a search or an exploration decides has no value of its own.
fn searched(plan: &Plan, found: &mut Diagnostics) {
    if let Some(sla) = &plan.sla {
        let name = sla.vary.name();
        let message = format!("the search of [sla] varies `{name}`, so the plan cannot set it too");
        let remedy = "remove it here, and bound it with `min` and `max` in [sla]; or remove [sla]";
        decided(plan, name, &message, remedy, found);
    }
    if plan.explore.is_some() {
        for name in [Vary::MaxConcurrency, Vary::RequestRate].map(Vary::name) {
            let message = format!("[explore] decides `{name}`, so the plan cannot set it too");
            let remedy = "remove it here; [explore] has `max_concurrency` for the most requests in flight";
            decided(plan, name, &message, remedy, found);
        }
    }
}

/// The load that a search or an exploration varies.
fn varied(plan: &Plan) -> Option<Vary> {
    let searched = plan.sla.as_ref().map(|sla| sla.vary);
    searched.or(plan.explore.as_ref().map(|explore| explore.vary))
}

/// Objects to a value of a parameter that is decided elsewhere.
fn decided(plan: &Plan, name: &str, message: &str, remedy: &str, found: &mut Diagnostics) {
    let bench = plan.params(Side::Bench).iter();
    if let Some((typed, _)) = bench.into_iter().find(|(typed, _)| spelling::same(typed, name)) {
        let span = plan.origin.key_span(&["bench", "params", typed]);
        found.object(span, message, remedy);
        return;
    }
    let combos = plan.combos(Side::Bench);
    let sets = |combo: &Combo| spelling::find(&combo.params, name).is_some();
    if let Some(position) = combos.iter().position(sets) {
        let span = plan.origin.combo_span(Side::Bench, position, None);
        found.object(span, message, remedy);
    }
}

/// An axis and a combination that both set one parameter would contradict each other.
fn against_combos(plan: &Plan, side: Side, axis: &str, found: &mut Diagnostics) {
    let sets = |combo: &&Combo| spelling::find(&combo.params, axis).is_some();
    if let Some(combo) = plan.combos(side).iter().find(sets) {
        let name = combo.name.as_ref();
        let by = name.map_or(String::from("a combination"), |name| {
            format!("the combination `{name}`")
        });
        let span = plan.origin.key_span(&[side.table(), "params", axis]);
        let remedy = "make it a fixed value, or leave it out of the combinations";
        found.object(span, format!("`{axis}` is an axis, and {by} sets it too"), remedy);
    }
}

/// Members of a zip are axes of one length, each in one group.
fn zips(plan: &Plan, found: &mut Diagnostics) {
    for (position, group) in plan.link.zip.iter().enumerate() {
        let span = |member: usize| {
            plan.origin
                .value_span(&["link", "zip", &position.to_string(), &member.to_string()])
        };
        let mut expected: Option<(usize, usize)> = None;
        for (member, param) in group.iter().enumerate() {
            if plan.link.zip[..position].iter().any(|earlier| earlier.contains(param)) {
                let message = format!("`{param}` is in two zip groups");
                found.object(span(member), message, "put all its partners into one group");
            }
            if !plan.params(param.side).iter().any(|(name, _)| *name == param.name) {
                continue;
            }
            let Some(length) = axis_length(plan, param) else {
                let message = format!("`{param}` has one value, so it cannot advance with others");
                let remedy = "give it a list of values, or remove it here";
                found.object(span(member), message, remedy);
                continue;
            };
            match expected {
                None => expected = Some((member, length)),
                Some((first, other)) if other != length => {
                    let message = format!("`{param}` has {length} values, `{}` has {other}", group[first]);
                    let problem = Problem::new(span(member), message, "give both the same number of values");
                    found.add(problem.and(span(first), "advances with this"));
                }
                Some(_) => {}
            }
        }
    }
}

fn axis_length(plan: &Plan, param: &ParamRef) -> Option<usize> {
    plan.params(param.side).iter().find_map(|(name, axis)| match axis {
        Axis::Values(values) if *name == param.name => Some(values.len()),
        _ => None,
    })
}

/// Looks at every value that a derived one may follow.
fn follow(plan: &Plan, side: Side, name: &str, derived: &Derived) -> Result<(), (String, String)> {
    let per = &derived.per;
    let axis = plan
        .params(side)
        .iter()
        .find(|(other, _)| spelling::same(other, per))
        .map(|(_, axis)| axis);
    let combos = plan.combos(side);
    let of_combos: Vec<&Value> = combos
        .iter()
        .filter_map(|combo| spelling::find(&combo.params, per))
        .collect();
    let own: &[Value] = match axis {
        Some(Axis::Derived(_)) => {
            let remedy = "follow a parameter that has values of its own";
            return Err((format!("`{per}` is itself derived"), remedy.into()));
        }
        Some(Axis::Fixed(value)) => std::slice::from_ref(value),
        Some(Axis::Values(values)) => values,
        None if !of_combos.is_empty() && of_combos.len() == combos.len() => &[],
        None if !of_combos.is_empty() => {
            let message = format!("not every combination has a `{per}` to follow");
            return Err((
                message,
                format!("give the others one, or write a fixed `{per}` for them"),
            ));
        }
        None if side == Side::Bench && varied(plan).is_some_and(|vary| spelling::same(vary.name(), per)) => &[],
        None => {
            let typed = typed_names(plan, side);
            if typed.iter().any(|typed| spelling::same(typed, per)) {
                return Ok(());
            }
            if let Some((named @ ("serve" | "bench"), bare)) = per.split_once('.') {
                let message = format!("`{per}` names a side, but a value follows a parameter of its own table");
                let remedy = match named == side.table() {
                    true => format!("write `{bare}`"),
                    false => format!(
                        "follow a parameter of [{}.params], or tie the two with [link]",
                        side.table()
                    ),
                };
                return Err((message, remedy));
            }
            let of_combos = combos.iter().flat_map(|combo| combo.params.keys().map(String::as_str));
            let known = typed.into_iter().chain(of_combos).filter(|known| *known != name);
            return Err((
                format!("no parameter of this table is called `{per}`"),
                suggest(per, known),
            ));
        }
    };
    match own
        .iter()
        .chain(of_combos)
        .find(|value| derived.value(name, value).is_none())
    {
        None => Ok(()),
        Some(value) if number(value).is_some() => Err((format!("`{name}` would be unlimited"), "give it a max".into())),
        Some(value) => {
            let message = format!("`{per}` takes the value {value}, which is not a number");
            Err((message, "follow a parameter of numbers".into()))
        }
    }
}

/// The parameters of a side as written, also those whose values could not be read.
fn typed_names(plan: &Plan, side: Side) -> Vec<&str> {
    let table = plan.origin.root.child(side.table());
    let params = table.and_then(|table| table.child("params"));
    let entries = params.map(Node::entries).unwrap_or_default();
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

/// Refuses short names of parameters where the server is vLLM, which has no long flag of that name; what they mean to
/// other servers is not known.
fn short_names(plan: &Plan, found: &mut Diagnostics) {
    let Target::Launch(commands) = &plan.serve.target else {
        return;
    };
    if commands
        .iter()
        .any(|command| matches!(ServeCommand::of(command).program(), Program::Other | Program::Sglang))
    {
        return;
    }
    let mut refuse = |name: &str, span| {
        if let Some(long) = spelling::long_name(name).filter(|_| !name.starts_with('-')) {
            let message = format!("`{name}` is a short form; as a parameter it would become the flag --{name}");
            found.object(span, message, format!("write `{long}`"));
        }
    };
    for (name, _) in plan.params(Side::Serve) {
        refuse(name, plan.origin.key_span(&["serve", "params", name]));
    }
    for (position, combo) in plan.combos(Side::Serve).iter().enumerate() {
        for name in combo.params.keys() {
            refuse(name, plan.origin.combo_span(Side::Serve, position, Some(name)));
        }
    }
}
