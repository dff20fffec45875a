//! Sends twenty completions at ten a second to a server of the OpenAI API, and prints when their tokens came:
//! `cargo run -p vsweep-load --example send -- http://127.0.0.1:8000 MODEL`.

use serde_json::{Map, json};
use std::error::Error;
use std::time::Duration;
use vsweep_load::arrival::Arrivals;
use vsweep_load::{Backend, BodyOptions, Content, Generator, Load, Request, RequestOptions, ServerAddress};
use vsweep_metrics::seconds;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let target = ServerAddress::parse(&args.next().ok_or("the server's address is missing")?)?;
    let options = RequestOptions {
        host: target.authority(),
        path: format!("{}/v1/completions", target.path),
        headers: vec![],
        body: BodyOptions {
            backend: Backend::Completions,
            model: args.next().ok_or("the model's name is missing")?,
            ignore_eos: true,
            logprobs: None,
            extra: Map::new(),
        },
    };
    let prompt = json!("Tell me of the sea.");
    let content = Content {
        prompt: Some(&prompt),
        output_len: 16,
        ..Content::default()
    };
    let requests: Vec<Request> = (0..20).map(|_| options.request(&content)).collect::<Result<_, _>>()?;
    let arrivals = Arrivals {
        rate: 10.0,
        burstiness: 1.0,
        ramp: None,
    };
    let load = Load {
        due: arrivals.due_times(requests.len(), 0),
        requests: requests.into(),
        reply: options.reply(),
        request_timeout: Duration::from_secs(60),
        silence_timeout: Duration::from_secs(60),
        ..Load::default()
    };
    let outcome = Generator::new(target.resolve()?, None)?.drive(&load)?;
    for sample in outcome.samples.in_order() {
        match &sample.error {
            Some(error) => println!("failed: {error}"),
            None => println!(
                "sent at {:.3} s, first token after {:.1} ms, last one after {:.1} ms",
                seconds(sample.sent),
                seconds(sample.ttft()) * 1000.0,
                seconds(sample.latency()) * 1000.0
            ),
        }
    }
    Ok(())
}
