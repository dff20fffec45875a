//! Tests optimisations whose figure is the load that a search finds.

use super::*;

const PLAN: &str = "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [4, 8, 16]\n[bench.params]\n\
                    num_prompts = { per = \"max_concurrency\", times = 4 }\n[optimize]\n[sla]\nvary = \"max_concurrency\"\n\
                    [[sla.target]]\nname = \"chat\"\np99_ttft_ms = \"<=500\"\n";

/// Records the search of a start that has begun, with this answer.
fn answer_search(played: &mut Played, start: &Start, found: Found, high: f64) {
    let planned = played.matrix.searches_of(&start.server).next().expect("a search");
    let begun = SearchStarted {
        search: planned.id.clone(),
        server: start.server.id.clone(),
        slot: start.slot,
        name: planned.name.clone(),
        params: planned.params.clone(),
        vary: planned.settings.vary,
        targets: planned.settings.targets.clone(),
        seed: Seed::UNKNOWN,
        rivals: Vec::new(),
    };
    let after = played.state.apply_hypothetical(Event::SearchStarted(Box::new(begun)));
    let answer = Answer {
        target: planned.settings.targets[0].name.clone(),
        found,
        low: 1.0,
        high,
        within: None,
        is_coarse: false,
        binding: None,
        probes: 2,
        disturbed: 0,
        disturbances: BTreeSet::new(),
        notes: Vec::new(),
        posterior: None,
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
