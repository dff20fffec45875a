//! Searches for the most users whose p99 TTFT stays below 500 ms, on an invented server: `cargo run -p vsweep-strategy --example
//! find_limit`. A real caller would run each question and pass the measured probe to `add`.

use vsweep_strategy::search::{Criterion, Probe, Search, Seed, Settings, Target, Vary};

fn main() -> Result<(), String> {
    let criterion = Criterion::metric("p99_ttft_ms", "<=500")?;
    let target = Target {
        name: "interactive".to_owned(),
        criteria: vec![criterion.clone()],
    };
    let mut search = Search::new(Settings::new(Vary::MaxConcurrency, vec![target]), Seed::UNKNOWN);
    let answers = loop {
        match search.ask() {
            Ok(answers) => break answers,
            Err(question) => {
                let p99_ttft_ms = 40.0 + 1.5 * question.value + (question.value / 60.0).powi(4);
                println!("{:>6} users: p99 TTFT {p99_ttft_ms:.0} ms", question.value);
                let reading = criterion.read(Vary::MaxConcurrency, |_| Some(p99_ttft_ms), &[]);
                search.add(&Probe {
                    question,
                    stopped: None,
                    readings: reading
                        .map(|reading| (criterion.to_string(), reading))
                        .into_iter()
                        .collect(),
                    served: None,
                    throughput: None,
                    is_outrun: false,
                    disturbances: Vec::new(),
                });
            }
        }
    };
    for answer in answers {
        println!("{}: {:?} after {} runs", answer.target, answer.found, answer.probes);
    }
    Ok(())
}
