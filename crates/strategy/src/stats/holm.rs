//! Holm's correction for a family of tests.

/// P-values adjusted for being the best of a family (Holm 1979): the family's chance of any false alarm is at most `alpha` if those
/// tests raise one whose adjusted value is at most `alpha`. In the order given.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut greatest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        let others = (p_values.len() - rank) as f64;
        greatest = greatest.max(others * p_values[index]).min(1.0);
        adjusted[index] = greatest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_statsmodels_adjusts() {
        // statsmodels 0.15.0: multipletests([0.01, 0.04, 0.03, 0.005, 0.6], method="holm")[1]
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005, 0.6]);
        for (found, expected) in adjusted.iter().zip([0.04, 0.09, 0.09, 0.025, 0.6]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn an_adjusted_value_is_no_smaller_and_keeps_the_order(p_values in prop::collection::vec(0.0f64..=1.0, 1..10)) {
            let adjusted = holm(&p_values);
            for (i, p) in p_values.iter().enumerate() {
                prop_assert!(adjusted[i] >= *p && adjusted[i] <= 1.0);
                for (j, q) in p_values.iter().enumerate() {
                    prop_assert!(p > q || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
