//! Searches of servers that are invented here: disturbed machines, low loads, and limits that lie between two neighbouring loads.

use std::time::Duration;
use vsweep_strategy::search::{
    Answer, Criterion, Found, Probe, Question, RequestLatencies, Requests, Search, Seed, Settings, Stalls, Target, Vary,
};

const CRITERION: (&str, &str) = ("p95_ttft_ms", "<=150");

/// Random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (first, second) = (self.uniform().max(1e-12), self.uniform());
        (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
    }
}

/// A server whose p95 of TTFT in ms follows the load, with noise from run to run and from request to request.
struct Server<'a> {
    p95_ms: &'a dyn Fn(f64) -> f64,
    run_noise: f64,
    spread: f64,
    random: Random,
    /// True if its load generator stalls for 250 ms every 4 s.
    is_stalled: bool,
}

impl<'a> Server<'a> {
    fn new(seed: u64, p95_ms: &'a dyn Fn(f64) -> f64) -> Server<'a> {
        Server {
            p95_ms,
            run_noise: 0.03,
            spread: 0.1,
            random: Random(seed),
            is_stalled: false,
        }
    }

    /// Delays a request that is under way during a stall.
    fn stall(&mut self, request: &mut RequestLatencies) {
        let (length_ms, every_ms) = (250.0, 4000.0);
        let next_ms = every_ms * self.random.uniform();
        let is_soon_after = every_ms - next_ms < 4.0 * length_ms;
        let is_met = next_ms < request.ttft_ms || every_ms - next_ms < length_ms;
        if is_met {
            request.ttft_ms += length_ms * self.random.uniform();
            request.e2el_ms = request.ttft_ms;
        }
        let most = if is_met || is_soon_after { length_ms } else { 0.0 };
        request.stalls = Some(Stalls {
            calm_ms: if is_soon_after { 0.0 } else { next_ms },
            of_ttft_ms: most,
            of_e2el_ms: most,
        });
    }

    /// The run that a search asks for, cut where its watch cuts it.
    fn measure(&mut self, search: &Search, question: Question) -> Probe {
        let of_run = (self.run_noise * self.random.normal() - 1.645 * self.spread).exp();
        let typical = (self.p95_ms)(question.value) * of_run;
        let request = |ttft_ms: f64| RequestLatencies {
            ttft_ms,
            tpot_ms: 1.0,
            e2el_ms: ttft_ms,
            ..RequestLatencies::default()
        };
        let count = 0..question.requests;
        let mut requests: Vec<RequestLatencies> = count
            .map(|_| request(typical * (self.spread * self.random.normal()).exp()))
            .collect();
        if self.is_stalled {
            requests.iter_mut().for_each(|request| self.stall(request));
            let probe = Probe::read(question, &[target()], Vary::MaxConcurrency, |_| None, &requests, None);
            return probe.disturbed_by(vec!["generator_stalled".to_owned()]);
        }
        let mut watch = search.watch(&question);
        let wave = |place: usize| Duration::from_secs(place as u64 / question.value as u64);
        let mut ends = requests.iter().enumerate();
        let cut = ends.find_map(|(place, request)| {
            let span = wave(place)..wave(place) + Duration::from_secs(1);
            watch.note_end(*request, span, question.value as u64 - 1)
        });
        Probe::read(
            question,
            &[target()],
            Vary::MaxConcurrency,
            |_| None,
            &requests,
            cut.as_ref(),
        )
    }
}

fn target() -> Target {
    let criterion = Criterion::metric(CRITERION.0, CRITERION.1).expect("valid in this test");
    Target {
        name: "chat".into(),
        criteria: vec![criterion],
    }
}

fn settings() -> Settings {
    Settings {
        upper: 512.0,
        requests: Requests {
            per_value: 4.0,
            min: 100,
            max: 2000,
        },
        ..Settings::new(Vary::MaxConcurrency, vec![target()])
    }
}

/// Searches to the end; `spoil` makes of a run what a disturbance makes of it.
fn search(seed: Seed, server: &mut Server<'_>, mut spoil: impl FnMut(usize, Probe) -> Probe) -> (Answer, Vec<Probe>) {
    let mut search = Search::new(settings(), seed);
    loop {
        match search.ask() {
            Ok(answers) => return (answers[0].clone(), search.probes().to_vec()),
            Err(question) => {
                let probe = server.measure(&search, question);
                let probe = spoil(search.probes().len(), probe);
                search.add(&probe);
            }
        }
    }
}

fn calm(_: usize, probe: Probe) -> Probe {
    probe
}

/// A run in which requests were late because the generator stood still.
fn stalled(probe: Probe) -> Probe {
    let question = probe.question.clone();
    let late = vec![
        RequestLatencies {
            ttft_ms: 400.0,
            tpot_ms: 1.0,
            e2el_ms: 400.0,
            ..RequestLatencies::default()
        };
        question.requests as usize
    ];
    let probe = Probe::read(question, &[target()], Vary::MaxConcurrency, |_| None, &late, None);
    probe.disturbed_by(vec!["generator_stalled".to_owned()])
}

fn knee(load: f64) -> f64 {
    let part = load / 80.5;
    120.0 + 24.0 * (part - 1.0) + 1000.0 * (part - 0.97).max(0.0)
}

fn jump(load: f64) -> f64 {
    let part = load / 80.5;
    if part <= 1.0 { 139.0 * part.sqrt() } else { 300.0 * part }
}

#[test]
fn a_disturbed_run_fails_no_load_and_is_repeated() {
    for seed in 0..5 {
        let mut server = Server::new(seed, &knee);
        let every_third = |place: usize, probe| if place % 3 == 1 { stalled(probe) } else { probe };
        let (answer, probes) = search(Seed::UNKNOWN, &mut server, every_third);
        assert!(
            answer.found.value().is_some_and(|load| (72.0..=80.0).contains(&load)),
            "{answer:?}"
        );
        let disturbed = probes.iter().filter(|probe| probe.is_disturbed()).count();
        assert_eq!((answer.disturbed, answer.probes), (disturbed, probes.len()));
        let words = format!("{disturbed} of {} runs disturbed (generator stalled)", probes.len());
        assert_eq!(answer.disturbance(|code| code.replace('_', " ")), Some(words));
        let repeats = probes.windows(2).filter(|pair| pair[0].is_disturbed());
        assert!(repeats.clone().count() > 0, "{answer:?}");
        for pair in repeats {
            assert_eq!(pair[0].question.value, pair[1].question.value);
        }
    }
}

#[test]
fn a_generator_that_stalls_now_and_then_finds_the_limit() {
    for seed in 0..10 {
        let mut server = Server {
            is_stalled: true,
            ..Server::new(seed, &knee)
        };
        let (answer, probes) = search(Seed::UNKNOWN, &mut server, calm);
        assert!(
            answer.found.value().is_some_and(|load| (72.0..=80.0).contains(&load)) && answer.high >= 80.0,
            "{answer:?}"
        );
        assert_eq!(answer.disturbed, probes.len());
    }
}

#[test]
fn a_machine_that_is_always_disturbed_decides_nothing() {
    let (answer, probes) = search(Seed::UNKNOWN, &mut Server::new(1, &knee), |_, probe| stalled(probe));
    assert_eq!((answer.found, probes.len()), (Found::Undecided, settings().max_probes));
    assert_eq!(
        answer.disturbance(str::to_owned).expect("all of them"),
        "16 of 16 runs disturbed (generator_stalled)"
    );
    assert!(
        answer.notes[0].contains("missed the target while disturbed"),
        "{answer:?}"
    );
    assert!(answer.posterior.is_some_and(|prior| prior.quantiles.len() > 1));
}

#[test]
fn where_every_run_at_a_load_is_disturbed_a_lower_one_is_held() {
    let busy = |_: usize, probe: Probe| {
        if probe.question.value > 30.0 {
            stalled(probe)
        } else {
            probe
        }
    };
    let (answer, probes) = search(Seed::forecast(96.0), &mut Server::new(5, &knee), busy);
    assert_eq!(answer.found, Found::Undecided, "{answer:?}");
    assert!(probes.iter().any(|probe| probe.question.value <= 30.0), "{probes:?}");
    assert!(answer.notes[0].starts_with("concurrency "), "{answer:?}");
}

#[test]
fn a_load_that_only_disturbed_runs_missed_is_no_limit() {
    let above = |limit: f64| {
        move |_: usize, probe: Probe| {
            if probe.question.value > limit {
                stalled(probe)
            } else {
                probe
            }
        }
    };
    let (answer, _) = search(Seed::UNKNOWN, &mut Server::new(2, &|_| 100.0), above(40.0));
    assert_eq!(
        (answer.found, answer.high),
        (Found::Undecided, f64::INFINITY),
        "{answer:?}"
    );
    assert!(
        answer.notes[0].contains("met the target, but not beyond doubt"),
        "{answer:?}"
    );
}

#[test]
fn a_disturbed_run_shows_that_a_load_is_held() {
    let disturbed = |_: usize, probe: Probe| {
        let is_missed = probe.readings.values().any(|reading| !reading.met);
        match is_missed {
            true => probe,
            false => probe.disturbed_by(vec!["gpu_not_alone".to_owned()]),
        }
    };
    let (answer, _) = search(Seed::UNKNOWN, &mut Server::new(3, &knee), disturbed);
    assert!(
        answer.found.value().is_some_and(|load| (60.0..=80.0).contains(&load)),
        "{answer:?}"
    );
}

#[test]
fn where_loads_separate_the_limit_is_found_between_neighbours() {
    let starts = [Seed::UNKNOWN, Seed::forecast(96.0), Seed::forecast(48.0)];
    let curves: [&dyn Fn(f64) -> f64; 2] = [&knee, &jump];
    for curve in curves {
        let found = (0..10).map(|seed| {
            let mut server = Server::new(100 + seed, curve);
            let (answer, probes) = search(starts[seed as usize % 3], &mut server, calm);
            (answer.found.value().unwrap_or(0.0), probes.len())
        });
        let found: Vec<(f64, usize)> = found.collect();
        let is_near = |(load, runs): &&(f64, usize)| (75.0..=80.0).contains(load) && *runs <= 14;
        assert!(found.iter().filter(is_near).count() >= 9, "{found:?}");
    }
}

#[test]
fn one_user_and_two_are_told_apart() {
    for (limit, seed) in [1.5, 2.5, 3.5]
        .into_iter()
        .flat_map(|limit| (0..6).map(move |seed| (limit, seed)))
    {
        let curve = |load: f64| 150.0 * (load / limit).powf(0.6);
        let (answer, probes) = search(Seed::UNKNOWN, &mut Server::new(seed, &curve), calm);
        assert_eq!(answer.found, Found::Met(f64::floor(limit)), "{answer:?}");
        let values: Vec<f64> = probes.iter().map(|probe| probe.question.value).collect();
        let repeated = values.windows(2).position(|pair| pair == [1.0, 1.0]);
        let before = repeated.map_or(&values[..], |place| &values[..=place]);
        assert!(repeated.is_none() || before.contains(&2.0), "{values:?}");
        for probe in probes.iter().filter(|probe| probe.question.value > limit) {
            assert!(
                probe.readings.values().all(|reading| !reading.met),
                "the curve is not clear enough"
            );
        }
    }
}

#[test]
fn an_answer_that_may_be_one_user_off_says_so() {
    let answer = Answer {
        within: Some(1.0),
        is_coarse: true,
        ..search(Seed::UNKNOWN, &mut Server::new(4, &knee), calm).0
    };
    assert_eq!(answer.words(), "met, within 100 %");
}

#[test]
fn a_low_load_that_passed_twice_is_held() {
    // Too noisy to decide from the curve alone.
    for seed in 0..10 {
        let curve = |load: f64| if load < 3.0 { 60.0 + 30.0 * load } else { 100.0 * load };
        let mut server = Server {
            run_noise: 0.25,
            ..Server::new(seed, &curve)
        };
        let (answer, probes) = search(Seed::UNKNOWN, &mut server, calm);
        let runs = |load: f64| probes.iter().filter(move |probe| probe.question.value == load);
        let has_met = |probe: &Probe| probe.readings.values().all(|reading| reading.met);
        let (count, met) = (runs(2.0).count(), runs(2.0).filter(|probe| has_met(probe)).count());
        let lowest = runs(1.0).all(has_met);
        if count >= 2 && met == count && lowest {
            assert!(answer.found.value().is_some_and(|load| load >= 2.0), "{answer:?}");
        }
        let ones = runs(1.0).count();
        assert!(
            ones < 2 || runs(2.0).count() > 0,
            "1 was repeated, and 2 never tried: {answer:?}"
        );
    }
}

/// A run at so low a load that it did not end in time.
fn slow_below(load: f64) -> impl FnMut(usize, Probe) -> Probe {
    move |_, probe| match probe.question.value < load {
        true => Probe::without_figures(probe.question),
        false => probe,
    }
}

#[test]
fn loads_too_low_to_end_in_time_are_left_alone() {
    for seed in 0..20 {
        let curve = |load: f64| 100.0 + 2.2 * load;
        let mut server = Server {
            run_noise: 0.2,
            ..Server::new(seed, &curve)
        };
        let (answer, probes) = search(Seed::UNKNOWN, &mut server, slow_below(8.0));
        let slow: Vec<f64> = probes
            .iter()
            .map(|probe| probe.question.value)
            .filter(|load| *load < 8.0)
            .collect();
        assert!(slow.len() <= 2, "{slow:?}: {answer:?}");
        assert!(slow.is_sorted_by(|a, b| *b >= 2.0 * a), "{slow:?}");
        assert_ne!(answer.found, Found::None, "{answer:?}");
    }
}

#[test]
fn a_limit_below_the_loads_that_end_in_time_is_undecided() {
    let curve = |load: f64| 100.0 * load;
    let (answer, probes) = search(Seed::UNKNOWN, &mut Server::new(7, &curve), slow_below(8.0));
    assert_eq!(answer.found, Found::Undecided, "{answer:?}");
    assert!(probes.len() < settings().max_probes, "it went on: {probes:?}");
    assert!(
        answer.notes.iter().any(|note| note.contains("do not end in time")),
        "{answer:?}"
    );
}
