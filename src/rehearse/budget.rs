//! Limits of a forecast: tokens, steps and time. A forecast that reaches a limit ends with [`Unknown::TooMuch`], so it never delays a sweep
//! or a signal for long.

use super::Unknown;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The limits of a forecast, as its caller states them.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Most tokens to simulate; unlimited if unset.
    pub tokens: Option<u64>,
    /// Longest time that the computation may take; unlimited if unset.
    pub time: Option<Duration>,
    /// Set by another thread to end the forecast.
    pub is_cancelled: Arc<AtomicBool>,
}

/// The tokens and the time that a forecast has left.
#[derive(Debug)]
pub struct Budget {
    tokens: AtomicU64,
    until: Option<Instant>,
    is_cancelled: Arc<AtomicBool>,
}

impl Budget {
    /// Returns a full budget, whose time begins now.
    pub fn new(limits: &Limits) -> Budget {
        Budget {
            tokens: AtomicU64::new(limits.tokens.unwrap_or(u64::MAX)),
            until: limits.time.map(|time| Instant::now() + time),
            is_cancelled: Arc::clone(&limits.is_cancelled),
        }
    }

    /// Returns an allowance of `most` steps for one server start, which shares the time of this budget.
    pub(super) fn steps(&self, most: u64) -> Steps<'_> {
        Steps {
            budget: self,
            left: Cell::new(most),
        }
    }

    /// Takes tokens from the budget.
    ///
    /// # Errors
    ///
    /// [`Unknown::TooMuch`] if fewer are left, the time is over or the forecast was cancelled.
    pub(super) fn spend(&self, tokens: u64) -> Result<(), Unknown> {
        self.check()?;
        let take = |left: u64| left.checked_sub(tokens);
        let spent = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        spent.map(|_| ()).map_err(|_| Unknown::TooMuch)
    }

    fn check(&self) -> Result<(), Unknown> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        match is_late || self.is_cancelled.load(Ordering::Relaxed) {
            true => Err(Unknown::TooMuch),
            false => Ok(()),
        }
    }
}

/// The steps that the forecast of one server start may still take.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    budget: &'a Budget,
    left: Cell<u64>,
}

impl Steps<'_> {
    /// Takes one step.
    ///
    /// # Errors
    ///
    /// [`Unknown::TooMuch`] if none is left, the time is over or the forecast was cancelled.
    pub fn take(&self) -> Result<(), Unknown> {
        self.budget.check()?;
        let left = self.left.get().checked_sub(1).ok_or(Unknown::TooMuch)?;
        self.left.set(left);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_ends_a_forecast() {
        let budget = |limits: Limits| Budget::new(&limits);
        let few = budget(Limits {
            tokens: Some(10),
            ..Limits::default()
        });
        assert_eq!([few.spend(10), few.spend(1)], [Ok(()), Err(Unknown::TooMuch)]);

        let late = budget(Limits {
            time: Some(Duration::ZERO),
            ..Limits::default()
        });
        assert_eq!(late.spend(0), Err(Unknown::TooMuch));

        let limits = Limits::default();
        let open = Budget::new(&limits);
        let steps = open.steps(2);
        assert_eq!(
            [steps.take(), steps.take(), steps.take()],
            [Ok(()), Ok(()), Err(Unknown::TooMuch)]
        );
        let more = open.steps(1);
        limits.is_cancelled.store(true, Ordering::Relaxed);
        assert_eq!(
            [more.take(), open.spend(1)],
            [Err(Unknown::TooMuch), Err(Unknown::TooMuch)]
        );
    }
}
