//! The evidence that a search uses: independent random draws for each run, requests pooled over all runs of a load, a distance from loads
//! that failed, and rates that the server sustains.

use std::time::Duration;
use vsweep::search::{
    Answer, Criterion, Found, Probe, Question, RequestLatencies, Requests, Search, Seed, Settings, Target, Vary,
};

fn settings(vary: Vary, requests: u64) -> Settings {
    let target = Target {
        name: "chat".into(),
        criteria: vec![Criterion::metric("p99_ttft_ms", "<=500").expect("valid in this test")],
    };
    Settings {
        requests: Requests {
            per_value: 0.0,
            min: requests,
            max: requests,
        },
        ..Settings::new(vary, vec![target])
    }
}

/// A run in which `late` requests take 510 ms and all others `ttft_ms`.
fn run(settings: &Settings, question: Question, ttft_ms: f64, late: usize) -> Probe {
    let criterion = &settings.targets[0].criteria[0];
    let request = |ttft_ms: f64| RequestLatencies {
        ttft_ms,
        tpot_ms: 1.0,
        e2el_ms: ttft_ms,
        ..RequestLatencies::default()
    };
    let in_time = question.requests as usize - late;
    let mut requests = vec![request(ttft_ms); in_time];
    requests.extend(vec![request(510.0); late]);
    let p99_ms = requests[requests.len() * 99 / 100].ttft_ms;
    let reading = criterion.read(settings.vary, |_| Some(p99_ms), &requests);
    Probe {
        question,
        stopped: None,
        readings: [(criterion.to_string(), reading.expect("it was measured"))].into(),
        served: Some(75.0),
        throughput: None,
        is_outrun: false,
        disturbances: Vec::new(),
    }
}

fn question(value: f64, requests: u64) -> Question {
    Question {
        target: "chat".into(),
        value,
        requests,
        confirm: true,
        draw: 0,
    }
}

#[test]
fn every_run_of_a_search_is_a_draw_of_its_own() {
    let settings = settings(Vary::RequestRate, 400);
    let mut search = Search::new(settings.clone(), Seed::neighbour(20.0));
    let mut draws = Vec::new();
    while let Err(question) = search.ask() {
        draws.push(question.draw);
        let ttft_ms = 20.0 * question.value;
        search.add(&run(&settings, question, ttft_ms, 0));
    }
    assert!(draws.len() > 1);
    assert_eq!(draws, (0..draws.len() as u32).collect::<Vec<_>>());
}

/// Returns the answers after three runs of 500 requests at a load of 50. `late` has the number of late requests in each run.
fn answers_after(late: [usize; 3]) -> Vec<Answer> {
    let settings = Settings {
        max_probes: 3,
        ..settings(Vary::MaxConcurrency, 500)
    };
    let mut search = Search::new(settings.clone(), Seed::neighbour(50.0));
    for late in late {
        search.add(&run(&settings, question(50.0, 500), 250.0, late));
    }
    let Ok(answers) = search.ask() else {
        panic!("three runs were allowed")
    };
    answers
}

#[test]
fn a_load_whose_requests_miss_the_target_together_is_no_answer() {
    let answers = answers_after([0, 0, 40]);
    assert_eq!(answers[0].found, Found::Undecided, "{answers:?}");
    let remedy = answers[0]
        .notes
        .iter()
        .any(|note| note.contains("raise sla.max_probes"));
    assert!(remedy, "{answers:?}");
}

#[test]
fn a_run_at_the_answer_that_missed_is_named() {
    let answers = answers_after([0, 0, 7]);
    assert_eq!(answers[0].found, Found::Met(50.0), "{answers:?}");
    let note = "1 of 3 runs at concurrency 50 missed the target, but all 3 together meet it";
    assert!(answers[0].notes.iter().any(|own| own == note), "{answers:?}");
}

#[test]
fn no_load_just_below_one_that_failed_is_asked_for() {
    let settings = Settings {
        tolerance: 0.15,
        ..settings(Vary::MaxConcurrency, 500)
    };
    let mut search = Search::new(settings.clone(), Seed::neighbour(113.0));
    search.add(&run(&settings, question(113.0, 500), 250.0, 500));
    let Err(next) = search.ask() else {
        panic!("one failure is no answer")
    };
    assert!(next.value <= 113.0 / 1.05, "{next:?}");
}

/// Returns the answer about rates up to 400, of a server that answers 75 requests in a second and has a low TTFT in every run.
fn answer_of_a_slow_server(requests: u64) -> Answer {
    let settings = Settings {
        upper: 400.0,
        max_probes: 3,
        ..settings(Vary::RequestRate, requests)
    };
    let mut search = Search::new(settings.clone(), Seed::neighbour(400.0));
    loop {
        match search.ask() {
            Ok(mut answers) => return answers.remove(0),
            Err(question) => search.add(&run(&settings, question, 50.0, 0)),
        }
    }
}

#[test]
fn a_rate_that_outruns_the_server_is_said_to() {
    let answer = answer_of_a_slow_server(6000);
    assert_eq!(answer.found, Found::Beyond(400.0), "{answer:?}");
    let mut reasons = answer.may_not_last.iter();
    let says = reasons.any(|note| note.contains("only 75.0 of 400 requests per second were answered"));
    assert!(says, "{answer:?}");
}

/// A server answers 75 requests in a second and lets all others wait, which its only target does not bound.
#[test]
fn a_rate_that_the_server_does_not_sustain_is_too_high() {
    let criterion = Criterion::metric("p99_tpot_ms", "<=50").expect("valid in this test");
    let target = Target {
        name: "chat".into(),
        criteria: vec![criterion],
    };
    let settings = Settings {
        upper: 400.0,
        ..Settings::new(Vary::RequestRate, vec![target])
    };
    let mut search = Search::new(settings.clone(), Seed::neighbour(400.0));
    while let Err(question) = search.ask() {
        let served = question.value.min(75.0);
        let longer_ms = 1000.0 * (served.recip() - question.value.recip());
        let request = |at: u64| RequestLatencies {
            ttft_ms: 50.0 + longer_ms * at as f64,
            tpot_ms: 20.0,
            e2el_ms: 200.0 + longer_ms * at as f64,
            ..RequestLatencies::default()
        };
        let requests: Vec<RequestLatencies> = (0..question.requests).map(request).collect();
        let figure = |key: &str| (key == "request_throughput").then_some(served);
        let probe = Probe::read(question, &settings.targets, settings.vary, figure, &requests, None);
        search.add(&probe);
    }
    let answer = search.ask().expect("the loop ends with answers").remove(0);
    let value = answer.found.value().expect("a load");
    assert!((75.0..=93.75).contains(&value), "{answer:?}");
    let mut notes = answer.notes.iter();
    assert!(notes.any(|note| note.contains("does not sustain it")), "{answer:?}");
}

#[test]
fn a_rate_that_lasts_for_a_moment_and_outruns_the_server_is_not_met() {
    let answer = answer_of_a_slow_server(60);
    assert_eq!(
        (answer.found, answer.high),
        (Found::Undecided, f64::INFINITY),
        "{answer:?}"
    );
    assert!(
        answer.notes.iter().any(|note| note.contains("within 0.1 s")),
        "{answer:?}"
    );
}

#[test]
fn a_run_has_as_many_requests_as_its_load() {
    let settings = settings(Vary::MaxConcurrency, 5);
    let search = Search::new(settings, Seed::neighbour(50.0));
    let Err(first) = search.ask() else {
        panic!("nothing is known yet")
    };
    assert!(first.requests as f64 >= first.value, "{first:?}");
}

#[test]
fn what_a_cut_run_is_certain_of_is_believed() {
    let settings = settings(Vary::MaxConcurrency, 200);
    let mut search = Search::new(settings.clone(), Seed::neighbour(50.0));
    let late = RequestLatencies {
        ttft_ms: 5000.0,
        tpot_ms: 1.0,
        e2el_ms: 5000.0,
        ..RequestLatencies::default()
    };
    while let Err(question) = search.ask() {
        let mut watch = search.watch(&question);
        let ends = (1..).map(|second| Duration::from_secs(second)..Duration::from_secs(second + 1));
        let cut = ends.take(200).find_map(|span| watch.note_end(late, span, 0));
        let cut = cut.expect("every request is late");
        let figure = |_: &str| Some(late.ttft_ms);
        let probe = Probe::read(
            question,
            &settings.targets,
            settings.vary,
            figure,
            &[late; 3],
            Some(&cut),
        );
        search.add(&probe);
    }
    let Ok(answers) = search.ask() else {
        panic!("the loop ends with answers")
    };
    assert_eq!(answers[0].found, Found::None, "{answers:?}");
    assert!(search.probes().len() <= 5, "{:?}", search.probes());
}
