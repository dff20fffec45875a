//! Tests optimisations whose figure is the load that a search finds.

use super::*;
use vsweep_record::journal::ServerReady;
use vsweep_strategy::checks::{AnswerCheck, Answers, Reply, Token};

const PLAN: &str = "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [4, 8, 16]\n[bench.params]\n\
                    num_prompts = { per = \"max_concurrency\", times = 4 }\n[optimize]\n[sla]\nvary = \"max_concurrency\"\n\
                    [[sla.target]]\nname = \"chat\"\np99_ttft_ms = \"<=500\"\n";

/// Records the search of a start that has begun, with this answer.
fn answer_search(played: &mut Played, start: &Start, found: Found, high: f64) {
    let planned = played.matrix.searches_of(&start.server).next().expect("a search");
    let rival = (found == Found::Skipped).then(|| Rival {
        target: planned.settings.targets[0].name.clone(),
        server: "another".to_owned(),
        load: high,
        forecast: None,
    });
    let begun = SearchStarted {
        search: planned.id.clone(),
        server: start.server.id.clone(),
        slot: start.slot,
        name: planned.name.clone(),
        params: planned.params.clone(),
        vary: planned.settings.vary,
        targets: planned.settings.targets.clone(),
        seed: Seed::UNKNOWN,
        rivals: rival.into_iter().collect(),
    };
    let after = played.state.apply_hypothetical(Event::SearchStarted(Box::new(begun)));
    let answer = Answer {
        target: planned.settings.targets[0].name.clone(),
        found,
        low: 1.0,
        high,
        probes: 2,
        ..Answer::default()
    };
    played.state.apply_hypothetical(Event::SearchFinished {
        after: after.rank.line,
        search: planned.id,
        answers: vec![answer],
        cause: None,
        detail: String::new(),
    });
}

#[test]
fn a_server_whose_search_is_undecided_may_still_be_the_best() {
    for high in [80.0, f64::INFINITY] {
        let mut played = Played::of(PLAN);
        for server in played.matrix.servers().collect::<Vec<_>>() {
            let start = Start::of(server, 0);
            played.begin(&start);
            match start.server.name.as_str() {
                "max_num_seqs=16" => answer_search(&mut played, &start, Found::Undecided, high),
                _ => answer_search(&mut played, &start, Found::Met(40.0), 41.0),
            }
        }
        let found = played.found();
        assert_eq!(found.count(CandidateState::Undecided), 1, "{found:?}");
        assert!(found.probability < 0.95, "{found:?}");
        let again = played.wanted(4, &[]);
        let is_undecided = |start: &Start| start.server.name == "max_num_seqs=16";
        assert!(again.iter().any(is_undecided), "{found:?}");
    }
}

#[test]
fn nothing_is_started_against_a_server_at_the_highest_load_allowed() {
    let limited = PLAN.replace("[[sla.target]]", "max = 64\n[[sla.target]]");
    let at_the_highest = |text: &str| {
        let mut played = Played::of(text);
        let start = played.wanted(1, &[]).remove(0);
        played.begin(&start);
        played.launch(&start, Vec::new());
        answer_search(&mut played, &start, Found::Beyond(64.0), f64::INFINITY);
        played
    };
    let played = at_the_highest(&limited);
    assert!(played.wanted(4, &[]).is_empty());
    assert_eq!(played.ended(), Some(EndReason::Certain));
    // A server with fewer GPUs may hold as much.
    let tp = limited.replace("max_num_seqs = [4, 8, 16]", "tensor_parallel_size = [1, 2]");
    let tp = tp.replace("vllm serve m", "vllm serve m --tensor-parallel-size 2");
    let played = at_the_highest(&tp);
    assert_eq!(played.wanted(4, &[]).len(), 1);
}

#[test]
fn a_server_that_is_beaten_without_a_launch_takes_no_start() {
    let mut played = Played::of(&PLAN.replace("[optimize]\n", "[optimize]\nstarts = 2\n"));
    for number in 0..3 {
        let start = played.wanted(1, &[]).remove(0);
        played.begin(&start);
        match number {
            0 => {
                played.launch(&start, Vec::new());
                answer_search(&mut played, &start, Found::Met(40.0), 41.0);
            }
            _ => answer_search(&mut played, &start, Found::Skipped, 40.0),
        }
    }
    let found = played.found();
    assert_eq!((found.starts, found.ended), (1, None), "{found:?}");
    assert_eq!(found.count(CandidateState::Beaten), 2, "{found:?}");
}

/// The answer to a fixed question, which begins with this token.
fn reply(token: &str) -> Answers {
    let top = ["a", "b", "c", "d", "e"].map(|text| (format!("{token}{text}"), -2.0));
    let reply = Reply {
        tokens: vec![Token {
            text: token.into(),
            logprob: Some(-0.1),
            top: top.into_iter().collect(),
        }],
        asked: 1,
        ..Reply::default()
    };
    Answers {
        model: "m".into(),
        alone: vec![reply],
        together: Vec::new(),
        long: None,
    }
}

#[test]
fn a_load_counts_only_if_the_servers_answers_are_right() {
    let mut played = Played::of(PLAN);
    for (at, server) in played.matrix.servers().collect::<Vec<_>>().into_iter().enumerate() {
        let start = Start::of(server, 0);
        let is_wrong = start.server.name == "max_num_seqs=16";
        let answers = AnswerCheck::Answered(reply(if is_wrong { "x" } else { "y" }));
        played.begin(&start);
        played
            .state
            .apply_hypothetical(Event::ServerReady(Box::new(ServerReady {
                server: start.server.id.clone(),
                launch: at as u32 + 1,
                answers: Some(Box::new(answers)),
                ..ServerReady::default()
            })));
        let load = if is_wrong { 90.0 } else { 40.0 };
        answer_search(&mut played, &start, Found::Met(load), load + 1.0);
    }
    let found = played.found();
    let states = |own: &vsweep_answer::CandidateSummary| (own.name.clone(), own.state, own.value.is_some());
    let states: Vec<_> = found.candidates.iter().map(states).collect();
    assert_eq!(
        states[2],
        ("max_num_seqs=16".to_owned(), CandidateState::Failed, false),
        "{found:?}"
    );
    assert_eq!(found.count(CandidateState::Measured), 3, "{found:?}");
    assert!(!played.best().contains("16"), "{}", played.best());
    let wanted = played.wanted(4, &[]);
    assert!(wanted.iter().all(|start| start.server.name != "max_num_seqs=16"));
}

#[test]
fn a_load_is_that_of_all_servers_on_the_gpus_that_each_was_given() {
    let more = "[exec]\nparallel = \"gpus\"\ngpus = 2\n[report]\ngpus = 4\n";
    let mut played = Played::of(&format!("{PLAN}{more}"));
    for server in played.matrix.servers().collect::<Vec<_>>() {
        let start = Start::of(server, 0);
        played.begin(&start);
        played.launch(&start, vec![0, 1]);
        answer_search(&mut played, &start, Found::Met(40.0), 41.0);
    }
    let found = played.found();
    let value = |value: vsweep_answer::Estimate| value.value.round();
    let measured: Vec<_> = found.history.iter().map(|start| start.value.map(value)).collect();
    assert_eq!(measured, vec![Some(80.0); 4], "two servers of two GPUs fit");
    assert_eq!(found.candidates[0].value.map(value), Some(80.0), "as in the answer");
}
