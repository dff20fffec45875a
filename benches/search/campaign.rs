//! Searches of drawn plans in virtual time, judged by their true limits. Targets whose limit is not known to one percent are left out.

use crate::random::Random;
use crate::trial::{Trial, choices, report, report_stalled};
use crate::truth::Truth;
use crate::worlds::World;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use vsweep::search::{Answer, Rival, Search, Seed, SeedBasis, Settings};

/// The first world that is used for judging. The method was developed with the worlds below.
const JUDGED: u64 = 20_000;
/// Load near which the limits of the fixed plans in `real.rs` lie.
const AIM: f64 = 60.0;

/// Searches worlds on all cores: drawn ones, or those of the fixed plans. With `is_stalled` the generator stalls now and then.
pub fn run(is_drawn: bool, is_stalled: bool) -> ExitCode {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |at: usize, usual: u64| numbers.get(at).copied().unwrap_or(usual);
    let (worlds, searches, first) = (number(0, 800), number(1, 2), number(2, JUDGED));
    let (next, all) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let work = || {
        let folder = tempfile::tempdir().expect("a writable folder");
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= worlds {
                return;
            }
            let number = first + index;
            let world = match is_drawn {
                true => World::draw(number, folder.path()),
                false => World::read(crate::real::text(number), AIM, folder.path()),
            };
            let tally = Tally::of(&world, number, searches, is_stalled);
            tally.trials.iter().for_each(Trial::tell_if_unsafe);
            all.lock().expect("no worker panics").add(tally);
            eprint!("\r{} of {worlds} worlds", index + 1);
        }
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        (0..workers).for_each(|_| drop(scope.spawn(work)));
    });
    eprintln!();
    let tally = all.into_inner().expect("no worker panics");
    println!(
        "worlds {first} to {}: {} searches, {} answers, {} more whose limit is not known to 1 %",
        first + worlds - 1,
        tally.searches,
        tally.trials.len(),
        tally.unknown
    );
    match is_stalled {
        true => report_stalled(&tally.trials),
        false => report(&tally.trials, &tally.chosen),
    }
}

/// Results of the worlds so far.
#[derive(Default)]
struct Tally {
    searches: usize,
    trials: Vec<Trial>,
    /// Answers whose limit is not known well enough to judge them.
    unknown: usize,
    chosen: Vec<f64>,
}

impl Tally {
    fn of(world: &World, index: u64, searches: u64, is_stalled: bool) -> Tally {
        let truths = |server: usize| -> Vec<Option<Truth>> {
            let targets = world.servers[server].1.settings.targets.iter();
            targets.map(|target| Truth::find(world, server, target)).collect()
        };
        let truths: Vec<Vec<Option<Truth>>> = (0..world.servers.len()).map(truths).collect();
        let mut tally = Tally::default();
        for repetition in 0..searches {
            let group = search_all(world, &truths, index, repetition, is_stalled);
            tally.searches += group.len();
            tally.unknown += group.iter().flatten().filter(|trial| trial.is_none()).count();
            tally.chosen.extend(choices(&group, &truths, world.settings().vary));
            tally.trials.extend(group.into_iter().flatten().flatten());
        }
        tally
    }

    fn add(&mut self, other: Tally) {
        self.searches += other.searches;
        self.trials.extend(other.trials);
        self.unknown += other.unknown;
        self.chosen.extend(other.chosen);
    }
}

/// Searches the servers of a world one after another. Returns the answers of each.
fn search_all(
    world: &World,
    truths: &[Vec<Option<Truth>>],
    index: u64,
    repetition: u64,
    is_stalled: bool,
) -> Vec<Vec<Option<Trial>>> {
    let mut random = Random(index * 1009 + repetition * 31 + 5);
    let tolerance = random.one_of(&[0.05, 0.05, 0.1]);
    let mut rivals: Vec<Rival> = Vec::new();
    let mut group = Vec::new();
    for (server, (config, planned)) in world.servers.iter().enumerate() {
        let settings = Settings {
            tolerance,
            ..planned.settings.clone()
        };
        let near = truths[server][0].map_or(world.aim, |truth| truth.limit);
        let mut search = Search::new(settings.clone(), seed(&mut random, near)).against(&rivals);
        let mut host = world.host(server, 10_000 + repetition);
        host.is_stalled = is_stalled;
        let answers = loop {
            match search.ask() {
                Ok(answers) => break answers,
                Err(question) => {
                    let watch = search.watch(&question);
                    search.add(&host.probe(question, watch));
                }
            }
        };
        rivals = settings
            .targets
            .iter()
            .filter_map(|target| best(&rivals, &answers, &target.name, &config.name))
            .collect();
        let trials = answers.iter().zip(&truths[server]);
        let name = format!("world {index}.{repetition}, server {server}");
        group.push(
            trials
                .map(|(answer, truth)| Some(Trial::new(name.clone(), answer, &search, &settings, (*truth)?)))
                .collect(),
        );
    }
    group
}

fn best(rivals: &[Rival], answers: &[Answer], target: &str, server: &str) -> Option<Rival> {
    let known = rivals.iter().find(|rival| rival.target == target);
    let found = answers.iter().find(|answer| answer.target == target);
    match found.and_then(|answer| answer.found.value()) {
        Some(load) if known.is_none_or(|known| load > known.load) => Some(Rival {
            target: target.to_owned(),
            server: server.to_owned(),
            load,
            forecast: None,
        }),
        _ => known.cloned(),
    }
}

/// Draws a first guess of a random kind. Its error is typical of that kind.
fn seed(random: &mut Random, near: f64) -> Seed {
    let of = |value: f64, factor: f64, basis: SeedBasis| Seed { value, factor, basis };
    match random.between(0.0, 1.0) {
        kind if kind < 0.3 => of(near * random.log_between(0.96, 1.04), 2.0, SeedBasis::Forecast),
        kind if kind < 0.55 => of(near * random.log_between(0.5, 2.0), 2.0, SeedBasis::Forecast),
        kind if kind < 0.75 => of(near * random.log_between(0.65, 1.5), 1.6, SeedBasis::Neighbour),
        kind if kind < 0.87 => of(near * random.log_between(0.25, 4.0), 3.0, SeedBasis::KvCapacity),
        _ => Seed::UNKNOWN,
    }
}
