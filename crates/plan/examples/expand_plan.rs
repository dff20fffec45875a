//! Expands a plan and prints every server and its points: `cargo run -p vsweep-plan --example expand_plan -- plans/demo.toml`.

use std::error::Error;
use std::path::PathBuf;
use vsweep_plan as plan;
use vsweep_plan::matrix::Matrix;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os()
        .nth(1)
        .map_or_else(|| "plans/demo.toml".into(), PathBuf::from);
    let plan = plan::load(&path, &[])?;
    let matrix = Matrix::expand(&plan)?;
    for server in matrix.servers() {
        println!(
            "{}  {}",
            server.id,
            shell_words::join(plan.secrets.redact_argv(&server.argv))
        );
        for point in matrix.points_of(&server) {
            println!("    {}  {}", point.id, point.name);
        }
    }
    let counts = matrix.counts();
    println!(
        "{} servers, {} points, {} runs",
        counts.servers, counts.points, counts.runs
    );
    Ok(())
}
