//! Criteria that only a higher load meets: lower limits of throughput and goodput.

use vsweep::search::{Answer, Criterion, Probe, Question, Reading, Search, Seed, Settings, Target, Vary, Verdict};

fn target(name: &str, criteria: &[(&str, &str)]) -> Target {
    let criterion = |(key, condition): &(&str, &str)| Criterion::metric(key, condition).expect("valid in this test");
    Target {
        name: name.into(),
        criteria: criteria.iter().map(criterion).collect(),
    }
}

/// A server with two requests per second for each in flight, up to 160. Its p99 TTFT is 5 ms for each in flight. Of its requests 90 % are
/// in time up to 100 in flight, and 45 % above.
fn metric(key: &str, load: f64) -> Option<f64> {
    let served = (2.0 * load).min(160.0);
    Some(match key {
        "request_throughput" => served,
        "request_goodput" if load <= 100.0 => 0.9 * served,
        "request_goodput" => 0.45 * served,
        _ => 5.0 * load,
    })
}

fn readings(settings: &Settings, load: f64) -> impl Iterator<Item = (String, Reading)> {
    let criteria = settings.targets.iter().flat_map(|target| &target.criteria);
    criteria.map(move |criterion| {
        let reading = criterion.read(Vary::MaxConcurrency, |key| metric(key, load), &[]);
        (criterion.to_string(), reading.expect("every metric is known"))
    })
}

fn measured(settings: &Settings, question: Question) -> Probe {
    let readings = readings(settings, question.value).collect();
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

fn answers(targets: Vec<Target>, seed: f64) -> Vec<Answer> {
    let mut settings = Settings::new(Vary::MaxConcurrency, targets);
    settings.upper = 256.0;
    let mut search = Search::new(settings.clone(), Seed::neighbour(seed));
    loop {
        match search.ask() {
            Ok(answers) => return answers,
            Err(question) => search.add(&measured(&settings, question)),
        }
    }
}

#[test]
fn a_load_that_is_too_low_for_a_throughput_does_not_send_the_search_down() {
    for seed in [2.0, 30.0, 200.0] {
        let found = answers(
            vec![
                target("both", &[("request_throughput", ">=100"), ("p99_ttft_ms", "<=500")]),
                target("throughput alone", &[("request_throughput", ">=150")]),
                target("goodput", &[("request_goodput", ">=120")]),
                target("early", &[("p99_ttft_ms", "<=25")]),
            ],
            seed,
        );
        let shown = |answer: &Answer| (answer.found.word(), answer.found.value());
        let (word, value) = shown(&found[0]);
        assert!(
            word == "met" && value.is_some_and(|value| (90.0..=100.0).contains(&value)),
            "{found:?}"
        );
        assert_eq!(found[0].binding.as_deref(), Some("p99_ttft_ms<=500"));
        assert_eq!(shown(&found[1]), ("beyond", Some(256.0)));
        let (word, value) = shown(&found[2]);
        assert!(
            word == "met" && value.is_some_and(|value| (90.0..=100.0).contains(&value)),
            "{found:?}"
        );
        assert!(
            found
                .iter()
                .all(|answer| answer.notes.iter().all(|note| !note.contains("monotone"))),
            "{found:?}"
        );
    }
}

#[test]
fn a_throughput_that_no_bearable_load_brings_is_not_met() {
    let found = answers(
        vec![
            target("both", &[("request_throughput", ">=90"), ("p99_ttft_ms", "<=100")]),
            target("too much", &[("request_throughput", ">=200")]),
            target("all in time", &[("request_goodput", ">=200")]),
        ],
        8.0,
    );
    for (answer, binding) in found.iter().zip([
        "request_throughput>=90",
        "request_throughput>=200",
        "request_goodput>=200",
    ]) {
        assert_eq!(
            (answer.found.word(), answer.found.value()),
            ("none", None),
            "{answer:?}"
        );
        assert_eq!(answer.binding.as_deref(), Some(binding));
        assert!(answer.notes[0].contains("brings too little"), "{answer:?}");
    }
}

#[test]
fn above_a_load_with_enough_goodput_no_load_is_too_low() {
    let targets = vec![target("goodput", &[("request_goodput", ">=120")])];
    let settings = Settings::new(Vary::MaxConcurrency, targets);
    let mut search = Search::new(settings.clone(), Seed::neighbour(80.0));
    let run = |value: f64| {
        let question = Question {
            target: "goodput".into(),
            value,
            requests: 1000,
            confirm: false,
            draw: 0,
        };
        measured(&settings, question)
    };
    let lucky = Probe {
        readings: readings(&settings, 80.0).collect(),
        ..run(200.0)
    };
    [run(20.0), run(150.0), run(80.0), lucky]
        .iter()
        .for_each(|probe| search.add(probe));
    let starved = search
        .probes()
        .iter()
        .map(|probe| probe.readings.values().any(|reading| reading.starved));
    assert_eq!(starved.collect::<Vec<bool>>(), [true, false, false, false]);
}

#[test]
fn a_run_that_one_target_stopped_says_nothing_of_another() {
    let targets = vec![
        target("short", &[("p99_ttft_ms", "<=100")]),
        target("many", &[("request_throughput", ">=10"), ("p99_itl_ms", "<=500")]),
    ];
    let settings = Settings::new(Vary::MaxConcurrency, targets);
    let mut search = Search::new(settings.clone(), Seed::neighbour(64.0));
    let Err(question) = search.ask() else {
        panic!("nothing is known yet")
    };
    let failed = readings(&settings, 64.0).filter(|(text, _)| text.starts_with("p99_ttft"));
    search.add(&Probe {
        question,
        stopped: Some(Verdict::Fail),
        readings: failed.collect(),
        served: None,
        throughput: None,
        is_outrun: false,
        disturbances: Vec::new(),
    });
    // A search for the second target alone starts from its seed, as if nothing had been measured.
    let alone = Settings {
        targets: settings.targets[1..].to_vec(),
        ..settings.clone()
    };
    let mut second = Search::new(alone, Seed::neighbour(64.0));
    // The number of the draw grows with every reported run, so it is ignored here.
    let asked = |search: &Search| match search.ask() {
        Err(question) => Question { draw: 0, ..question },
        Ok(answers) => panic!("one run is no answer: {answers:?}"),
    };
    let before = asked(&second);
    second.add(&search.probes()[0]);
    assert_eq!(asked(&second), before);
}
