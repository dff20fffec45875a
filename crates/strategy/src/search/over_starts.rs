//! Combines the searches on several starts of one server. Each start has its own search, and the interval is computed over starts, as for
//! any figure.

use super::Vary;
use super::target::{Answer, Found};
use crate::stats::{ALPHA, Interval, RunPrior, Start, estimate};

/// Combines the answers of several starts for one target, in their order; `None` if there are none. The combined load is one that was
/// measured: of the loads found on the starts, the highest that does not exceed their geometric mean. If a start has no load, the combined
/// answer has none. Skipped starts do not count, because a skip shows only that another server holds at least as much.
pub fn over_starts(vary: Vary, answers: &[&Answer]) -> Option<Answer> {
    let (first, others) = answers.split_first()?;
    if others.is_empty() {
        return Some((*first).clone());
    }
    let searched = answers.iter().copied().filter(|answer| answer.found != Found::Skipped);
    let mut searched: Vec<&Answer> = searched.collect();
    if searched.is_empty() {
        searched = answers.to_vec();
    }
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
    let starts: Vec<Start> = held.iter().filter_map(|(load, _)| Start::of(&[*load])).collect();
    let found = estimate(&starts, RunPrior::TYPICAL)?;
    let interval = found
        .interval(ALPHA)
        .map_or((found.log, found.log), |Interval { low, high }| (low, high));
    let mean = |end: fn(&Answer) -> f64| {
        let logs = searched.iter().map(|answer| end(answer).ln()).sum::<f64>();
        (logs / searched.len() as f64).exp()
    };
    let below = held.iter().filter(|(load, _)| *load <= found.log.exp() * (1.0 + 1e-9));
    let (load, chosen) = *below.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or(&held[0]);
    let are_all_beyond = searched.iter().all(|answer| matches!(answer.found, Found::Beyond(_)));
    // A load that went through its logarithm is still the same load.
    let exact = |end: f64| if (end / load - 1.0).abs() < 1e-9 { load } else { end };
    let low = exact(interval.0.exp().min(mean(|answer| answer.low)).min(load));
    // If the upper end of one start is infinite, that of the combined answer is too.
    let high = exact(interval.1.exp().max(mean(|answer| answer.high)).max(load));
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
            within: None,
            is_coarse: false,
            binding: Some("p99_ttft_ms <= 500".into()),
            probes: 7,
            disturbed: 0,
            disturbances: Default::default(),
            notes: Vec::new(),
            posterior: None,
        }
    }

    #[test]
    fn starts_give_the_interval_and_a_load_that_was_measured() {
        let loads = [40.0, 44.0, 41.0];
        let answers = loads.map(|load| answer(Found::Met(load), load, load + 1.0));
        let found = over_starts(Vary::MaxConcurrency, &answers.each_ref()).expect("three answers");
        assert_eq!((found.found, found.probes), (Found::Met(41.0), 21));
        // Student's t over three logarithms, with 4.302653 standard errors: 36.82 to 47.08.
        assert!(
            (found.low - 36.82).abs() < 0.05 && (found.high - 47.08).abs() < 0.05,
            "{found:?}"
        );
        assert_eq!(found.notes, ["by start: 40, 44, 41"]);
        assert_eq!(
            over_starts(Vary::MaxConcurrency, &[&answers[0]]),
            Some(answers[0].clone())
        );
        assert_eq!(over_starts(Vary::MaxConcurrency, &[]), None);
    }

    #[test]
    fn equal_loads_are_an_exact_end_and_users_are_whole() {
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
