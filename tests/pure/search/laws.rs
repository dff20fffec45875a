//! Laws that vsweep's own search keeps, on curves with noise.

use proptest::prelude::*;
use std::collections::BTreeMap;
use vsweep::search::{
    Answer, Criterion, Found, Probe, Question, Reading, RequestLatencies, Rival, Search, Seed, SeedBasis, Settings,
    Target, Vary,
};

fn target(name: &str, limit_ms: f64) -> Target {
    let criterion = Criterion::metric("p99_ttft_ms", &format!("<={limit_ms}")).expect("valid in this test");
    Target {
        name: name.into(),
        criteria: vec![criterion],
    }
}

/// A probe whose readings have no sampling error. The caller adds noise to `p99_ms`.
fn measure(settings: &Settings, question: Question, p99_ms: f64) -> Probe {
    let criteria = settings.targets.iter().flat_map(|target| &target.criteria);
    let readings: BTreeMap<String, Reading> = criteria
        .filter_map(|criterion| {
            Some((
                criterion.to_string(),
                criterion.read(Vary::MaxConcurrency, |_| Some(p99_ms), &[])?,
            ))
        })
        .collect();
    Probe {
        question,
        stopped: None,
        readings,
        served: None,
        throughput: None,
        is_outrun: false,
        disturbances: Vec::new(),
    }
}

/// Runs a search on `curve` with noise. Returns its answers, its probes and the p99 of each.
fn run(
    settings: &Settings,
    seed: Seed,
    noise: &[f64],
    curve: impl Fn(f64) -> f64,
) -> (Vec<Answer>, Vec<Probe>, Vec<f64>) {
    let mut search = Search::new(settings.clone(), seed);
    let mut measured = Vec::new();
    loop {
        match search.ask() {
            Ok(answers) => return (answers, search.probes().to_vec(), measured),
            Err(question) => {
                let p99_ms = curve(question.value) * noise[measured.len() % noise.len()].exp();
                measured.push(p99_ms);
                search.add(&measure(settings, question, p99_ms));
            }
        }
        assert!(
            measured.len() <= settings.max_probes * settings.targets.len(),
            "the search does not end"
        );
    }
}

/// Continues a search on `curve` without noise until it has its answers.
fn finish(search: &mut Search, settings: &Settings, curve: impl Fn(f64) -> f64) -> Vec<Answer> {
    loop {
        match search.ask() {
            Ok(answers) => return answers,
            Err(question) => {
                let p99_ms = curve(question.value);
                search.add(&measure(settings, question, p99_ms));
            }
        }
    }
}

fn hockey_stick(boundary: f64) -> impl Fn(f64) -> f64 {
    move |load| 500.0 * (1.0 + load / boundary + 20.0 * (load / boundary - 0.9).max(0.0)) / 4.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn an_answer_was_measured_and_passed_and_the_search_ends(
        boundary in 1.5f64..3000.0, guess in 1.0f64..1000.0, noise in prop::collection::vec(-0.05f64..0.05, 1..20),
    ) {
        let settings = Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)]);
        let (answers, probes, measured) = run(&settings, Seed::forecast(guess), &noise, hockey_stick(boundary));
        if let Some(value) = answers[0].found.value() {
            let runs: Vec<f64> =
                probes.iter().zip(&measured).filter(|(p, _)| p.question.value == value).map(|(_, ms)| *ms).collect();
            prop_assert!(!runs.is_empty());
            prop_assert!(runs.iter().map(|ms| ms.ln()).sum::<f64>() / (runs.len() as f64) <= 500f64.ln());
            prop_assert!(answers[0].low <= value && value <= answers[0].high);
        }
    }

    #[test]
    fn replaying_the_probes_asks_the_same_question_at_every_prefix(
        boundary in 1.5f64..3000.0, noise in prop::collection::vec(-0.05f64..0.05, 1..20),
    ) {
        let targets = vec![target("chat", 500.0), target("batch", 800.0)];
        let settings = Settings::new(Vary::MaxConcurrency, targets);
        let (answers, probes, _) = run(&settings, Seed::UNKNOWN, &noise, hockey_stick(boundary));
        for told in 0..=probes.len() {
            let mut replayed = Search::new(settings.clone(), Seed::UNKNOWN);
            for probe in &probes[..told] {
                let text = serde_json::to_string(probe).expect("valid in this test");
                replayed.add(&serde_json::from_str(&text).expect("valid in this test"));
            }
            match (replayed.ask(), probes.get(told)) {
                (Err(question), Some(next)) => prop_assert_eq!(&question, &next.question),
                (Ok(replayed), None) => prop_assert_eq!(&replayed, &answers),
                (next, _) => prop_assert!(false, "asked {next:?} after {told} of {}", probes.len()),
            }
        }
    }

    #[test]
    fn without_noise_the_answer_is_safe_and_near(boundary in 0.05f64..400.0) {
        let settings = Settings::new(Vary::RequestRate, vec![target("chat", 500.0)]);
        let seed = Seed { value: boundary * 1.4, factor: 2.0, basis: SeedBasis::Nothing };
        let (answers, ..) = run(&settings, seed, &[0.0], |load| 500.0 * (load / boundary).powf(1.5));
        let Found::Met(value) = answers[0].found else { return Err(TestCaseError::fail(format!("{answers:?}"))) };
        prop_assert!(value <= boundary && value >= boundary * 0.9, "{value} of {boundary}");
    }
}

#[test]
fn one_search_answers_several_targets_from_shared_probes() {
    let settings = Settings::new(
        Vary::MaxConcurrency,
        vec![target("strict", 300.0), target("chat", 500.0), target("batch", 501.0)],
    );
    let (answers, probes, _) = run(&settings, Seed::neighbour(90.0), &[0.0], hockey_stick(100.0));
    let values: Vec<f64> = answers
        .iter()
        .map(|answer| answer.found.value().expect("valid in this test"))
        .collect();
    assert!(values[0] < values[1] && values[1] <= values[2], "{values:?}");
    let batch = probes.iter().filter(|probe| probe.question.target == "batch").count();
    assert!(
        batch <= 1,
        "the last target is answered by the probes of the one before: {batch}"
    );
}

#[test]
fn none_and_beyond_are_said_as_such() {
    let settings = Settings {
        upper: 256.0,
        ..Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)])
    };
    let found = |p99_ms: f64| run(&settings, Seed::UNKNOWN, &[0.0], |_| p99_ms).0[0].clone();
    assert_eq!(
        (found(9999.0).found, found(1.0).found),
        (Found::None, Found::Beyond(256.0))
    );
    assert_eq!(found(9999.0).binding.as_deref(), Some("p99_ttft_ms<=500"));
}

#[test]
fn an_interval_ends_at_the_highest_load_allowed() {
    let settings = Settings {
        upper: 24.0,
        max_probes: 2,
        ..Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)])
    };
    let (answers, ..) = run(&settings, Seed::neighbour(16.0), &[0.0], |load| 30.0 * load);
    let answer = &answers[0];
    assert!(answer.high <= 24.0, "{answer:?}");
    let mut ends = answer.found.value().zip(answer.within).into_iter();
    assert!(
        ends.all(|(value, within)| value * (1.0 + within) <= 24.001),
        "{answer:?}"
    );
}

#[test]
fn a_dip_below_a_passing_load_is_noticed_and_the_answer_stays_below_it() {
    let settings = Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)]);
    // The first load is in the dip. All later loads lie below it.
    let curve = |load: f64| {
        if (60.0..70.0).contains(&load) {
            900.0
        } else {
            250.0 + 2.0 * load
        }
    };
    let (answers, ..) = run(&settings, Seed::neighbour(66.0), &[0.0], curve);
    assert!(
        answers[0].found.value().is_some_and(|value| value < 60.0),
        "{answers:?}"
    );
}

#[test]
fn a_response_that_is_not_monotone_is_said() {
    let settings = Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)]);
    let mut search = Search::new(settings.clone(), Seed::neighbour(64.0));
    let curve = |load: f64| {
        if (60.0..70.0).contains(&load) {
            900.0
        } else {
            250.0 + 2.0 * load
        }
    };
    let told = [100.0, 64.0].map(|value| Question {
        target: "chat".into(),
        value,
        requests: 1000,
        confirm: false,
        draw: 0,
    });
    for question in told {
        let p99_ms = curve(question.value);
        search.add(&measure(&settings, question, p99_ms));
    }
    let Err(again) = search.ask() else {
        panic!("a dip is measured again before it is believed")
    };
    assert_eq!(again.value, 64.0);
    let answers = finish(&mut search, &settings, curve);
    let answer = &answers[0];
    assert!(answer.found.value().is_some_and(|value| value < 60.0), "{answer:?}");
    assert!(answer.high <= 64.0, "{answer:?}");
    let dip = answer.notes.first().map_or("", String::as_str);
    assert!(dip.starts_with("not monotone: concurrency 6"), "{dip}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A failed load above the answer is either outside the interval or mentioned in a note.
    #[test]
    fn no_interval_reaches_silently_above_a_failure(boundary in 5.0f64..400.0, noise in prop::collection::vec(-0.05f64..0.05, 1..20)) {
        let settings = Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)]);
        let (answers, probes, measured) = run(&settings, Seed::UNKNOWN, &noise, hockey_stick(boundary));
        let answer = &answers[0];
        let mut failing = probes.iter().zip(&measured).filter(|(probe, p99_ms)| {
            // For a load that was measured several times, all its runs must have failed.
            let alike = || probes.iter().zip(&measured).filter(|(other, _)| other.question.value == probe.question.value);
            let all_fail = alike().all(|(_, p99_ms)| *p99_ms > 500.0);
            all_fail && **p99_ms > 500.0 && probe.question.value > answer.low && probe.question.value < answer.high
        });
        let is_said = answer.notes.iter().any(|note| note.contains("noise explains"));
        prop_assert!(is_said || failing.next().is_none(), "{:?}", answer);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A server is skipped only if it does not hold more than its rival, and skipping takes no more runs than an answer would.
    #[test]
    fn only_a_beaten_server_is_left(boundary in 10.0f64..400.0, ratio in 0.3f64..3.0) {
        let settings =
            Settings { skip_beaten: true, ..Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)]) };
        let load = (boundary * ratio).floor();
        let rival = Rival { target: "chat".into(), server: "other".into(), load, forecast: None };
        let seed = Seed::neighbour(load);
        let curve = hockey_stick(boundary);
        let mut search = Search::new(settings.clone(), seed).against(&[rival]);
        let answers = finish(&mut search, &settings, &curve);
        let answer = &answers[0];
        if answer.found == Found::Skipped {
            let (_, alone, _) = run(&settings, seed, &[0.0], &curve);
            prop_assert!(search.probes().len() <= alone.len());
            prop_assert!(boundary <= load + 1.0 && answer.high <= load && !answer.notes.is_empty(), "{answer:?}");
        } else {
            prop_assert!(ratio < 1.3, "{answer:?} for a rival at {load}");
        }
    }
}

#[test]
fn a_search_looks_closer_while_its_server_may_hold_as_much_as_another() {
    let settings = Settings {
        tolerance: 0.3,
        ..Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)])
    };
    let curve = |load: f64| 500.0 * (load / 100.0).powf(0.7);
    let held = |rivals: &[Rival]| {
        let mut search = Search::new(settings.clone(), Seed::neighbour(90.0)).against(rivals);
        finish(&mut search, &settings, curve)[0].clone()
    };
    let alone = held(&[]);
    let load = alone.found.value().expect("met") + 3.0;
    assert!(
        load < 99.0 && alone.high > load,
        "the test has lost its meaning: {alone:?}"
    );
    let rival = Rival {
        target: "chat".into(),
        server: "other".into(),
        load,
        forecast: None,
    };
    let answer = held(&[rival]);
    assert!(answer.found.value().is_some_and(|value| value >= load), "{answer:?}");
}

#[test]
fn a_server_that_falls_under_load_bounds_the_search() {
    let settings = Settings::new(Vary::MaxConcurrency, vec![target("chat", 500.0)]);
    let mut search = Search::new(settings.clone(), Seed::neighbour(64.0));
    let answers = loop {
        match search.ask() {
            Ok(answers) => break answers,
            Err(question) if question.value > 50.0 => search.add(&Probe {
                question,
                stopped: Some(vsweep::search::Verdict::Fail),
                readings: BTreeMap::new(),
                served: None,
                throughput: None,
                is_outrun: false,
                disturbances: Vec::new(),
            }),
            Err(question) => {
                let probe = measure(&settings, question, 200.0);
                search.add(&probe);
            }
        }
    };
    let value = answers[0].found.value().expect("valid in this test");
    assert!((45.0..=50.0).contains(&value), "{answers:?}");
    assert!(
        answers[0]
            .notes
            .iter()
            .any(|note| note.contains("the run itself failed")),
        "{answers:?}"
    );
}

#[test]
fn attainment_and_goodput_count_together() {
    let limits = vec![vsweep::search::RequestLimit::parse("ttft_ms", "<500").expect("valid in this test")];
    let criteria = vec![
        Criterion::attainment(limits, ">=99%").expect("valid in this test"),
        Criterion::metric("request_goodput", ">=5").expect("valid in this test"),
    ];
    let settings = Settings::new(
        Vary::MaxConcurrency,
        vec![Target {
            name: "chat".into(),
            criteria: criteria.clone(),
        }],
    );
    let mut search = Search::new(settings, Seed::neighbour(30.0));
    let answers = loop {
        match search.ask() {
            Ok(answers) => break answers,
            Err(question) => {
                let ttft_ms = question.value * 10.0;
                let requests = vec![
                    RequestLatencies {
                        ttft_ms,
                        tpot_ms: 1.0,
                        e2el_ms: ttft_ms,
                        ..RequestLatencies::default()
                    };
                    500
                ];
                let readings = criteria
                    .iter()
                    .map(|c| {
                        (
                            c.to_string(),
                            c.read(Vary::MaxConcurrency, |_| Some(question.value), &requests)
                                .expect("valid in this test"),
                        )
                    })
                    .collect();
                search.add(&Probe {
                    question,
                    stopped: None,
                    readings,
                    served: None,
                    throughput: None,
                    is_outrun: false,
                    disturbances: Vec::new(),
                });
            }
        }
    };
    assert_eq!(answers[0].binding.as_deref(), Some("share(ttft_ms<500)>=0.99"));
    assert!(
        (45.0..50.0).contains(&answers[0].found.value().expect("valid in this test")),
        "{answers:?}"
    );
}
