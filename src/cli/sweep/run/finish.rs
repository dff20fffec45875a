//! The command of `[on_finish]`: when it runs, and the warning if it fails.

use crate::agenda::Ending;
use crate::cli::{machine, output};
use crate::error::{Exit, Result};
use crate::journal::Directory;
use crate::plan::Plan;
use crate::run::{Interrupt, on_finish};

/// Runs the command, if the plan has one and the session did anything. Pressing Ctrl-C again ends it.
pub fn follow(plan: &Plan, directory: &Directory, ended: &Result<(Ending, Exit)>, interrupt: &mut Interrupt) {
    let Some(hook) = &plan.on_finish else { return };
    let ending = match ended {
        Ok((Ending::NothingLeft, _)) => return,
        Ok((ending, exit)) => (ending.reason(), *exit),
        Err(_) => ("error", Exit::CannotGoOn),
    };
    let Ok(runtime) = machine::runtime() else { return };
    let interrupted = interrupt.pressed_again();
    let done = on_finish::perform(hook, &plan.secrets, directory, ending, interrupted);
    if let Err(why) = runtime.block_on(done) {
        output::print_note(why);
    }
}
