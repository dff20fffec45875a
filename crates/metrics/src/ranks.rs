//! Values at given ranks of a sequence that is too long to sort: counted digit by digit in several walks over it, in
//! memory that does not depend on its length. Exact.

use super::moments::Nanos;
use std::collections::BTreeMap;

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// The values at `ranks` (0 is the smallest) among what each call of `walk` yields. Each rank must be below their count.
pub fn at_ranks<I: Iterator<Item = Nanos>>(
    walk: impl Fn() -> I,
    ranks: impl IntoIterator<Item = usize>,
) -> BTreeMap<usize, Nanos> {
    let most = walk().max().unwrap_or(0);
    let digits = (Nanos::BITS - most.leading_zeros()).div_ceil(DIGIT_BITS).max(1);
    // For each rank: the leading digits of its value, and its rank among the values that begin so.
    let mut found: BTreeMap<usize, (Nanos, usize)> = ranks.into_iter().map(|rank| (rank, (0, rank))).collect();
    for digit in (0..digits).rev() {
        let shift = digit * DIGIT_BITS;
        let mut counts: Vec<(Nanos, Vec<usize>)> = vec![];
        for (leading, _) in found.values() {
            // Ranks ascend, so equal beginnings are neighbours.
            if counts.last().is_none_or(|(last, _)| last != leading) {
                counts.push((*leading, vec![0; DIGITS]));
            }
        }
        for value in walk() {
            let leading = value.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
            if let Some((_, counts)) = counts.iter_mut().find(|(wanted, _)| *wanted == leading) {
                counts[(value >> shift) as usize % DIGITS] += 1;
            }
        }
        for (leading, rest) in found.values_mut() {
            let counts = counts
                .iter()
                .find(|(wanted, _)| wanted == leading)
                .map(|(_, counts)| counts);
            for (digit, count) in counts.into_iter().flatten().enumerate() {
                if *rest < *count {
                    *leading = *leading << DIGIT_BITS | digit as Nanos;
                    break;
                }
                *rest -= count;
            }
        }
    }
    found.into_iter().map(|(rank, (value, _))| (rank, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(prop_oneof![0..5000u64, any::<u64>()], 1..200),
            ranks in prop::collection::vec(0usize..200, 0..6),
        ) {
            let ranks: Vec<usize> = ranks.into_iter().map(|rank| rank % values.len()).collect();
            let found = at_ranks(|| values.iter().copied(), ranks.clone());
            values.sort_unstable();
            for rank in ranks {
                prop_assert_eq!(found[&rank], values[rank]);
            }
        }
    }
}
