//! Combines the searches on several starts of one server. Each start has its own search; the combined interval covers those of all starts.

use super::Vary;
use super::target::{Answer, Found};
use std::collections::BTreeSet;

/// Combines the answers of several starts for one target, in their order; `None` if there are none. The combined load is one that was
/// measured: of the loads found on the starts, the highest that does not exceed their geometric mean. If no load meets the
/// target on a start, the combined answer has none. Undecided starts count only if no start was decided, and skipped ones only if all were
/// skipped, because they show nothing against a load.
pub fn over_starts(vary: Vary, answers: &[&Answer]) -> Option<Answer> {
    let (first, others) = answers.split_first()?;
    if others.is_empty() {
        return Some((*first).clone());
    }
    // An undecided start says more than a skipped one, and a decided start more than both.
    let rank = |answer: &&Answer| match answer.found {
        Found::Skipped => 0,
        Found::Undecided => 1,
        Found::None | Found::Met(_) | Found::Beyond(_) => 2,
    };
    let highest = answers.iter().map(rank).max();
    let ranked = answers.iter().copied().filter(|answer| Some(rank(answer)) == highest);
    let searched: Vec<&Answer> = ranked.collect();
    let shown = answers.iter().map(|answer| match answer.found {
        Found::Beyond(load) => format!(">= {load}"),
        found => found
            .value()
            .map_or_else(|| found.word().to_owned(), |load| load.to_string()),
    });
    let by_start = format!("by start: {}", shown.collect::<Vec<String>>().join(", "));
    let mut notes = vec![by_start];
    for note in answers.iter().flat_map(|answer| &answer.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let all = answers
        .iter()
        .flat_map(|answer| &answer.may_not_last)
        .collect::<BTreeSet<&String>>();
    let may_not_last = all.into_iter().cloned().collect();
    let probes = answers.iter().map(|answer| answer.probes).sum();
    let disturbed = answers.iter().map(|answer| answer.disturbed).sum();
    let disturbances = answers.iter().flat_map(|answer| answer.disturbances.clone()).collect();
    if let Some(without_load) = searched.iter().find(|answer| answer.found.value().is_none()) {
        return Some(Answer {
            probes,
            disturbed,
            disturbances,
            notes,
            posterior: None,
            ..(*without_load).clone()
        });
    }
    let held: Vec<(f64, &Answer)> = searched
        .iter()
        .filter_map(|answer| Some((answer.found.value()?, *answer)))
        .collect();
    let mean = (held.iter().map(|(load, _)| load.ln()).sum::<f64>() / held.len() as f64).exp();
    let below = held.iter().filter(|(load, _)| *load <= mean * (1.0 + 1e-9));
    let (load, chosen) = *below.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or(&held[0]);
    let are_all_beyond = searched.iter().all(|answer| matches!(answer.found, Found::Beyond(_)));
    let low = searched.iter().map(|answer| answer.low).fold(load, f64::min);
    let high = searched.iter().map(|answer| answer.high).fold(load, f64::max);
    Some(Answer {
        target: first.target.clone(),
        found: if are_all_beyond {
            Found::Beyond(load)
        } else {
            Found::Met(load)
        },
        low,
        high,
        within: (high.is_finite() && !are_all_beyond).then(|| (vary.floor(high) / load - 1.0).max(0.0)),
        is_coarse: searched.iter().any(|answer| answer.is_coarse),
        binding: chosen.binding.clone(),
        probes,
        disturbed,
        disturbances,
        notes,
        may_not_last,
        posterior: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(found: Found, low: f64, high: f64) -> Answer {
        Answer {
            target: "chat".into(),
            found,
            low,
            high,
            binding: Some("p99_ttft_ms <= 500".into()),
            probes: 7,
            ..Answer::default()
        }
    }

    #[test]
    fn the_interval_reaches_over_all_starts_and_the_load_was_measured() {
        let loads = [40.0, 44.0, 41.0];
        let answers = loads.map(|load| answer(Found::Met(load), load, load + 1.0));
        let found = over_starts(Vary::MaxConcurrency, &answers.each_ref()).expect("three answers");
        assert_eq!((found.found, found.probes), (Found::Met(41.0), 21));
        assert_eq!((found.low, found.high), (40.0, 45.0));
        assert_eq!(found.notes, ["by start: 40, 44, 41"]);
        assert_eq!(
            over_starts(Vary::MaxConcurrency, &[&answers[0]]),
            Some(answers[0].clone())
        );
        assert_eq!(over_starts(Vary::MaxConcurrency, &[]), None);
    }

    #[test]
    fn equal_loads_are_the_lower_end_and_the_upper_one_is_a_load() {
        let equal = || answer(Found::Met(16.0), 16.0, 17.9);
        let found = over_starts(Vary::MaxConcurrency, &[&equal(), &equal()]).expect("two answers");
        assert_eq!((found.low, found.within), (16.0, Some(1.0 / 16.0)));
        let found = over_starts(Vary::RequestRate, &[&equal(), &equal()]).expect("two answers");
        assert_eq!(found.within, Some(17.9 / 16.0 - 1.0), "{found:?}");
    }

    #[test]
    fn a_start_without_a_load_leaves_none() {
        let answers = [answer(Found::Met(40.0), 40.0, 41.0), answer(Found::None, 0.0, 1.0)];
        let found = over_starts(Vary::MaxConcurrency, &answers.each_ref()).expect("two answers");
        assert_eq!(found.found, Found::None);
        assert_eq!(found.notes, ["by start: 40, none"]);
    }

    #[test]
    fn an_undecided_start_takes_nothing_from_the_others() {
        let undecided = answer(Found::Undecided, 10.0, 90.0);
        let met = answer(Found::Met(40.0), 40.0, 41.0);
        let found = over_starts(Vary::MaxConcurrency, &[&met, &undecided]).expect("two answers");
        assert_eq!((found.found, found.high), (Found::Met(40.0), 41.0));
        assert_eq!(found.notes, ["by start: 40, undecided"]);
        let skipped = answer(Found::Skipped, 30.0, f64::INFINITY);
        let found = over_starts(Vary::MaxConcurrency, &[&skipped, &undecided]).expect("two answers");
        assert_eq!(found.found, Found::Undecided);
    }

    #[test]
    fn a_skipped_start_takes_nothing_from_the_others() {
        let skipped = answer(Found::Skipped, 30.0, f64::INFINITY);
        let found =
            over_starts(Vary::MaxConcurrency, &[&answer(Found::Met(40.0), 40.0, 41.0), &skipped]).expect("two answers");
        assert_eq!(found.found, Found::Met(40.0));
        assert!(found.high.is_finite(), "{found:?}");
        assert_eq!(found.notes, ["by start: 40, skipped"]);
        assert_eq!(
            over_starts(Vary::MaxConcurrency, &[&skipped, &skipped])
                .expect("two")
                .found,
            Found::Skipped
        );
    }

    #[test]
    fn the_highest_load_allowed_is_a_lower_bound() {
        let beyond = || answer(Found::Beyond(64.0), 64.0, f64::INFINITY);
        let all = [beyond(), beyond()];
        assert_eq!(
            over_starts(Vary::MaxConcurrency, &all.each_ref()).expect("two").found,
            Found::Beyond(64.0)
        );
        let some = [beyond(), answer(Found::Met(60.0), 60.0, 61.0)];
        let found = over_starts(Vary::MaxConcurrency, &some.each_ref()).expect("two");
        assert_eq!((found.found, found.high), (Found::Met(60.0), f64::INFINITY));
    }
}
