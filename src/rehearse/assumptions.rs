//! The assumptions of a rehearsal.

use super::load::overhead_s;
use super::{ModelledServer, Options, Unknown};
use crate::plan::{BenchRunner, Offline, Plan, Runs};
use crate::run::capacity;
use crate::units::{show_duration, show_many};
use minijinja::{Environment, Value, context};

/// The template of the assumptions, one sentence per line.
const ASSUMPTIONS: &str = include_str!("assumptions.jinja");

/// Returns the assumptions of a rehearsal, as sentences. `unfitted` is the reason why measured runs do not calibrate it.
pub(super) fn assumptions(
    plan: &Plan,
    stand_in: &ModelledServer,
    options: &Options,
    unfitted: Option<&Unknown>,
) -> Vec<String> {
    let cost = stand_in.settings.as_ref().map(|settings| &settings.cost);
    let runner = &plan.bench.runner;
    let capacity = capacity(&plan.exec, options.gpus);
    let rule = match &plan.runs {
        Runs::Until { rule, .. } => Some(rule),
        _ => None,
    };
    let commands = match runner {
        BenchRunner::Command(commands) => commands.iter().filter(|command| !command.is_empty()).collect(),
        _ => Vec::new(),
    };
    let command = |command: &[String]| {
        let seconds = overhead_s(Some(command)).map(|seconds| format!("{seconds:.0}"));
        context! { program => &*command[0], seconds }
    };
    let values = context! {
        is_real => !stand_in.is_simulator,
        gpu => cost.map(|cost| cost.gpu.name),
        is_calibrated => stand_in.calibrated.is_some(),
        unfitted => unfitted.map(Unknown::to_string),
        gpu_source => options.card.map_or("", |card| card.source),
        billions => cost.map(|cost| format!("{:.1}", cost.model.parameters / 1e9)),
        is_unknown => cost.is_none() && stand_in.failure.is_none(),
        gpus => capacity.map(|capacity| match capacity.gpus {
            0 => "no GPUs".to_owned(),
            gpus => show_many(u64::from(gpus), "GPU"),
        }),
        gpus_source => options.gpus_source,
        not_played => runner.name().filter(|_| matches!(runner, BenchRunner::Iterations | BenchRunner::Phases)),
        offline => runner.offline().map(Offline::subcommand),
        fewest_runs => rule.map(|rule| rule.min),
        most_runs => rule.map(|rule| rule.max),
        most_starts => plan.compare.as_ref().map(|compare| compare.max_starts),
        optimized => plan.optimize.as_ref().map(|optimize| {
            let starts = optimize.starts.map(|starts| format!("after {}", show_many(u64::from(starts), "start")));
            let time = optimize.budget.map(|time| format!("after {} of work", show_duration(time)));
            let limits: Vec<String> = starts.into_iter().chain(time).collect();
            match limits.is_empty() {
                true => String::new(),
                false => format!(", at the latest {}", limits.join(" or ")),
            }
        }),
        starts => plan.starts,
        explores => plan.explore.is_some(),
        commands => commands.into_iter().map(command).collect::<Vec<Value>>(),
    };
    let text = Environment::new().render_str(ASSUMPTIONS, values);
    let text = text.expect("the template fits its values");
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}
