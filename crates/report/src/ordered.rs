//! Sorting with little machine code. The standard library's sort is compiled for each item type, at some 8 KiB each. This sort is compiled
//! once, because it sorts positions.

use std::cmp::Ordering;
use std::vec::IntoIter;

/// Sorts the items of an iterator. Equal items keep their order.
pub trait Ordered: Iterator + Sized {
    /// Sorts the items by a comparison.
    fn ordered_by(self, mut compare: impl FnMut(&Self::Item, &Self::Item) -> Ordering) -> IntoIter<Self::Item> {
        let items: Vec<Self::Item> = self.collect();
        let positions = sorted(items.len(), &mut |a, b| compare(&items[a], &items[b]));
        let mut items: Vec<Option<Self::Item>> = items.into_iter().map(Some).collect();
        let taken = positions.into_iter().filter_map(|at| items[at].take());
        taken.collect::<Vec<Self::Item>>().into_iter()
    }

    /// Sorts the items by a key of each.
    fn ordered_by_key<K: Ord>(self, mut key: impl FnMut(&Self::Item) -> K) -> IntoIter<Self::Item> {
        self.ordered_by(|a, b| key(a).cmp(&key(b)))
    }

    /// Sorts the items by their own order.
    fn ordered(self) -> IntoIter<Self::Item>
    where
        Self::Item: Ord,
    {
        self.ordered_by(Ord::cmp)
    }
}

impl<I: Iterator> Ordered for I {}

/// Sorts a list in place. Equal items keep their order.
pub trait Order<T> {
    /// Sorts by a comparison.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts by a key of each item.
    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> Order<T> for Vec<T> {
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering) {
        *self = std::mem::take(self).into_iter().ordered_by(compare).collect();
    }

    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) {
        *self = std::mem::take(self).into_iter().ordered_by_key(key).collect();
    }
}

/// Indices of `count` items, sorted by a comparison of items.
#[inline(never)]
fn sorted(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..count).collect();
    positions.sort_by(|a, b| compare(*a, *b));
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_the_standard_library(items in prop::collection::vec((0u8..9, 0u8..9), 0..40)) {
            let mut stable = items.clone();
            stable.sort_by_key(|item| item.0);
            prop_assert_eq!(items.iter().copied().ordered_by_key(|item| item.0).collect::<Vec<_>>(), stable);
            let mut all = items.clone();
            all.sort();
            prop_assert_eq!(items.into_iter().ordered().collect::<Vec<_>>(), all);
        }
    }
}
