//! Spreads work over threads. A machine at its limit of processes or memory may refuse a new thread; the work is then done by fewer
//! threads, at least by the calling one.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

/// Number of threads that the machine can run at once.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Applies `work` to each item and returns the results in the items' order, with up to `most` items at a time.
pub fn map<T: Sync, R: Send>(most: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let made = Mutex::new(Vec::new());
    let perform = || {
        let mut batch = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            batch.push((at, work(item)));
        }
        made.lock().unwrap_or_else(PoisonError::into_inner).append(&mut batch);
    };
    thread::scope(|scope| {
        // If one thread is refused, the next would be, too.
        let mut more = 1..most.min(items.len());
        let _ = more.try_for_each(|_| Builder::new().spawn_scoped(scope, perform).map(drop));
        perform();
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_unstable_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, done)| done).collect()
}

/// Performs two pieces of work, at the same time if the system allows another thread now. A panic of either is passed on.
pub fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    let (waiting, done) = (Mutex::new(Some(one)), Mutex::new(None));
    let perform = || {
        let work = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            let made = work();
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        }
    };
    let other = thread::scope(|scope| {
        let spawned = Builder::new().spawn_scoped(scope, perform);
        let other = other();
        if spawned.is_err() {
            perform();
        }
        other
    });
    let one = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    (one.expect("the scope has waited for it"), other)
}

/// Returns true if the system allows another thread now.
pub fn is_allowed() -> bool {
    Builder::new().spawn(|| ()).is_ok_and(|thread| thread.join().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pieces_of_work_are_done() {
        let mut other = 0;
        let made = both(|| "one".to_owned(), || other += 1);
        assert_eq!((made, other), (("one".to_owned(), ()), 1));
    }

    #[test]
    fn order_is_kept_whatever_the_number_of_threads() {
        let items: Vec<u32> = (0..100).collect();
        let doubled: Vec<u32> = items.iter().map(|item| item * 2).collect();
        for most in [0, 1, 3, 1000] {
            assert_eq!(map(most, &items, |item| item * 2), doubled);
        }
        assert!(map(4, &[], |item: &u32| *item).is_empty());
    }
}
