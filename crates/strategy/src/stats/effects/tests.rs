//! Planted effects, and effects of nothing.

use super::*;
use proptest::prelude::*;

/// Configs of three settings with three values each under four loads: what each value adds, a little noise, and what `more` adds.
fn planted(seed: u64, keep: impl Fn(&[usize]) -> bool, more: impl Fn(&[usize], usize) -> f64) -> Vec<Observation> {
    let added = [[0.0, 0.5, 0.2], [0.0, -0.3, -0.1], [0.0, 0.0, 0.0]];
    let mut noise = seed;
    let mut observations = Vec::new();
    for at in 0..27 {
        let values = vec![at % 3, at / 3 % 3, at / 9];
        if !keep(&values) {
            continue;
        }
        for load in 0..4 {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let scatter = (noise >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
            let sum: f64 = values.iter().zip(&added).map(|(value, added)| added[*value]).sum();
            let log = 3.0 + sum + 0.7 * load as f64 + 0.02 * scatter + more(&values, load);
            observations.push(Observation {
                values: values.clone(),
                load,
                start: 0,
                log,
            });
        }
    }
    observations
}

fn find(effects: &Effects, setting: usize) -> &Effect {
    let mut found = effects.effects.iter();
    found.find(|effect| effect.setting == setting).expect("an effect")
}

proptest! {
    #[test]
    fn planted_effects_are_found_and_nothing_is_found_of_what_does_nothing(seed in 0u64..500) {
        let effects = Effects::of(&planted(seed, |_| true, |_, _| 0.0), 3);
        let order: Vec<usize> = effects.effects.iter().map(|effect| effect.setting).collect();
        prop_assert_eq!(order, [0, 1, 2]);
        let (first, second, third) = (find(&effects, 0), find(&effects, 1), find(&effects, 2));
        prop_assert_eq!((first.values, first.basis), ((0, 1), Basis::Pairs(9)));
        prop_assert_eq!((second.values, second.basis), ((1, 0), Basis::Pairs(9)));
        prop_assert!((first.ratio.log - 0.5).abs() < 0.03 && (second.ratio.log - 0.3).abs() < 0.03);
        prop_assert!(first.interval.expect("pairs").low > 0.3);
        prop_assert!(third.ratio.log.abs() < 0.02);
    }

    #[test]
    fn loads_and_configs_that_are_missing_bias_nothing(seed in 0u64..200, gone in 0usize..27) {
        let all = planted(seed, |_| true, |_, _| 0.0);
        // The highest load is missing where the figure is highest, as with servers that fail under it.
        let some: Vec<Observation> =
            all.iter().filter(|one| one.load < 3 || one.values[0] != 1).filter(|one| one.values != all[gone * 4].values).cloned().collect();
        let effects = Effects::of(&some, 3);
        prop_assert!((find(&effects, 0).ratio.log - 0.5).abs() < 0.03);
        prop_assert!((find(&effects, 1).ratio.log - 0.3).abs() < 0.03);
    }

    #[test]
    fn without_pairs_the_model_finds_them(seed in 0u64..200) {
        // A Latin square: no two configs differ in one setting alone.
        let square = planted(seed, |values| values[2] == (values[0] + values[1]) % 3, |_, _| 0.0);
        let effects = Effects::of(&square, 3);
        let first = find(&effects, 0);
        prop_assert_eq!((first.values, first.basis), ((0, 1), Basis::Model(9)));
        prop_assert!((first.ratio.log - 0.5).abs() < 0.05, "{}", first.ratio.log);
    }
}

#[test]
fn an_interaction_is_told_by_what_the_effect_is_at_either_end() {
    // The second setting does the contrary at the second value of the first.
    let more = |values: &[usize], _: usize| if values[..2] == [1, 1] { 0.45 } else { 0.0 };
    let found = Effects::of(&planted(1, |_| true, more), 3)
        .interaction
        .expect("planted");
    let summary = (found.setting, found.values, found.with, found.at);
    assert_eq!(summary, (1, (1, 0), With::Setting(0), (0, 1)));
    assert!(
        (found.logs.0 - 0.3).abs() < 0.03 && (found.logs.1 + 0.15).abs() < 0.03,
        "{found:?}"
    );
    let more = |values: &[usize], load: usize| 0.2 * (values[2] * load) as f64;
    let found = Effects::of(&planted(1, |_| true, more), 3)
        .interaction
        .expect("planted");
    assert_eq!((found.setting, found.with, found.at), (2, With::Load, (0, 3)));
    assert!(
        found.logs.0.abs() < 0.03 && (found.logs.1 - 1.2).abs() < 0.03,
        "{found:?}"
    );
    // The highest load counts that servers of both values were measured under.
    let some: Vec<Observation> = planted(1, |_| true, more)
        .into_iter()
        .filter(|one| one.load < 3 || one.values[2] == 0)
        .collect();
    let found = Effects::of(&some, 3).interaction.expect("planted");
    assert_eq!((found.setting, found.at), (2, (0, 2)));
    assert_eq!(Effects::of(&planted(1, |_| true, |_, _| 0.0), 3).interaction, None);
}

#[test]
fn one_pair_is_as_sure_as_its_starts() {
    let one = |value: usize, load: usize, start: u32, log: f64| Observation {
        values: vec![value],
        load,
        start,
        log,
    };
    let pair = |starts: u32| -> Vec<Observation> {
        let logs = |start: u32, value: usize, load: usize| 0.3 * value as f64 + load as f64 + 0.01 * f64::from(start);
        let all = (0..starts).flat_map(|start| (0..4).map(move |i| (start, i / 2, i % 2)));
        all.map(|(start, value, load)| one(value, load, start, logs(start, value, load)))
            .collect()
    };
    let sure = Effects::of(&pair(3), 1);
    let interval = sure.effects[0].interval.expect("three starts");
    assert!(interval.low > 0.2 && interval.high < 0.4 && interval.high > interval.low);
    let unsure = Effects::of(&pair(1), 1);
    assert_eq!(
        (unsure.effects[0].interval, unsure.effects[0].basis),
        (None, Basis::Pairs(1))
    );
    assert_eq!(Effects::of(&[], 2), Effects::default());
    assert_eq!(Effects::of(&[one(0, 0, 0, 1.0), one(1, 1, 0, 1.0)], 1).effects, []);
}
