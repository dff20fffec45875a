//! Tests optimisations whose figure is low, 0 or missing.

use super::*;

fn values(found: &OptimizationState) -> Vec<Option<f64>> {
    found.candidates.iter().map(|own| Some(own.value?.value)).collect()
}

/// Measures the server of every start for which `figure` returns a latency.
pub(super) fn follow(played: &mut Played, latency: impl Fn(&Start) -> f64) {
    while let Some(start) = played.wanted(1, &[]).into_iter().next() {
        played.begin(&start);
        let launch = played.launch(&start, Vec::new());
        let figures = [("output_throughput", 100.0), ("mean_tpot_ms", latency(&start))];
        played.end_run(&start, launch, Some(figures));
    }
}

#[test]
fn a_latency_of_zero_is_the_best() {
    let mut played = Played::new("objective = \"mean_tpot_ms\"\nstarts = 10");
    let is_zero = |start: &Start| value_of(start, "max_num_seqs", 0.0) >= 64.0;
    follow(&mut played, |start| if is_zero(start) { 0.0 } else { 5.0 });
    let found = played.found();
    assert_eq!(found.count(CandidateState::Unmet), 0, "{found:?}");
    let best = found.best.as_deref().expect("measured");
    let own = found.candidates.iter().find(|own| own.config == best);
    let value = own.and_then(|own| own.value).expect("measured");
    assert_eq!((value.value, value.low), (0.0, 0.0), "{value:?}");
    let history: Vec<f64> = found
        .history
        .iter()
        .filter_map(|start| Some(start.value?.value))
        .collect();
    assert!(history.contains(&0.0), "{history:?}");
}

#[test]
fn only_zeros_say_nothing_of_other_servers() {
    let mut played = Played::new("objective = \"mean_tpot_ms\"\nstarts = 4");
    follow(&mut played, |_| 0.0);
    let found = played.found();
    let values = values(&found);
    assert_eq!(values.iter().flatten().collect::<Vec<_>>(), [&0.0; 4], "{values:?}");
}

#[test]
fn more_time_is_expected_to_lower_a_latency() {
    let mut played = Played::new("objective = \"mean_tpot_ms\"\nstarts = 4");
    follow(&mut played, |start| 1000.0 / surface(start).expect("a figure"));
    let gain = played.found().hour_gain;
    assert!(-1.0 < gain && gain < -0.001, "{gain}");
}

#[test]
fn without_a_measured_or_predicted_figure_there_are_no_values() {
    let mut played = Played::new("starts = 3");
    played.follow(|_| None);
    let found = played.found();
    assert_eq!(values(&found), vec![None; 25]);
    let mut played = Played::new("starts = 12");
    played.follow(|start| surface(start).filter(|_| value_of(start, "max_num_seqs", 0.0) < 200.0));
    let found = played.found();
    let did_not_fit = found
        .candidates
        .iter()
        .filter(|own| own.state == CandidateState::DidNotFit);
    let did_not_fit: Vec<bool> = did_not_fit.map(|own| own.value.is_some()).collect();
    assert!(!did_not_fit.is_empty() && !did_not_fit.contains(&true), "{found:?}");
    assert!(
        found
            .candidates
            .iter()
            .any(|own| own.state == CandidateState::Open && own.value.is_some())
    );
}

#[test]
fn the_time_of_every_server_has_that_of_failed_ones() {
    let mut played = Played::new("starts = 3");
    let predicted = |server: ServerConfig| {
        let prediction = Prediction {
            start_s: 90.0,
            warm: None,
            measure_s: 10.0,
            memory: None,
            value: None,
            slopes: Vec::new(),
        };
        (server.id, prediction)
    };
    let predictions: Predictions = played.matrix.servers().map(predicted).collect();
    let session = session(&played.plan, &played.matrix, &predictions);
    played.state.apply_hypothetical(session);
    assert_eq!(played.found().grid_seconds, Some(2500.0));
    assert_eq!(played.follow(|_| None).len(), 3);
    assert_eq!(played.found().grid_seconds, Some(3.0 * 30.0 + 22.0 * 100.0));
}

#[test]
fn a_figure_that_its_own_plan_does_not_find_is_not_looked_for_again() {
    let optimize = "objective = \"mean_tpot_ms\"\nstarts = 8";
    let mut played = Played::new(optimize);
    let first = played.wanted(1, &[]).remove(0);
    played.begin(&first);
    let launch = played.launch(&first, Vec::new());
    let figures = [("output_throughput", 100.0), ("mean_tpot_ms", 5.0)];
    played.end_run(&first, launch, Some(figures));
    let mut lacking = BTreeSet::new();
    let is_other = |start: &Start| start.server.id != first.server.id;
    while let Some(start) = played.wanted(1, &[]).into_iter().find(is_other) {
        assert!(lacking.insert(start.server.id.clone()), "{}", start.server.name);
        played.begin(&start);
        played.measure(&start, surface(&start));
    }
    assert_eq!(played.found().count(CandidateState::Failed), lacking.len());
    assert!(!lacking.is_empty());
    let again = Played::planned(&format!("{PLAN}[optimize]\n{optimize}\n"), played.state.clone());
    let of = |found: OptimizationState| (found.count(CandidateState::Failed), found.starts, found.history.len());
    assert_eq!(of(again.found()), of(played.found()));
}

#[test]
fn a_server_that_is_ruled_out_without_a_launch_takes_no_start() {
    let mut played = Played::new("starts = 8");
    let fits = |start: &Start| value_of(start, "max_num_seqs", 0.0) < 100.0;
    let (mut launched, mut ruled_out) = (0, 0);
    while let Some(start) = played.wanted(1, &[]).into_iter().next() {
        played.begin(&start);
        if fits(&start) {
            launched += 1;
            played.measure(&start, surface(&start));
        } else {
            ruled_out += 1;
            played.end_run(&start, 0, None);
        }
    }
    let found = played.found();
    assert!(ruled_out > 0);
    assert_eq!((launched, found.starts, found.ended), (8, 8, Some(EndReason::Budget)));
    assert_eq!(found.count(CandidateState::DidNotFit), 0);
    assert!(found.count(CandidateState::RuledOutByMemory) >= ruled_out, "{found:?}");
}
