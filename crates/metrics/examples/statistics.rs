//! Statistics of milliseconds on standard input, to the last digit as NumPy has them, with percentiles of your choice:
//! `seq 1 100 | cargo run -p vsweep-metrics --example statistics -- 50 99 99.9`.

use std::error::Error;
use vsweep_metrics::Stats;

fn main() -> Result<(), Box<dyn Error>> {
    let percents: Vec<f64> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let text = std::io::read_to_string(std::io::stdin())?;
    let values: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let seconds = values.iter().map(|milliseconds| milliseconds / 1000.0).collect();
    let stats = Stats::of_seconds(seconds, &percents);
    println!(
        "{} values, mean {:.3} ms, std {:.3} ms",
        stats.count, stats.mean, stats.std
    );
    for (percent, milliseconds) in stats.percentiles {
        println!("p{percent} {milliseconds:.3} ms");
    }
    Ok(())
}
