//! Drawn plans: one or two simulated servers, a load, and targets whose limits lie near a drawn load. Their runs are played in virtual time
//! by the code of a rehearsal, with real request samples, first waves, engine steps and cuts.

use crate::random::Random;
use std::path::Path;
use std::time::Duration;
use vsweep::bench::Measurement;
use vsweep::matrix::{LoadSearch, Matrix, ServerConfig};
use vsweep::plan::{self, Warmup};
use vsweep::rehearse::{Budget, Limits, ModelledServer, Options, Play, Player};
use vsweep::search::{Probe, Question, RequestLatencies, Settings, Stalls, Vary, Watch};

/// A plan with its servers, and one search for each.
pub struct World {
    pub text: String,
    matrix: Matrix,
    pub servers: Vec<(ServerConfig, LoadSearch)>,
    /// The load near which the limit of the first target was drawn.
    pub aim: f64,
}

/// Settings common to all runs of a drawn plan.
struct Draft {
    serve: String,
    seqs: Vec<u64>,
    bench: String,
    requests: String,
    vary: Vary,
    most: f64,
}

impl World {
    /// Draws the plan with this number.
    pub fn draw(index: u64, folder: &Path) -> World {
        let mut random = Random(index.wrapping_mul(0x1234_5678_9abc_def1) ^ 77);
        let draft = Draft::draw(&mut random);
        let any = "[[sla.target]]\nname = \"any\"\np99_ttft_ms = \"<=1000\"\n";
        let bare = World::read(draft.plan(any), 1.0, folder);
        let aim = match draft.vary {
            Vary::MaxConcurrency => random.log_between(3.0, 400.0),
            Vary::RequestRate => bare.capacity() * random.between(0.4, 0.95),
        };
        let mut targets = String::new();
        for name in ["one", "two"]
            .iter()
            .take(if random.between(0.0, 1.0) < 0.3 { 2 } else { 1 })
        {
            let near = match (*name, draft.vary) {
                ("one", _) => aim,
                (_, Vary::MaxConcurrency) => (aim * random.log_between(0.4, 2.5)).max(2.0),
                (_, Vary::RequestRate) => aim * random.between(0.5, 1.1),
            };
            targets += &format!(
                "[[sla.target]]\nname = \"{name}\"\n{}",
                bare.criterion(&mut random, near)
            );
        }
        World::read(draft.plan(&targets), aim, folder)
    }

    /// Reads a plan whose first target has its limit near `aim`.
    pub fn read(text: String, aim: f64, folder: &Path) -> World {
        let path = folder.join("plan.toml");
        std::fs::write(&path, &text).expect("a writable folder");
        let plan = plan::load(&path, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let matrix = Matrix::expand(&plan).expect("it expands");
        let servers = matrix.servers().collect::<Vec<_>>().into_iter();
        let servers = servers.filter_map(|server| {
            let search = matrix.searches_of(&server).next()?;
            Some((server, search))
        });
        World {
            servers: servers.collect(),
            text,
            matrix,
            aim,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.servers[0].1.settings
    }

    /// Highest number of requests per second that the first server answers.
    fn capacity(&self) -> f64 {
        let highest = self.settings().upper;
        let run = self.host(0, 1).run(highest, 0);
        run.result
            .get("request_throughput")
            .and_then(|value| value.as_f64())
            .expect("measured")
    }

    /// Draws a criterion, a bound or an attainment, as a user might ask for it. Its value lies between those at clearly less and clearly
    /// more load.
    fn criterion(&self, random: &mut Random, near: f64) -> String {
        let latency = random.one_of(&["ttft_ms", "tpot_ms", "e2el_ms"]);
        let vary = self.settings().vary;
        let ends = match vary {
            Vary::MaxConcurrency => [near / 2.5, near * 2.5],
            Vary::RequestRate => [near / 1.6, near * 1.1],
        };
        let mut host = self.host(0, 2);
        let runs = ends.map(|load| {
            let load = vary.floor(load.min(self.settings().upper));
            (0..3)
                .flat_map(|draw| host.run(load, 1000 + draw).requests)
                .collect::<Vec<RequestLatencies>>()
        });
        let part = random.between(0.25, 0.75);
        let bound = |key: &str| {
            let [low, high] = [0, 1].map(|end| figure(&runs[end], key).expect("a latency").max(1e-3).ln());
            let value = (low + (high - low) * part).exp();
            let unit = 10f64.powf(value.log10().floor() - 2.0);
            format!("{:.4}", (value / unit).ceil() * unit)
        };
        if random.between(0.0, 1.0) < 0.7 {
            let kind = random.one_of(&["p99", "p99", "p95", "p90", "mean", "mean", "median"]);
            let key = format!("{kind}_{latency}");
            return format!("{key} = \"<={}\"\n", bound(&key));
        }
        let percent = random.one_of(&[99, 95, 90]);
        let bound = bound(&format!("p{percent}_{latency}"));
        format!("attainment = \">={percent}%\"\n{latency} = \"<={bound}\"\n")
    }

    /// Returns one of the servers. Each `seed` has its own noise and prompts.
    pub fn host(&self, server: usize, seed: u64) -> Host<'_> {
        Host {
            world: self,
            server,
            seed,
            runs: 0,
            is_stalled: false,
        }
    }
}

impl Draft {
    fn draw(random: &mut Random) -> Draft {
        let vary = match random.between(0.0, 1.0) < 0.7 {
            true => Vary::MaxConcurrency,
            false => Vary::RequestRate,
        };
        let gpu = random.one_of(&["h100", "a100", "l40s", "b200"]);
        let (model, size) = random.one_of(&[
            ("demo-3b", 1),
            ("demo-8b", 1),
            ("demo-8b", 2),
            ("demo-14b", 1),
            ("demo-32b", 4),
        ]);
        let seqs = random.log_between(8.0, 512.0) as u64;
        let batched = random.one_of(&[512, 1024, 2048, 4096, 8192]).max(2 * seqs);
        let noise = random.one_of(&["0.02", "0.02", "0.05", "0.1"]);
        let scatter = random.one_of(&["0", "0.003", "0.006", "0.01"]);
        let (input, output) = (
            random.log_between(32.0, 2048.0) as u64,
            random.log_between(8.0, 256.0) as u64,
        );
        let range = random.one_of(&["0.0", "0.2", "0.5"]);
        let mut serve = format!(
            "vsweep sim serve {model} --tensor-parallel-size {size} --sim-gpu {gpu} --no-enable-prefix-caching \
             --max-model-len 8192 --max-num-batched-tokens {batched} --sim-noise {noise} --sim-server-noise {scatter}"
        );
        if random.between(0.0, 1.0) < 0.08 {
            let (every, length) = (random.log_between(3.0, 60.0), random.log_between(30.0, 300.0));
            serve += &format!(
                " --sim-stall-every {}ms --sim-stall {}ms",
                (every * 1e3) as u64,
                length as u64
            );
        }
        let times = match vary {
            Vary::MaxConcurrency => random.one_of(&[2, 4, 8, 10]),
            Vary::RequestRate => random.one_of(&[20, 40, 100]),
        };
        let least = random.one_of(&[100, 100, 200]);
        Draft {
            serve,
            seqs: match random.between(0.0, 1.0) < 0.3 {
                true => vec![seqs, (seqs as f64 * random.between(1.1, 2.0)).ceil() as u64],
                false => vec![seqs],
            },
            bench: format!("random_input_len = {input}\nrandom_output_len = {output}\nrandom_range_ratio = {range}"),
            requests: format!(
                "{{ per = \"{}\", times = {times}, min = {least}, max = 2000 }}",
                vary.name()
            ),
            vary,
            most: if vary == Vary::MaxConcurrency { 1024.0 } else { 8192.0 },
        }
    }

    fn plan(&self, targets: &str) -> String {
        let Draft {
            serve,
            seqs,
            bench,
            requests,
            vary,
            most,
        } = self;
        let vary = vary.name();
        format!(
            "version = 1\n[serve]\ncommand = \"{serve}\"\n[serve.params]\nmax_num_seqs = {seqs:?}\n[bench]\ntimeout = \"10h\"\n\
             [bench.params]\n{bench}\nnum_prompts = {requests}\n[sla]\nvary = \"{vary}\"\nmax = {most}\n{targets}"
        )
    }
}

/// A server of a world in virtual time.
pub struct Host<'w> {
    world: &'w World,
    server: usize,
    seed: u64,
    runs: u64,
    /// True if its generator stalls now and then.
    pub is_stalled: bool,
}

/// Milliseconds: the duration of a stall, the interval between stalls, and the time after a stall in which requests count as delayed by it.
const STALL_MS: f64 = 250.0;
const STALL_EVERY_MS: f64 = 4000.0;
const AFTER_STALL_MS: f64 = 3.0 * STALL_MS;

impl Host<'_> {
    /// Plays a whole run at this load.
    pub fn run(&mut self, load: f64, draw: u32) -> Measurement {
        let settings = &self.world.servers[self.server].1.settings;
        let reaching = if settings.vary == Vary::MaxConcurrency {
            load as u64
        } else {
            1
        };
        let question = Question {
            target: String::new(),
            value: load,
            requests: settings.requests.at(load).max(reaching),
            confirm: false,
            draw,
        };
        self.answer(&question, None)
    }

    /// Plays the run that a search asks for.
    pub fn answer(&mut self, question: &Question, watch: Option<Watch>) -> Measurement {
        self.runs += 1;
        let (server, search) = &self.world.servers[self.server];
        let mut server = server.clone();
        // Each run gets another seed, as if the server had been started again, so that it is a little faster or slower in every run.
        let start = self.seed.wrapping_mul(7919).wrapping_add(self.runs) % 1_000_000_007;
        server.argv.extend(["--sim-seed".to_owned(), start.to_string()]);
        let stand_in = ModelledServer::of(&server, &Options::default()).expect("a simulated server");
        let mut params = self.world.matrix.point_for(search, question).params;
        let seed = (self.seed.wrapping_mul(100_003) + u64::from(question.draw)) % 4_000_000_000;
        params.insert("seed".to_owned(), seed.into());
        let play = Play {
            params: &params,
            warmup: Warmup::Requests(0),
            watch,
            limit: Duration::MAX,
            budget: &Budget::new(&Limits::default()),
        };
        let played = Player::new(&stand_in, false, false).play(play);
        let (_, measurement) = played.unwrap_or_else(|why| panic!("{why:?}\n{}", self.world.text));
        measurement.expect("requests that fit")
    }

    /// Returns the probe of that run.
    pub fn probe(&mut self, question: Question, watch: Watch) -> Probe {
        let measurement = self.answer(&question, Some(watch));
        let mut random = Random(self.seed.wrapping_mul(31).wrapping_add(self.runs) ^ 0xabcd);
        let first_ms = random.between(0.0, STALL_EVERY_MS);
        if self.is_stalled && first_ms < duration_ms(&measurement) {
            return self.stalled_probe(question, random);
        }
        let settings = &self.world.servers[self.server].1.settings;
        let metric = |key: &str| measurement.result.get(key).and_then(|value| value.as_f64());
        let (requests, cut) = (&measurement.requests, measurement.cut.as_ref());
        Probe::read(question, &settings.targets, settings.vary, metric, requests, cut)
    }

    /// Returns the probe of a run during which the generator stalled. The run is not cut, and requests in flight during a stall are late.
    fn stalled_probe(&mut self, question: Question, mut random: Random) -> Probe {
        self.runs -= 1;
        let mut measurement = self.answer(&question, None);
        for request in measurement
            .requests
            .iter_mut()
            .filter(|request| request.e2el_ms.is_finite())
        {
            stall(request, &mut random);
        }
        let settings = &self.world.servers[self.server].1.settings;
        let whole = |key: &str| measurement.result.get(key).and_then(|value| value.as_f64());
        let metric = |key: &str| figure(&measurement.requests, key).or_else(|| whole(key));
        let probe = Probe::read(
            question,
            &settings.targets,
            settings.vary,
            metric,
            &measurement.requests,
            None,
        );
        probe.disturbed_by(vec!["generator_stalled".to_owned()])
    }
}

/// Delays a request if the generator stalled while it was in flight. Records what a generator would know: the time until its next stall,
/// and how long its stalls may have delayed the request.
fn stall(request: &mut RequestLatencies, random: &mut Random) {
    let RequestLatencies { ttft_ms, e2el_ms, .. } = *request;
    let next_ms = random.between(0.0, STALL_EVERY_MS);
    let since_ms = STALL_EVERY_MS - next_ms;
    let meets = |latency_ms: f64| next_ms < latency_ms || since_ms < STALL_MS;
    let late = random.between(0.0, STALL_MS);
    if meets(e2el_ms) {
        match meets(ttft_ms) {
            true => request.ttft_ms += late,
            false => request.tpot_ms *= 1.0 + late / (e2el_ms - ttft_ms).max(1.0),
        }
        request.e2el_ms += late;
    }
    let is_soon_after = since_ms < STALL_MS + AFTER_STALL_MS;
    let most = |latency_ms: f64| {
        let later = ((latency_ms - next_ms) / STALL_EVERY_MS).ceil().max(0.0);
        STALL_MS * (later + f64::from(u8::from(is_soon_after)))
    };
    request.stalls = Some(Stalls {
        calm_ms: if is_soon_after { 0.0 } else { next_ms },
        of_ttft_ms: most(request.ttft_ms),
        of_e2el_ms: most(request.e2el_ms),
    });
}

/// Time from the first request sent to the end of the last. 0 for a run that was cut before any request ended.
fn duration_ms(measurement: &Measurement) -> f64 {
    let seconds = measurement.result.get("duration").and_then(|value| value.as_f64());
    1000.0 * seconds.unwrap_or(0.0)
}

/// A latency statistic over the requests of several runs, computed as a benchmark does for one. `None` for an unknown name.
pub fn figure(requests: &[RequestLatencies], key: &str) -> Option<f64> {
    let (kind, name) = key.split_once('_')?;
    let latency = |request: &RequestLatencies| match name {
        "ttft_ms" => Some(request.ttft_ms),
        "tpot_ms" => Some(request.tpot_ms),
        "e2el_ms" => Some(request.e2el_ms),
        _ => None,
    };
    let values: Option<Vec<f64>> = requests.iter().map(latency).collect();
    let mut values: Vec<f64> = values?.into_iter().filter(|value| value.is_finite()).collect();
    if kind == "mean" {
        return Some(values.iter().sum::<f64>() / values.len() as f64);
    }
    let percent: f64 = match kind {
        "median" => 50.0,
        _ => kind.strip_prefix('p')?.parse().ok()?,
    };
    values.sort_by(f64::total_cmp);
    let place = percent / 100.0 * (values.len() - 1) as f64;
    let (below, above) = (
        values[place as usize],
        values[(place as usize + 1).min(values.len() - 1)],
    );
    Some(below + (above - below) * place.fract())
}
