//! Tests the optimisation that follows from a plan: the default settings, the budget and the predictions.

use super::*;

/// Reads a plan in TOML, and expands it.
fn read(text: &str) -> (Plan, Matrix) {
    let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    (plan, matrix)
}

/// Returns the name and the number of changes of the server that counts as the default settings of a plan.
fn defaults_of(text: &str, format: Format) -> Option<(String, u32)> {
    let plan = parse(text, format, Path::new("plan"), &World::empty()).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    let found = optimization(&plan, &matrix, None, &Predictions::new(), None).expect("asked for");
    let contestant = &found.contestants[found.rules.defaults?];
    Some((contestant.name.clone(), contestant.candidate.changes))
}

#[test]
fn the_default_settings_leave_out_what_varies() {
    let of = |params: &str, more: &str| {
        let text = format!(
            "version = 1\n[serve]\ncommand = \"vllm serve m --max-num-seqs 8\"\n{params}[bench.params]\nnum_prompts = 64\n\
             max_concurrency = [4, 8, 16]\n[optimize]\n{more}"
        );
        defaults_of(&text, Format::Toml)
    };
    let named = |name: &str, changes| Some((name.to_owned(), changes));
    let null = r#"{"version": 1, "serve": {"command": "vllm serve m", "params": {"max_num_seqs": [4, null]}},
                   "bench": {"params": {"num_prompts": 64}}, "optimize": {}}"#;
    assert_eq!(defaults_of(null, Format::Json), named("max_num_seqs=null", 0));
    let seqs = "[serve.params]\nmax_num_seqs = [4, 16]\n";
    assert_eq!(of(seqs, ""), named("default", 0));
    // The default settings have no load, so no other server takes their place.
    let link = "[link]\nequal = [[\"serve.max_num_seqs\", \"bench.max_concurrency\"]]\n";
    assert_eq!(of(seqs, link), None);
    // The command already has one of the values.
    assert_eq!(
        of("[serve.params]\nmax_num_seqs = [4, 8]\n", ""),
        named("max_num_seqs=8", 1)
    );
    let combos = "[[serve.combos]]\nname = \"base\"\ntensor_parallel_size = 2\n[[serve.combos]]\nname = \"fp8\"\n\
                  tensor_parallel_size = 2\nquantization = \"fp8\"\n";
    assert_eq!(of(combos, ""), named("base", 0));
    assert_eq!(
        of(&combos.replace("\"base\"\n", "\"base\"\nquantization = \"awq\"\n"), ""),
        None
    );
    let degrees = combos
        .replace("2\nquantization = \"fp8\"", "1")
        .replace("\"fp8\"", "\"one\"");
    assert_eq!(of(&degrees, ""), named("one", 1));
    let wide = "[serve.params]\ntensor_parallel_size = [4, 2]\n";
    assert_eq!(of(wide, ""), named("tensor_parallel_size=2", 1));
}

#[test]
fn a_budget_is_time_of_the_machine() {
    let recorded = |more: &str, machine_gpus: Option<u32>| {
        let text = format!(
            "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\ntensor_parallel_size = [1, 4]\n[bench.params]\n\
             num_prompts = 9\n[optimize]\nbudget = \"1h\"\n{more}"
        );
        let (plan, matrix) = read(&text);
        let found = optimization(&plan, &matrix, None, &Predictions::new(), machine_gpus).expect("asked for");
        let again = optimization(&plan, &matrix, Some(&found), &Predictions::new(), None);
        assert_eq!(again.as_ref(), Some(&found), "the recorded GPUs count");
        assert_eq!(found.rules.budget, Some(Budget::MachineSeconds(3600.0)), "{more}");
        found
            .contestants
            .iter()
            .take(2)
            .map(|own| own.candidate.at_once)
            .collect::<Vec<u32>>()
    };
    assert_eq!(recorded("", Some(8)), [1, 1]);
    assert_eq!(recorded("[exec]\nparallel = 8\nexclusive = true\n", Some(8)), [1, 1]);
    assert_eq!(
        recorded("[exec]\nparallel = 8\nexclusive = { tensor_parallel_size = 4 }\n", None),
        [8, 1]
    );
    assert_eq!(recorded("[exec]\nparallel = 8\n", None), [8, 8]);
    assert_eq!(recorded("[exec]\nparallel = 8\n", Some(0)), [8, 8]);
    assert_eq!(recorded("[exec]\nparallel = 8\n", Some(4)), [4, 1]);
    assert_eq!(recorded("[exec]\nparallel = 8\ngpus = 2\n", Some(4)), [2, 2]);
    assert_eq!(recorded("[exec]\nparallel = \"gpus\"\n", Some(8)), [8, 2]);
    // The GPUs on which the best server is to run are not those of this machine.
    let report = "[report]\ngpus = 4\n[exec]\nparallel = 8\n";
    assert_eq!(recorded(report, None), [8, 8]);
    assert_eq!(recorded(report, Some(16)), [8, 4]);
}

#[test]
fn an_edited_plan_measures_no_more_than_its_own_starts() {
    let mut played = Played::new("starts = 6");
    assert_eq!(played.follow(surface).len(), 6);
    let edited = format!("{PLAN}[optimize]\nstarts = 2\n").replace("num_prompts = 9", "num_prompts = 8");
    let mut edited = Played::planned(&edited, played.state.clone());
    assert_eq!(edited.follow(surface).len(), 2);
    assert_eq!(edited.ended(), Some(EndReason::Budget));
    // One more load: what the earlier plan measured continues as far as the new limits allow.
    let more = format!("{PLAN}[optimize]\nstarts = 2\n").replace("num_prompts = 9", "num_prompts = [9, 8]");
    let more = Played::planned(&more, played.state.clone());
    assert_eq!(more.wanted(8, &[]).len(), 2);
}

#[test]
fn servers_whose_record_lacks_a_figure_count_as_not_measured() {
    for edit in ["objective = \"mean_tpot_ms\"", "[[assert]]\nmean_tpot_ms = \"<=9\""] {
        let mut played = Played::new("starts = 3");
        assert_eq!(played.follow(surface).len(), 3);
        let text = format!("{PLAN}[optimize]\nstarts = 3\n{edit}\n");
        let mut edited = Played::planned(&text, played.state);
        let before = edited.found();
        let shown = before.count(CandidateState::Undecided) + before.count(CandidateState::Measured);
        assert_eq!((shown, before.history.len()), (0, 0), "{edit}");
        let first = edited.wanted(1, &[]).remove(0);
        assert_eq!((first.slot, first.proposed), (1, Some(Reason::Defaults)), "{edit}");
        figures::follow(&mut edited, |_| 5.0);
        let found = edited.found();
        let lost = found.count(CandidateState::Failed) + found.count(CandidateState::Unmet);
        assert_eq!((lost, found.best.is_some()), (0, true), "{edit}: {found:?}");
    }
}

#[test]
fn a_plan_that_was_extended_after_its_end_may_have_work_before_it_begins() {
    let mut played = Played::new("starts = 2");
    played.follow(surface);
    assert!(!played.has_work());
    let text = format!("{PLAN}[optimize]\nstarts = 4\n").replace("512]", "512, 1024]");
    let (plan, matrix) = read(&text);
    let schedule = Schedule::new(&plan, &matrix, Shard::WHOLE, false);
    assert!(schedule.has_work(&played.state));
    assert!(schedule.foreseen(&played.state).next().is_some());
    let begun = Played::planned(&text, played.state.clone());
    assert!(begun.has_work());
}

#[test]
fn an_edited_plan_is_predicted_anew() {
    let text = format!("{PLAN}[optimize]\n");
    let (plan, matrix) = read(&text);
    let value = |ln_value: f64| Prediction {
        start_s: 5.0,
        warm: Some(("graphs".to_owned(), 1.0)),
        measure_s: 7.0,
        memory: None,
        value: Some(Predicted { ln_value, sd: 0.1 }),
        slopes: vec![0.5],
    };
    let of = |matrix: &Matrix, ln_value: f64| matrix.servers().map(|server| (server.id, value(ln_value))).collect();
    assert!(needs_predictions(&plan, &matrix, None));
    let recorded = optimization(&plan, &matrix, None, &of(&matrix, 2.0), None).expect("asked for");
    let first = |found: Option<Optimization>| found.expect("asked for").contestants[0].candidate.clone();
    let values = |candidate: &Candidate| {
        (
            candidate.predicted.map(|predicted| predicted.ln_value),
            candidate.slopes.len(),
            candidate.measure_s,
        )
    };
    let none = Predictions::new();
    assert!(!needs_predictions(&plan, &matrix, Some(&recorded)));
    assert_eq!(
        values(&first(optimization(&plan, &matrix, Some(&recorded), &none, None))),
        (Some(2.0), 1, 7.0)
    );
    // Another objective: the durations still hold.
    let (plan, matrix) = read(&format!("{text}objective = \"mean_ttft_ms\"\n"));
    assert!(needs_predictions(&plan, &matrix, Some(&recorded)));
    let edited = first(optimization(&plan, &matrix, Some(&recorded), &none, None));
    assert_eq!(values(&edited), (None, 0, 7.0));
    let edited = first(optimization(&plan, &matrix, Some(&recorded), &of(&matrix, 3.0), None));
    assert_eq!(values(&edited), (Some(3.0), 1, 7.0));
    // Another load.
    let (plan, matrix) = read(&text.replace("num_prompts = 9", "num_prompts = 8"));
    assert!(needs_predictions(&plan, &matrix, Some(&recorded)));
    let edited = first(optimization(&plan, &matrix, Some(&recorded), &none, None));
    assert_eq!(values(&edited), (None, 0, USUAL_RUN_S));
    let edited = first(optimization(&plan, &matrix, Some(&recorded), &of(&matrix, 3.0), None));
    assert_eq!(values(&edited), (Some(3.0), 1, 7.0));
    let graphs = |own: &Candidate| own.warm.map(|warm| warm.graphs);
    assert_ne!(graphs(&edited), graphs(&recorded.contestants[0].candidate));
}

#[test]
fn new_servers_are_predicted_as_those_of_the_record_were() {
    let predictions = |matrix: &Matrix, value: f64, seconds: f64| {
        let of = |own: ServerConfig| {
            let seqs = own.params.get("max_num_seqs").and_then(number).unwrap_or(8.0);
            let predicted = Prediction {
                start_s: seconds,
                warm: None,
                measure_s: seconds,
                memory: None,
                value: Some(Predicted {
                    ln_value: (value * seqs).ln(),
                    sd: 0.1,
                }),
                slopes: Vec::new(),
            };
            (own.id, predicted)
        };
        matrix.servers().map(of).collect()
    };
    let (plan, matrix) = read(&format!("{PLAN}[optimize]\n"));
    let recorded = optimization(&plan, &matrix, None, &predictions(&matrix, 10.0, 5.0), None).expect("asked for");
    let (plan, matrix) = read(&format!("{PLAN}[optimize]\n").replace("512]", "512, 1024]"));
    let fresh = predictions(&matrix, 4.0, 20.0);
    let edited = optimization(&plan, &matrix, Some(&recorded), &fresh, None).expect("asked for");
    let of = |seqs: &str| {
        let mut all = edited.contestants.iter();
        let own = all
            .find(|own| own.name.contains(&format!("max_num_seqs={seqs},")))
            .expect("a server");
        let value = own.candidate.predicted.expect("predicted").ln_value.exp();
        (value.round(), own.candidate.start_s, own.candidate.measure_s)
    };
    assert_eq!(of("512"), (5120.0, 5.0, 5.0));
    assert_eq!(
        of("1024"),
        (10240.0, 5.0, 5.0),
        "as if it had been predicted with the others"
    );
}

#[test]
fn the_latest_session_with_the_plan_knows_the_gpus() {
    let text = "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\ntensor_parallel_size = [1, 2, 4]\n[bench.params]\n\
                num_prompts = 9\n[optimize]\n";
    let (mut plan, matrix) = read(text);
    let mut state = State::default();
    let mut begin = |gpus: Option<u32>, joined: bool| {
        plan.report.gpus = gpus;
        let Event::SessionStarted(begun) = session(&plan, &matrix, &Predictions::new()) else {
            panic!("a session");
        };
        let begun = SessionStarted { joined, ..*begun };
        state.apply_hypothetical(Event::SessionStarted(Box::new(begun)));
        state.optimization().map(|own| own.gpus)
    };
    assert_eq!(begin(None, false), Some(None), "submitted where no GPU is");
    assert_eq!(begin(Some(2), true), Some(Some(2)), "a worker");
    assert_eq!(begin(Some(4), true), Some(Some(4)));
}
