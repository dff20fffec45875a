//! Simulated output tokens per second of a `vllm serve` command line under rising loads, in virtual time:
//! `cargo run --release -p vsweep-sim --example throughput -- demo-8b --tensor-parallel-size 2`.

use std::error::Error;
use vsweep_metrics::seconds;
use vsweep_sim::engine::{SequenceRequest, token_id};
use vsweep_sim::flags::Flags;
use vsweep_sim::settings::ServerSettings;
use vsweep_sim::virtual_time::{VirtualLoad, VirtualServer};

const INPUT: usize = 512;
const OUTPUT: usize = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let settings = Flags::parse(&args).and_then(|flags| ServerSettings::resolve(&flags, &|_| None));
    let settings = settings.map_err(|refusal| format!("{refusal:?}"))?;
    for users in [1, 4, 16, 64, 256] {
        let mut server = VirtualServer::start(&settings).map_err(|misfit| format!("{misfit:?}"))?;
        let request = |number: u64| SequenceRequest {
            prompt: (0..INPUT).map(|place| token_id(number, place, 32_000)).collect(),
            output_len: OUTPUT,
            seed: number,
            ..SequenceRequest::default()
        };
        let count = users * 4;
        let simulated = server.drive(VirtualLoad {
            requests: (0..count as u64).map(request).collect(),
            due: vec![0; count],
            limit: Some(users),
            ..VirtualLoad::default()
        });
        let rate = (count * OUTPUT) as f64 / seconds(simulated.duration);
        println!("{users:>4} users: {rate:>8.0} output tokens/s (simulated)");
    }
    Ok(())
}
