//! Lists the runs of an experiment directory as its journal has them: `cargo run -p vsweep-record --example list_runs -- results/demo`.

use std::error::Error;
use vsweep_record::journal::{self, Check, Directory};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "results/demo".into());
    let state = journal::load(&Directory::open(path)?, Check::Hashes)?;
    for run in state.runs() {
        let cause = run.cause.map_or("", |cause| cause.name());
        println!("{} run {}  {}  {} {cause}", run.point, run.run, run.name, run.outcome);
    }
    println!("{} of {} runs failed", state.failures(), state.recorded_runs());
    Ok(())
}
