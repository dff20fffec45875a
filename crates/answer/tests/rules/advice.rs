//! Advice that makes an answer surer: the starts that it names, their time, and what to expect of them.

use super::*;

#[test]
fn equal_servers_tie_and_more_starts_are_advised() {
    let mut own = asking(&[]);
    for (id, value) in [("a", 100.0), ("b", 100.4), ("c", 101.8), ("d", 99.1), ("e", 99.7)] {
        server(&mut own, id, 1, "8", &[(value, 50.0)]);
    }
    // Of the time of a whole start, only that until it is ready and that of the point is needed again.
    for config in &mut own.configs {
        config.seconds_per_start = Some(60.0);
        config.seconds_around_runs = Some(15.0);
    }
    own.points.iter_mut().for_each(|point| point.seconds = 5.0);
    let found = answer(own.clone());
    let question = &found.questions[0];
    assert_eq!(winner(&found), "c");
    let won = question.winner.as_ref().expect("a winner");
    assert!(won.probability < 0.95 && !question.ties.is_empty(), "{won:?}");
    assert!(question.as_good.len() >= 2, "{:?}", question.as_good);
    let advice = question.advice.as_ref().expect("unsure");
    assert!(
        advice.expected > won.probability && advice.configs.contains(&"c".to_owned()),
        "{advice:?}"
    );
    assert_eq!(
        advice.seconds,
        Some(20.0 * f64::from(advice.starts) * advice.configs.len() as f64)
    );
}

#[test]
fn more_starts_of_a_leader_are_expected_to_help() {
    let mut own = asking(&[]);
    for (id, value) in [
        ("a", 1000.0),
        ("b", 1000.0),
        ("c", 1000.0),
        ("d", 1000.0),
        ("e", 1032.0),
    ] {
        server(&mut own, id, 1, "8", &[(value, 50.0)]);
    }
    let question = answer(own).questions.remove(0);
    let won = question.winner.as_ref().expect("a winner");
    assert!(won.config == "e" && won.probability < 0.95, "{won:?}");
    let advice = question.advice.as_ref().expect("unsure");
    assert!(advice.expected > won.probability + 0.02, "{advice:?}");
}

#[test]
fn replicas_change_no_advice() {
    let advice = |gpus: u32| {
        let mut own = asking(&[]);
        own.gpus = Some(gpus);
        own.metrics[0].scale = Scale::Linear;
        for (id, value) in [("a", 100.0), ("b", 100.4), ("c", 101.8), ("d", 99.1), ("e", 99.7)] {
            server(&mut own, id, 1, "8", &[(value, 50.0)]);
        }
        let advice = answer(own).questions.remove(0).advice.expect("unsure");
        (advice.starts, (advice.expected * 100.0).round())
    };
    assert_eq!(advice(8), advice(1));
}

#[test]
fn servers_that_are_not_measured_again_may_still_be_the_best() {
    let mut own = asking(&[]);
    let starts = [(106.0, 50.0), (102.0, 50.0), (104.0, 50.0)];
    server(&mut own, "a", 1, "8", &starts);
    server(&mut own, "b", 1, "8", &starts);
    for at in 0..30 {
        server(&mut own, &format!("other{at}"), 1, "8", &[(98.7, 50.0)]);
    }
    let advice = answer(own).questions.remove(0).advice.expect("unsure");
    assert_eq!(advice.configs, ["a", "b"]);
    // Each of the others has one chance in twenty. If only the two counted, this would be 96 %.
    assert!(advice.expected < 0.94, "{advice:?}");
}
