//! Finds conflicting parameters: axes that a combination sets too, zipped axes, derived values, loads that a search varies, and short forms
//! of flags. The checks work on the plan as typed, so that these problems are reported together with all others.

use crate::{
    Axis, Combo, Derived, Diagnostics, Node, Plan, Problem, Program, ServeCommand, Side, Target, number,
    number_or_text, spelling, suggest,
};
use serde_json::Value;
use vsweep_strategy::search::Vary;

/// The loads that a search or an exploration may vary.
const VARIED: [Vary; 2] = [Vary::MaxConcurrency, Vary::RequestRate];

/// Reports every conflict. Settings that could not be read were reported earlier, and are skipped.
pub(crate) fn check(plan: &Plan, may_lack_some: bool, found: &mut Diagnostics) {
    for side in [Side::Serve, Side::Bench] {
        for (name, axis) in plan.params(side) {
            match axis {
                Axis::Fixed(_) => {}
                // The parameter that it follows may be in a file that could not be read.
                Axis::Derived(_) if may_lack_some => {}
                Axis::Values(_) => check_against_combos(plan, side, name, found),
                Axis::Derived(derived) => {
                    if let Err(problem) = check_derived(plan, side, name, derived) {
                        let span = plan.origin.value_span(&[side.table(), "params", name, "per"]);
                        found.add(problem.at(span));
                    }
                }
            }
        }
    }
    check_zips(plan, found);
    check_searched(plan, found);
    check_short_names(plan, found);
}

/// Rejects a value for a parameter that a search or an exploration decides, and a second limit of a load that a search varies.
fn check_searched(plan: &Plan, found: &mut Diagnostics) {
    if let Some(sla) = &plan.sla {
        let name = sla.vary.name();
        let message = format!("the search of [sla] varies `{name}`, so the plan cannot set it too");
        let remedy = "remove it here, and bound it with `min` and `max` in [sla]; or remove [sla]";
        refuse_if_set(plan, name, |_| true, Problem::of(message, remedy), found);
        for other in VARIED.map(Vary::name).into_iter().filter(|other| *other != name) {
            let message =
                format!("`{other}` limits the load too, and the search of [sla] looks for the highest `{name}`");
            let remedy = format!("remove it here, or search for its highest value with vary = \"{other}\"");
            let is_limit = |value: &Value| number_or_text(value).is_some_and(f64::is_finite);
            refuse_if_set(plan, other, is_limit, Problem::of(message, remedy), found);
        }
    }
    if plan.explore.is_some() {
        for name in VARIED.map(Vary::name) {
            let message = format!("[explore] decides `{name}`, so the plan cannot set it too");
            let remedy = "remove it here; [explore] has `max_concurrency` for the most requests in flight";
            refuse_if_set(plan, name, |_| true, Problem::of(message, remedy), found);
        }
    }
}

/// The load that a search or an exploration varies.
fn varied(plan: &Plan) -> Option<Vary> {
    let searched = plan.sla.as_ref().map(|sla| sla.vary);
    searched.or(plan.explore.as_ref().map(|explore| explore.vary))
}

/// Returns true if a search or an exploration varies this parameter, or may do so but could not be read.
fn may_vary(plan: &Plan, name: &str) -> bool {
    let is = |vary: Vary| spelling::same(vary.name(), name);
    match varied(plan) {
        Some(vary) => is(vary),
        None => [["sla"], ["explore"]].iter().any(|table| plan.origin.has(table)) && VARIED.into_iter().any(is),
    }
}

/// Adds `problem` if the plan sets a parameter, to a value that is not allowed, although something else decides it.
fn refuse_if_set(plan: &Plan, name: &str, is_wrong: fn(&Value) -> bool, problem: Problem, found: &mut Diagnostics) {
    let sets = |combo: &Combo| spelling::find(&combo.params, name).is_some_and(is_wrong);
    let place = match plan.param(Side::Bench, name) {
        Some((typed, axis)) => {
            let is_set = matches!(axis, Axis::Derived(_)) || axis.values().iter().any(is_wrong);
            is_set.then(|| plan.origin.key_span(&["bench", "params", typed]))
        }
        None => {
            let combo = plan.combos(Side::Bench).iter().position(sets);
            combo.map(|position| plan.origin.combo_span(Side::Bench, position, None))
        }
    };
    if let Some(place) = place {
        found.add(problem.at(place));
    }
}

/// Rejects an axis whose parameter a combination sets too.
fn check_against_combos(plan: &Plan, side: Side, axis: &str, found: &mut Diagnostics) {
    let sets = |combo: &&Combo| spelling::find(&combo.params, axis).is_some();
    if let Some(combo) = plan.combos(side).iter().find(sets) {
        let by = match &combo.name {
            Some(name) => format!("the combination `{name}`"),
            None => String::from("a combination"),
        };
        let span = plan.origin.key_span(&[side.table(), "params", axis]);
        let remedy = "make it a fixed value, or leave it out of the combinations";
        found.object(span, format!("`{axis}` is an axis, and {by} sets it too"), remedy);
    }
}

/// Checks that the members of each zip group are axes of equal length, and that each is in only one group.
fn check_zips(plan: &Plan, found: &mut Diagnostics) {
    for (position, group) in plan.link.zip.iter().enumerate() {
        let position_shown = position.to_string();
        let span = |member: usize| {
            let path = ["link", "zip", &position_shown, &member.to_string()];
            plan.origin.value_span(&path)
        };
        let mut expected: Option<(usize, usize)> = None;
        for (member, param) in group.iter().enumerate() {
            if plan.link.zip[..position].iter().any(|earlier| earlier.contains(param)) {
                let message = format!("`{param}` is in two zip groups");
                found.object(span(member), message, "put all its partners into one group");
            }
            let length = match plan.param(param.side, &param.name) {
                None => continue,
                Some((_, Axis::Values(values))) => values.len(),
                Some((_, Axis::Fixed(_) | Axis::Derived(_))) => {
                    let message = format!("`{param}` has one value, so it cannot advance with others");
                    let remedy = "give it a list of values, or remove it here";
                    found.object(span(member), message, remedy);
                    continue;
                }
            };
            let (first, first_length) = *expected.get_or_insert((member, length));
            if first_length != length {
                let message = format!("`{param}` has {length} values, `{}` has {first_length}", group[first]);
                let problem = Problem::new(span(member), message, "give both the same number of values");
                found.add(problem.and(span(first), "advances with this"));
            }
        }
    }
}

/// Checks that a derived value can be computed from every value that its source may have.
fn check_derived(plan: &Plan, side: Side, name: &str, derived: &Derived) -> Result<(), Problem> {
    let per = &derived.per;
    let combos = plan.combos(side);
    let of_combos = combos.iter().filter_map(|combo| spelling::find(&combo.params, per));
    let of_combos: Vec<&Value> = of_combos.collect();
    let is_varied = side == Side::Bench && may_vary(plan, per);
    let axis_values: &[Value] = match plan.param(side, per) {
        Some((_, Axis::Derived(_))) => {
            let remedy = "follow a parameter that has values of its own";
            return Err(Problem::of(format!("`{per}` is itself derived"), remedy));
        }
        Some((_, axis)) => axis.values(),
        None if of_combos.is_empty() && is_varied => &[],
        None if of_combos.is_empty() => return unknown_source(plan, side, name, per),
        None if of_combos.len() == combos.len() => &[],
        None => {
            let message = format!("not every combination has a `{per}` to follow");
            let remedy = format!("give the others one, or write a fixed `{per}` for them");
            return Err(Problem::of(message, remedy));
        }
    };
    let mut values = axis_values.iter().chain(of_combos);
    match values.find(|value| derived.value(name, value).is_none()) {
        None => Ok(()),
        Some(value) if number(value).is_some() => {
            Err(Problem::of(format!("`{name}` would be unlimited"), "give it a max"))
        }
        Some(value) => {
            let message = format!("`{per}` takes the value {value}, which is not a number");
            Err(Problem::of(message, "follow a parameter of numbers"))
        }
    }
}

/// Returns the problem of a derived value whose source has no value, unless the plan gives the source in an unreadable form.
fn unknown_source(plan: &Plan, side: Side, name: &str, per: &str) -> Result<(), Problem> {
    let table = plan.origin.root.child(side.table());
    let params = table.and_then(|table| table.child("params"));
    let typed = params.map(Node::entries).unwrap_or_default();
    let typed = || typed.iter().map(|entry| entry.key.as_str());
    if typed().any(|typed| spelling::same(typed, per)) {
        return Ok(());
    }
    Err(match Side::split(per) {
        Some((named, bare)) => {
            let message = format!("`{per}` names a side, but a value follows a parameter of its own table");
            let table = side.table();
            let remedy = match named == side {
                true => format!("write `{bare}`"),
                false => format!("follow a parameter of [{table}.params], or tie the two with [link]"),
            };
            Problem::of(message, remedy)
        }
        None => {
            let combos = plan.combos(side).iter();
            let of_combos = combos.flat_map(|combo| combo.params.keys().map(String::as_str));
            let known = typed().chain(of_combos).filter(|known| *known != name);
            let message = format!("no parameter of this table is called `{per}`");
            Problem::of(message, suggest(per, known))
        }
    })
}

/// Rejects short names of parameters, such as `tp`, if every server is vLLM, which has no long flags of these names. The meaning of such
/// names for other servers is unknown.
fn check_short_names(plan: &Plan, found: &mut Diagnostics) {
    let Target::Launch(commands) = &plan.serve.target else {
        return;
    };
    let is_vllm =
        |command: &[String]| matches!(ServeCommand::of(command).program(), Program::Vllm | Program::Simulator);
    if !commands.iter().all(is_vllm) {
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
