//! Tests optimisations whose figure is low, 0 or missing.

use super::*;

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
    assert_eq!((launched, found.starts, found.ended), (8, 8, Some(Ended::Budget)));
    assert_eq!(found.count(CandidateState::DidNotFit), 0);
    assert!(found.count(CandidateState::Memory) >= ruled_out, "{found:?}");
}
