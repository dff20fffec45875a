//! A plan names parameters by their long flags only, so
//! that one setting has one name in tables and one flag in command lines.

use super::problem::Found;
use super::spelling::long_name;
use super::{Plan, Program, ServeCommand, Side, Target};

/// Refuses short names of parameters where the server is vLLM, which has no long flag of that name; what they mean to
/// other servers is not known.
pub(super) fn check(plan: &Plan, found: &mut Found) {
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
        if let Some(long) = long_name(name).filter(|_| !name.starts_with('-')) {
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
