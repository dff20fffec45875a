//! Reads an experiment directory and prints, for each point, the median of a metric over its runs:
//! `cargo run -p vsweep-report --example read_result -- results/demo output_throughput`.

use std::error::Error;
use vsweep_record::journal::{self, Check, Directory};
use vsweep_record::table::Points;
use vsweep_report::read_runs;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "results/demo".into());
    let metric = args.next().unwrap_or_else(|| "output_throughput".into());
    let directory = Directory::open(path)?;
    let state = journal::load(&directory, Check::Hashes)?;
    let runs = read_runs(&directory, &state);
    let points = Points::of(&runs.table);
    println!("{metric} of {} points, median of their good runs:", points.points.len());
    for point in &points.points {
        match points.spread(point, &metric) {
            Some(spread) => println!(
                "{}  {:>12.2}  ({:.2} to {:.2})",
                point.id, spread.value, spread.min, spread.max
            ),
            None => println!("{}  {:>12}", point.id, "none"),
        }
    }
    Ok(())
}
