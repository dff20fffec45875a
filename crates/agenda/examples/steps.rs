//! Prints the steps of a plan on servers that always start and runs that always succeed.

use std::env;
use std::error::Error;
use std::path::Path;
use vsweep_agenda::{Action, ActionOutcome, Agenda, Hints, MeasuredRun, ReadyInfo, Schedule, Step};
use vsweep_plan as plan;
use vsweep_plan::matrix::Matrix;
use vsweep_record::journal::{Shard, State};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args_os()
        .nth(1)
        .ok_or("name a plan with points, for example plans/demo.toml")?;
    let plan = plan::load(Path::new(&path), &[]).map_err(|problems| format!("{problems:?}"))?;
    let matrix = &Matrix::expand(&plan).map_err(|problems| format!("{problems:?}"))?;
    let mut state = State::default();
    let schedule = Schedule::new(&plan, matrix, Shard::WHOLE, false);
    for start in schedule.starts() {
        let Some(group) = schedule.group(&start, &state) else {
            continue;
        };
        let mut agenda = Agenda::new(schedule, group, Hints::new(), &state);
        loop {
            let outcome = match agenda.next(&state) {
                Step::Record(event, _) => {
                    let entry = state.apply_hypothetical(*event);
                    agenda.recorded(&entry, &state);
                    continue;
                }
                Step::Note(note) => {
                    println!("  {note}");
                    continue;
                }
                Step::Act(Action::Start(_)) => {
                    println!("start {}", start.server.name);
                    ActionOutcome::Started(Ok(ReadyInfo::default()))
                }
                Step::Act(Action::Check) => ActionOutcome::Unchanged,
                Step::Act(Action::Await) => ActionOutcome::Permitted,
                Step::Act(Action::Reset) => ActionOutcome::Reset {
                    result: Ok(()),
                    seconds: 0.0,
                },
                Step::Act(Action::Run(run)) => {
                    println!(
                        "  run {} #{}, warm-up {:?}",
                        run.task.point.name, run.task.run, run.warmup
                    );
                    let result = Ok(Box::new(MeasuredRun::default()));
                    ActionOutcome::Ran { result, seconds: 1.0 }
                }
                Step::Act(Action::Stop | Action::Kill) => {
                    println!("stop {}", start.server.name);
                    ActionOutcome::Stopped {
                        seconds: 0.0,
                        held_seconds: None,
                    }
                }
                Step::Done(_) => break,
            };
            agenda.settle(outcome);
        }
    }
    Ok(())
}
