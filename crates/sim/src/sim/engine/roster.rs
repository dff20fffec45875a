//! The requests inside the engine by key. Keys are given in order and requests leave roughly in that order, so a row of
//! places finds one without searching; a step asks for each of its requests several times.

use super::Key;
use super::sequence::Sequence;
use std::collections::VecDeque;
use std::ops::Index;

/// Requests by key.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// Key of the first place.
    first: Key,
    places: VecDeque<Option<Box<Sequence>>>,
    count: usize,
}

impl Roster {
    /// Adds a request with a key larger than any before.
    pub fn insert(&mut self, key: Key, sequence: Sequence) {
        if self.places.is_empty() {
            self.first = key;
        }
        self.places.push_back(Some(Box::new(sequence)));
        self.count += 1;
        debug_assert_eq!(self.first + self.places.len() as Key, key + 1, "keys come in order");
    }

    pub fn remove(&mut self, key: &Key) -> Option<Sequence> {
        let removed = self.places.get_mut(self.place(*key)?)?.take()?;
        self.count -= 1;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
        Some(*removed)
    }

    pub fn get(&self, key: &Key) -> Option<&Sequence> {
        self.places.get(self.place(*key)?)?.as_deref()
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Sequence> {
        let place = self.place(*key)?;
        self.places.get_mut(place)?.as_deref_mut()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All requests, in order of their keys.
    #[cfg(test)]
    pub fn values(&self) -> impl Iterator<Item = &Sequence> {
        self.places.iter().flatten().map(|sequence| &**sequence)
    }

    fn place(&self, key: Key) -> Option<usize> {
        key.checked_sub(self.first).map(|place| place as usize)
    }
}

impl Index<&Key> for Roster {
    type Output = Sequence;

    fn index(&self, key: &Key) -> &Sequence {
        self.get(key).expect("a scheduled request is known")
    }
}
