//! Speculative decoding: how many tokens are guessed ahead, and how many of the guesses turn out right. Which guess is
//! right is drawn from the request's seed, so it is the same in every run.

use super::noise::{mix, uniform};

/// Guesses ahead of each token.
#[derive(Debug, Clone, PartialEq)]
pub struct Speculation {
    /// Guesses a step; at least one.
    pub tokens: usize,
    /// Parameters of what guesses; 0 for n-grams, which cost the GPU nothing.
    pub parameters: f64,
    /// Probability that a guess is right if all before it were, by its place; the last one holds for all further places.
    pub acceptance: Vec<f64>,
    /// By how much these become smaller in a minute, as a part of what they were at first.
    pub falling: f64,
}

impl Speculation {
    /// How many of `guesses`, made at `now` after `produced` tokens of the answer with this seed, are right before the first
    /// wrong one.
    pub fn accepted(&self, seed: u64, produced: usize, guesses: usize, now: f64) -> usize {
        let left = (1.0 - self.falling * now / 60.0).max(0.0);
        let right = |place: &usize| uniform(mix(seed ^ 0x5BEC), (produced + place) as u64) < left * self.chance(*place);
        (0..guesses).take_while(right).count()
    }

    fn chance(&self, place: usize) -> f64 {
        let chance = self.acceptance.get(place).or(self.acceptance.last());
        chance.copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_is_the_stated_one_and_stops_at_the_first_miss() {
        let guess = Speculation {
            tokens: 3,
            parameters: 0.0,
            acceptance: vec![0.8, 0.5],
            falling: 0.5,
        };
        let total: usize = (0..20_000).map(|seed| 1 + guess.accepted(seed, 7, 3, 0.0)).sum();
        assert!((total as f64 / 20_000.0 - (1.0 + 0.8 + 0.4 + 0.2)).abs() < 0.03);
        assert_eq!(guess.accepted(1, 1, 0, 0.0), 0);
        let later = (0..20_000)
            .filter(|seed| guess.accepted(*seed, 7, 1, 60.0) == 1)
            .count();
        assert!(
            (later as f64 / 20_000.0 - 0.4).abs() < 0.02,
            "half of 0.8 after a minute"
        );
        assert_eq!(guess.accepted(1, 1, 3, 1e6), 0);
        let never = Speculation {
            acceptance: Vec::new(),
            ..guess
        };
        assert_eq!(never.accepted(3, 0, 3, 0.0), 0);
    }
}
