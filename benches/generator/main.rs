//! Measures the cost of the load generator and the errors of its figures against a server that does no work. Compares it with a minimal
//! client, and with other clients if they are named. Client and server are processes pinned to different cores.
//!
//! `cargo bench --bench generator -- [--vllm-rs PROGRAM] [--vllm PROGRAM] [--guidellm PROGRAM] [--aiperf PROGRAM]
//! [--repeats N] [--streams N]... [capacity|accuracy|start|many|viewers]...`; `many` and `viewers` are left out unless they are
//! named.
//! `benches/peers` fetches the peers and calls it. It should run on a machine with nothing else to do.

mod client;
mod floor;
mod mock;
mod process;
mod viewers;

use client::{Client, Figures, Foreign, Workload};
use process::{Server, pin};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

const CAPACITY: Workload = Workload {
    requests: 2000,
    streams: 64,
    tokens: 256,
};
const ONE: Workload = Workload {
    requests: 1,
    streams: 1,
    tokens: 128,
};
/// So many requests that the memory kept for each becomes visible.
const MANY: [usize; 2] = [100_000, 1_000_000];
/// Time to the first token and between tokens, in milliseconds.
const PACE: [usize; 2] = [50, 10];

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let number = |i: usize| args.get(i).and_then(|arg| arg.parse().ok()).unwrap_or(0);
    match args.first().map(String::as_str) {
        Some("mock") => {
            pin(1);
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            println!("{}", listener.local_addr()?);
            io::stdout().flush()?;
            let ms = |i| Duration::from_millis(number(i) as u64);
            let pace = match args.len() {
                0..=2 => mock::Pace::AtOnce(number(1)),
                _ => mock::Pace::Exact {
                    first: ms(1),
                    between: ms(2),
                },
            };
            mock::serve(listener, pace)
        }
        Some("floor") => {
            let address = args[1].parse().map_err(io::Error::other)?;
            let result = floor::run(address, number(2), number(3), number(4))?;
            std::fs::write(&args[5], result.to_string())
        }
        Some("watch") => process::watch(&args[1..]),
        _ => compare(&args),
    }
}

/// Measures the parts that are asked for.
fn compare(args: &[String]) -> io::Result<()> {
    let (mut clients, mut repeats, mut parts) = (vec![Client::Floor, Client::Vsweep], 5, vec![]);
    let mut paced = vec![];
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().unwrap_or_default();
        match arg.as_str() {
            "--vllm-rs" => clients.push(Client::Vllm {
                name: "vllm-rs",
                program: PathBuf::from(value()),
            }),
            "--vllm" => clients.push(Client::Vllm {
                name: "vllm",
                program: PathBuf::from(value()),
            }),
            "--guidellm" => clients.push(Client::Foreign {
                client: Foreign::Guidellm,
                program: PathBuf::from(value()),
            }),
            "--aiperf" => clients.push(Client::Foreign {
                client: Foreign::Aiperf,
                program: PathBuf::from(value()),
            }),
            "--repeats" => repeats = value().parse().map_err(io::Error::other)?,
            "--streams" => paced.push(value().parse().map_err(io::Error::other)?),
            part => parts.push(part.to_owned()),
        }
    }
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if is_wanted("capacity") {
        for tokens_a_write in [1, 16] {
            capacity(&clients, repeats, tokens_a_write)?;
        }
    }
    if paced.is_empty() {
        paced.extend([32, 256, 1024]);
    }
    if is_wanted("accuracy") {
        println!(
            "TTFT 50 ms, ITL 10 ms, 128 tokens a request, three waves (medians of {repeats}; server: its own figures)"
        );
        let server = Server::start(&PACE)?;
        for streams in paced {
            let workload = Workload {
                requests: streams * if streams == 32 { 4 } else { 3 },
                streams,
                tokens: 128,
            };
            println!("  {streams} streams");
            println!("  client   TTFT p50      p99  server     p99  ITL p50     p99  server p99  CPU s  in flight");
            for (client, runs) in measure(&clients, &server, workload, repeats)? {
                let truth = |key: &str, at: usize| median(&runs, |run| run.truth[key][at].as_f64().unwrap_or(f64::NAN));
                println!(
                    "  {client:8} {:8.3} {:8.3} {:7.3} {:7.3} {:8.3} {:7.3} {:11.3} {:6.2} {:10.0}",
                    median(&runs, |run| number(run, "p50_ttft_ms")),
                    median(&runs, |run| number(run, "p99_ttft_ms")),
                    truth("ttft_ms", 0),
                    truth("ttft_ms", 1),
                    median(&runs, |run| number(run, "p50_itl_ms")),
                    median(&runs, |run| number(run, "p99_itl_ms")),
                    truth("itl_ms", 1),
                    median(&runs, |run| run.cost.cpu_s),
                    median(&runs, |run| run.truth["most_in_flight"].as_f64().unwrap_or(f64::NAN)),
                );
            }
        }
    }
    if is_wanted("start") {
        println!("one request of 128 tokens (medians of {})", 2 * repeats);
        println!("  client   exec to exit ms  CPU ms  peak MB");
        for (client, runs) in measure(&clients, &Server::start(&[1])?, ONE, 2 * repeats)? {
            println!(
                "  {client:8} {:15.1} {:7.1} {:8.1}",
                median(&runs, |run| run.cost.wall_s * 1e3),
                median(&runs, |run| run.cost.cpu_s * 1e3),
                median(&runs, |run| run.cost.rss_mb),
            );
        }
    }
    if parts.iter().any(|part| part == "many") {
        many(&clients)?;
    }
    if parts.iter().any(|part| part == "viewers") {
        viewers::compare(repeats)?;
    }
    Ok(())
}

/// Measures the time and memory of many requests.
fn many(clients: &[Client]) -> io::Result<()> {
    let server = Server::start(&[4])?;
    for requests in MANY {
        println!("{requests} requests of 4 tokens, 64 streams (one run after one to warm up)");
        println!("  client     wall s   CPU s  peak MB");
        let workload = Workload {
            requests,
            streams: 64,
            tokens: 4,
        };
        for (client, runs) in measure(clients, &server, workload, 1)? {
            println!(
                "  {client:8} {:8.1} {:7.1} {:8.1}",
                median(&runs, |run| run.cost.wall_s),
                median(&runs, |run| run.cost.cpu_s),
                median(&runs, |run| run.cost.rss_mb),
            );
        }
    }
    Ok(())
}

/// Tokens without delay. With one token in a write the server is the bottleneck; with more it is the client.
fn capacity(clients: &[Client], repeats: usize, tokens_a_write: usize) -> io::Result<()> {
    println!("zero delay, 64 streams, 512 000 tokens, {tokens_a_write} a write (medians of {repeats})");
    println!("  client    tokens/s  CPU s  of it kernel  tokens per CPU s  of floor's  wall s  peak MB  server busy");
    let mut bound = None;
    for (client, runs) in measure(clients, &Server::start(&[tokens_a_write])?, CAPACITY, repeats)? {
        let tokens = (CAPACITY.requests * CAPACITY.tokens) as f64;
        let rate = tokens / median(&runs, |run| run.cost.cpu_s);
        println!(
            "  {client:8} {:9.0} {:6.2} {:13.2} {rate:17.0} {:11.2} {:7.2} {:8.1} {:11.0}%",
            median(&runs, |run| number(run, "output_throughput")),
            median(&runs, |run| run.cost.cpu_s),
            median(&runs, |run| run.cost.system_s),
            rate / *bound.get_or_insert(rate),
            median(&runs, |run| run.cost.wall_s),
            median(&runs, |run| run.cost.rss_mb),
            median(&runs, |run| run.truth["busy"].as_f64().unwrap_or(f64::NAN) * 100.0),
        );
    }
    Ok(())
}

/// Runs of each client. The clients take turns, so that drift of the machine spreads over all. The first round only warms up.
fn measure(
    clients: &[Client],
    server: &Server,
    workload: Workload,
    repeats: usize,
) -> io::Result<Vec<(&'static str, Vec<Figures>)>> {
    let mut all: Vec<(&'static str, Vec<Figures>)> = clients.iter().map(|client| (client.name(), vec![])).collect();
    for round in 0..=repeats {
        for (client, (name, runs)) in clients.iter().zip(&mut all) {
            // A client that failed once is left out.
            if round > 1 && runs.is_empty() {
                continue;
            }
            match client.run(server, workload)? {
                Some(figures) if round > 0 => runs.push(figures),
                Some(_) => {}
                None => eprintln!("{name} did not complete its requests"),
            }
        }
    }
    Ok(all)
}

fn number(run: &Figures, key: &str) -> f64 {
    run.result[key].as_f64().unwrap_or(f64::NAN)
}

fn median(runs: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
