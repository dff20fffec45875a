//! Planted truths: servers with known figures, and the noise of their runs.

use vsweep_answer::Random;

/// The truth of an experiment.
pub struct Planted {
    /// The seed.
    pub seed: u64,
    /// The servers.
    pub servers: Vec<Server>,
    /// Concurrencies.
    pub loads: Vec<u32>,
    /// Runs of a point on a start.
    pub runs: usize,
    /// Starts of each server.
    pub starts: usize,
    /// Share of servers that get only one of the starts.
    pub lacking: f64,
    /// Noise of throughput and of latency.
    pub noise: [Sizes; 2],
    /// Requests of a run.
    pub requests: f64,
    /// Share of runs that have a tenth of the requests.
    pub short: f64,
    /// Share of runs that are disturbed.
    pub disturbed: f64,
    /// Share of points that failed.
    pub failed: f64,
    /// The latency limit.
    pub limit: Option<f64>,
}

/// Sizes of noise as standard deviations of logarithms.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub run: f64,
    pub start: f64,
    /// Sampling error of one request.
    pub request: f64,
}

/// A server with its true figures.
pub struct Server {
    /// Settings by number, 0 for the default.
    pub settings: Vec<usize>,
    /// Logarithm of throughput and of latency at each load.
    pub means: Vec<[f64; 2]>,
}

/// The margin of every experiment.
pub const MARGIN: f64 = 0.01;

impl Planted {
    /// Draws an experiment.
    pub fn draw(seed: u64) -> Planted {
        let mut random = Random::of(seed, &["planted"]);
        let random = &mut random;
        let count = log_between(random, 2.0, 41.0) as usize;
        let loads: Vec<u32> = (0..1 + random.below(6)).map(|i| 1 << (i + random.below(2))).collect();
        let mut loads = loads;
        loads.dedup();
        let kind = random.below(6);
        let spread = log_between(random, 0.003, 0.3);
        let mut servers = match kind {
            0 | 1 => factorial(random, count, spread),
            _ => independent(random, count, spread),
        };
        match kind {
            2 => equal_groups(random, &mut servers),
            3 if random.below(2) == 0 => servers.iter_mut().for_each(|server| server.1 = 0.0),
            4 => servers[0].1 += random.uniform(),
            _ => {}
        }
        let knee = log_between(random, 4.0, 60.0);
        let curve = |random: &mut Random, (settings, level): (Vec<usize>, f64)| {
            let knee = knee * (0.1 * random.normal()).exp();
            let latency = 6.0 + 0.5 * spread * random.normal() - 0.5 * level;
            let at = |load: &u32| {
                let load = f64::from(*load);
                let saturation = -(1.0 + knee / load).ln();
                [8.0 + level + saturation, latency + (1.0 + load / knee).ln()]
            };
            Server {
                settings,
                means: loads.iter().map(at).collect(),
            }
        };
        // Servers that are equal in throughput also have the same curve.
        let is_equal = matches!(kind, 2 | 3);
        let mut servers: Vec<Server> = servers
            .into_iter()
            .map(|server| match is_equal {
                true => curve(&mut Random::of(seed, &["curve"]), server),
                false => curve(random, server),
            })
            .collect();
        let limit = (random.below(2) == 0).then(|| bind(random, &mut servers));
        let run = log_between(random, 0.002, 0.05);
        let start = 0.03 * random.uniform();
        let tails = [0.1, 0.3, 1.1][random.below(3)];
        Planted {
            seed,
            servers,
            loads,
            runs: 1 + random.below(5),
            starts: 1 + random.below(3),
            lacking: if random.below(3) == 0 {
                0.5 * random.uniform()
            } else {
                0.0
            },
            noise: [
                Sizes {
                    run,
                    start,
                    request: 0.4,
                },
                Sizes {
                    run: run * (1.0 + random.uniform()),
                    start: start * (0.5 + random.uniform()),
                    request: tails,
                },
            ],
            requests: log_between(random, 50.0, 2000.0),
            short: if random.below(4) == 0 {
                0.5 * random.uniform()
            } else {
                0.0
            },
            disturbed: if random.below(3) == 0 {
                0.2 * random.uniform()
            } else {
                0.0
            },
            failed: if random.below(4) == 0 {
                0.15 * random.uniform()
            } else {
                0.0
            },
            limit,
        }
    }

    /// True if a server truly meets the limit at a load.
    pub fn meets(&self, server: usize, load: usize) -> bool {
        self.limit
            .is_none_or(|limit| self.servers[server].means[load][1] <= limit.ln())
    }

    /// The true throughput of each server at its best load among those that were measured and meet the limit. `None` if there is none.
    pub fn values(&self, is_measured: impl Fn(usize, usize) -> bool) -> Vec<Option<f64>> {
        let value = |server: usize| {
            let loads = (0..self.loads.len()).filter(|load| is_measured(server, *load) && self.meets(server, *load));
            loads
                .map(|load| self.servers[server].means[load][0].exp())
                .reduce(f64::max)
        };
        (0..self.servers.len()).map(value).collect()
    }
}

pub fn log_between(random: &mut Random, low: f64, high: f64) -> f64 {
    (low.ln() + (high / low).ln() * random.uniform()).exp()
}

fn factorial(random: &mut Random, count: usize, spread: f64) -> Vec<(Vec<usize>, f64)> {
    let levels: Vec<usize> = (0..2 + random.below(3)).map(|_| 2 + random.below(2)).collect();
    let effect: Vec<Vec<f64>> = levels
        .iter()
        .map(|levels| {
            let size = if random.below(3) == 0 { 0.0 } else { spread };
            (0..*levels)
                .map(|level| if level == 0 { 0.0 } else { size * random.normal() })
                .collect()
        })
        .collect();
    let all: usize = levels.iter().product();
    let servers = (0..all.min(count.max(2))).map(|mut number| {
        let settings: Vec<usize> = levels
            .iter()
            .map(|levels| {
                let own = number % levels;
                number /= levels;
                own
            })
            .collect();
        let mains: f64 = settings.iter().zip(&effect).map(|(level, effect)| effect[*level]).sum();
        (settings, mains + 0.2 * spread * random.normal())
    });
    servers.collect()
}

fn independent(random: &mut Random, count: usize, spread: f64) -> Vec<(Vec<usize>, f64)> {
    let server = |number: usize| {
        let changes = random.below(5);
        let mut settings: Vec<usize> = (0..4).map(|at| usize::from(at < changes)).collect();
        settings.push(number);
        (settings, spread * random.normal())
    };
    (0..count).map(server).collect()
}

fn equal_groups(random: &mut Random, servers: &mut [(Vec<usize>, f64)]) {
    let groups = 1 + random.below(servers.len());
    for at in groups..servers.len() {
        servers[at].1 = servers[random.below(groups)].1;
    }
}

/// Draws a latency limit, and moves a third of the servers so close to it that they miss or meet it by less than 3 %.
fn bind(random: &mut Random, servers: &mut [Server]) -> f64 {
    let mut all: Vec<f64> = servers
        .iter()
        .flat_map(|server| server.means.iter().map(|mean| mean[1]))
        .collect();
    all.sort_by(f64::total_cmp);
    let limit =
        all[((0.2 + 0.6 * random.uniform()) * (all.len() - 1) as f64) as usize] + 0.06 * (random.uniform() - 0.5);
    for server in servers {
        if random.below(3) == 0 {
            let at = random.below(server.means.len());
            let shift = limit + 0.06 * (random.uniform() - 0.5) - server.means[at][1];
            server.means.iter_mut().for_each(|mean| mean[1] += shift);
        }
    }
    limit.exp()
}
