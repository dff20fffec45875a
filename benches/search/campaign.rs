//! Searches of drawn plans in virtual time, judged by where their limits truly lie. Of each world, limits that are not known to
//! one percent are left out.

use crate::random::Random;
use crate::truth::Truth;
use crate::worlds::World;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use vsweep::search::{Answer, Basis, Found, Next, Probe, Rival, Search, Seed, Settings, Vary, wilson};

/// The first world that judges: the method was made with those below.
const JUDGED: u64 = 20_000;
/// Where one run places a limit to within this, a search is held to the tolerance and to a number of runs.
const SHARP: f64 = 0.035;
/// Below so many users one more or less is within the tolerance.
const FEW: f64 = 20.0;

/// An answer, and the truth.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Trial {
    /// What was searched, and each load with the margin of its run, for people.
    name: String,
    probes: String,
    pub found: Found,
    pub interval: [f64; 2],
    pub runs: usize,
    pub tolerance: f64,
    pub vary: Vary,
    pub truth: Truth,
}

impl Trial {
    pub fn new(name: String, answer: &Answer, search: &Search, settings: &Settings, truth: Truth) -> Trial {
        let asked = |name: &String| *name == answer.target;
        Trial {
            name: format!("{name}, {}", answer.target),
            probes: said(search, settings, &answer.target),
            found: answer.found,
            interval: [answer.low, answer.high],
            runs: search
                .probes()
                .iter()
                .filter(|probe| asked(&probe.question.target))
                .count(),
            tolerance: settings.tolerance,
            vary: settings.vary,
            truth,
        }
    }

    fn is_sharp(&self) -> bool {
        self.truth.one_run <= SHARP
    }

    /// Whether the limit lies in the interval.
    fn is_covered(&self) -> bool {
        let [low, high] = self.interval;
        match self.found {
            Found::Beyond(value) => self.truth.high >= value,
            _ => low <= self.truth.high && self.floor(high) >= self.floor(self.truth.low),
        }
    }

    /// Whether the answer lies above the limit by more than is open about the limit.
    fn is_unsafe(&self) -> bool {
        let limit = self.truth.highest(self.vary).max(self.truth.high);
        self.found.value().is_some_and(|value| value > limit)
    }

    /// Prints an answer above the limit, with what led to it.
    pub fn tell_if_unsafe(&self) {
        if self.is_unsafe() {
            let Trial {
                name,
                found,
                truth,
                probes,
                ..
            } = self;
            println!("above the limit: {name}: {found:?}, {truth:.3?}, by {probes}");
        }
    }

    /// Whether the answer lies no farther below the limit than was asked for.
    fn is_near(&self) -> bool {
        let limit = self.truth.highest(self.vary);
        let is_near = |value: f64| {
            let few = self.vary == Vary::MaxConcurrency && limit < FEW && value >= limit - 1.0;
            few || value >= limit * (1.0 - self.tolerance)
        };
        self.found.value().is_some_and(is_near)
    }

    fn floor(&self, load: f64) -> f64 {
        if self.vary == Vary::MaxConcurrency {
            load.floor()
        } else {
            load
        }
    }
}

fn said(search: &Search, settings: &Settings, target: &str) -> String {
    let criteria = settings
        .targets
        .iter()
        .filter(|own| own.name == target)
        .flat_map(|own| &own.criteria);
    let texts: Vec<String> = criteria.map(ToString::to_string).collect();
    let of_probe = |probe: &Probe| {
        let margins = texts
            .iter()
            .filter_map(|text| probe.readings.get(text))
            .map(|reading| reading.margin());
        format!("{} {:+.3}", probe.question.value, margins.fold(f64::NAN, f64::max))
    };
    let all: Vec<String> = search.probes().iter().map(of_probe).collect();
    format!("{}: {}", texts.join(", "), all.join("; "))
}

/// Near which load the limits of the plans of real searches lie, roughly.
const AIM: f64 = 60.0;

/// Searches worlds on every core: drawn ones, or those of the real searches' plans.
pub fn run(is_drawn: bool) -> ExitCode {
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
            let tally = Tally::of(&world, number, searches);
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
    report(&tally.trials, &tally.chosen)
}

/// What came of worlds so far.
#[derive(Default)]
struct Tally {
    searches: usize,
    trials: Vec<Trial>,
    /// Answers whose limit is not known well enough to judge them.
    unknown: usize,
    chosen: Vec<f64>,
}

impl Tally {
    fn of(world: &World, index: u64, searches: u64) -> Tally {
        let truths = |server: usize| -> Vec<Option<Truth>> {
            let targets = world.servers[server].1.settings.targets.iter();
            targets.map(|target| Truth::find(world, server, target)).collect()
        };
        let truths: Vec<Vec<Option<Truth>>> = (0..world.servers.len()).map(truths).collect();
        let mut tally = Tally::default();
        for repetition in 0..searches {
            let group = search_all(world, &truths, index, repetition);
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

/// Searches every server of a world one after another; for each, its answers.
fn search_all(world: &World, truths: &[Vec<Option<Truth>>], index: u64, repetition: u64) -> Vec<Vec<Option<Trial>>> {
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
        let answers = loop {
            match search.ask() {
                Next::Done(answers) => break answers,
                Next::Probe(question) => {
                    let watch = search.watch(&question);
                    search.tell(&host.probe(question, watch));
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

/// A first guess of any kind, as far off as those kinds are.
fn seed(random: &mut Random, near: f64) -> Seed {
    let of = |value: f64, factor: f64, basis: Basis| Seed {
        value,
        factor,
        basis: Some(basis),
    };
    match random.between(0.0, 1.0) {
        kind if kind < 0.3 => of(near * random.log_between(0.96, 1.04), 2.0, Basis::Forecast),
        kind if kind < 0.55 => of(near * random.log_between(0.5, 2.0), 2.0, Basis::Forecast),
        kind if kind < 0.75 => of(near * random.log_between(0.65, 1.5), 1.6, Basis::Neighbour),
        kind if kind < 0.87 => of(near * random.log_between(0.25, 4.0), 3.0, Basis::KvCapacity),
        _ => Seed::UNKNOWN,
    }
}

/// For each target of a group of servers, what the server with the highest answer truly holds of what the best one holds.
pub fn choices(group: &[Vec<Option<Trial>>], truths: &[Vec<Option<Truth>>], vary: Vary) -> Vec<f64> {
    let targets = if group.len() > 1 { group[0].len() } else { 0 };
    let of_target = |target: usize| {
        let limits: Option<Vec<f64>> = truths
            .iter()
            .map(|server| Some(server[target]?.highest(vary)))
            .collect();
        let limits = limits?;
        let answers = group.iter().map(|server| server[target].as_ref()?.found.value());
        let answers: Vec<f64> = answers.map(|value| value.unwrap_or(0.0)).collect();
        let highest = answers.iter().copied().fold(0.0, f64::max);
        let chosen = answers.iter().position(|answer| *answer == highest)?;
        Some(limits[chosen] / limits.iter().copied().fold(0.0, f64::max))
    };
    (0..targets).filter_map(of_target).collect()
}

/// Prints the figures that decide; fails where one is missed.
pub fn report(trials: &[Trial], chosen: &[f64]) -> ExitCode {
    let share = |of: &[&Trial], is: &dyn Fn(&Trial) -> bool| {
        if of.is_empty() {
            return (100.0, "no such answer".to_owned());
        }
        let hits = of.iter().filter(|trial| is(trial)).count() as u64;
        let (low, high) = wilson(hits, of.len() as u64, 1.96);
        let percent = 100.0 * hits as f64 / of.len() as f64;
        (
            percent,
            format!("{percent:.1} % ({:.1}-{:.1})", 100.0 * low, 100.0 * high),
        )
    };
    let all: Vec<&Trial> = trials.iter().collect();
    let sharp: Vec<&Trial> = trials.iter().filter(|trial| trial.is_sharp()).collect();
    let mut runs: Vec<f64> = sharp.iter().map(|trial| trial.runs as f64).collect();
    let (median, most) = (quantile(&mut runs, 0.5), quantile(&mut runs, 0.9));
    let covered = share(&all, &Trial::is_covered);
    let above = share(&all, &Trial::is_unsafe);
    let near = share(&sharp, &Trial::is_near);
    let mut chosen = chosen.to_vec();
    let (usual, worst) = (quantile(&mut chosen, 0.05), quantile(&mut chosen, 0.0));
    let elsewhere: Vec<&Trial> = trials.iter().filter(|trial| !trial.is_sharp()).collect();
    let honest = share(&elsewhere, &Trial::is_covered);
    let rows = [
        ("limits in the interval, 90 % wanted", covered.1, covered.0 >= 90.0),
        ("answers above the limit, at most 1 %", above.1, above.0 <= 1.0),
        ("sharp: within the tolerance, 80 % wanted", near.1, near.0 >= 80.0),
        ("sharp: runs, median at most 8", median.to_string(), median <= 8.0),
        ("sharp: runs, 90 % quantile at most 12", most.to_string(), most <= 12.0),
        (
            "elsewhere: limits in the interval, 90 % wanted",
            honest.1,
            honest.0 >= 90.0,
        ),
        (
            "chosen server holds of the best, 5 % quantile",
            format!("{usual:.3} (lowest {worst:.3})"),
            usual >= 0.97,
        ),
    ];
    println!("{} answers, {} sharp, {} choices", all.len(), sharp.len(), chosen.len());
    for (what, figure, is_kept) in &rows {
        println!("{what:<50} {figure:<24} {}", if *is_kept { "kept" } else { "MISSED" });
    }
    ExitCode::from(u8::from(!rows.iter().all(|(.., is_kept)| *is_kept)))
}

fn quantile(values: &mut [f64], p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len().max(1) - 1) as f64 * p).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}
