//! Requests that are drawn while others are sent: a queue of limited size between the thread that draws and the one that sends. The thread
//! that draws waits while the queue is full. The thread that sends never waits for requests during a load.

use super::api::request::Request;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Number of bytes at which the queue is full, if it also holds enough requests.
const MOST_BYTES: usize = 32 << 20;

/// The end of the queue from which requests are sent. When it is dropped, drawing ends.
#[derive(Debug)]
pub struct Supply(Arc<Shared>);

/// The end of the queue to which drawn requests are added. When it is dropped, no more will come.
#[derive(Debug)]
pub struct Feed(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Number of requests that may wait, whatever their size.
    enough: usize,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Request>,
    bytes: usize,
    /// True if no more requests will come.
    is_over: bool,
    /// True if no more requests will be taken.
    is_closed: bool,
    /// The reason why the thread that draws prompts ended early.
    error: Option<String>,
}

/// Returns both ends of a new queue. The queue is full at 32 MiB, if it holds at least `enough` requests.
pub fn supply(enough: usize) -> (Feed, Supply) {
    let shared = Arc::new(Shared {
        enough,
        ..Shared::default()
    });
    (Feed(shared.clone()), Supply(shared))
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `condition` holds.
    fn wait_while(&self, condition: impl Fn(&Queue) -> bool) -> MutexGuard<'_, Queue> {
        let waited = self.changed.wait_while(self.queue(), |queue| condition(queue));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self, queue: &Queue) -> bool {
        queue.bytes >= MOST_BYTES && queue.waiting.len() >= self.enough
    }
}

impl Feed {
    /// Adds a request, once there is room. Returns false if no more are taken.
    pub fn push(&self, request: Request) -> bool {
        let mut queue = self.0.wait_while(|queue| !queue.is_closed && self.0.is_full(queue));
        queue.bytes += request.bytes.len();
        queue.waiting.push_back(request);
        self.0.changed.notify_all();
        !queue.is_closed
    }

    /// Ends drawing early, for this reason.
    pub fn fail(self, error: String) {
        self.0.queue().error = Some(error);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.queue().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Supply {
    /// Waits until the queue is full, or no more requests will come. Returns the number of requests in it.
    pub fn fill(&self) -> usize {
        let full = self.0.wait_while(|queue| !queue.is_over && !self.0.is_full(queue));
        full.waiting.len()
    }

    /// Takes up to `most` requests that have been drawn. Returns true if no more will come.
    pub(super) fn take(&self, most: usize, mut each: impl FnMut(Request)) -> bool {
        let mut queue = self.0.queue();
        let count = most.min(queue.waiting.len());
        let mut freed = 0;
        for request in queue.waiting.drain(..count) {
            freed += request.bytes.len();
            each(request);
        }
        queue.bytes -= freed;
        if count > 0 {
            self.0.changed.notify_all();
        }
        queue.is_over && queue.waiting.is_empty()
    }

    /// Returns the reason why the thread that draws prompts ended early, if it did.
    pub fn error(&self) -> Option<String> {
        self.0.queue().error.clone()
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(size: usize) -> Request {
        Request {
            bytes: vec![0; size],
            ..Request::default()
        }
    }

    #[test]
    fn drawing_waits_for_sending_and_ends_with_it() {
        let (feed, supply) = supply(3);
        let drawing = std::thread::spawn(move || (0..).take_while(|_| feed.push(request(MOST_BYTES / 4))).count());
        assert_eq!(supply.fill(), 4, "as many as fit");
        let mut taken = 0;
        for _ in 0..5 {
            supply.fill();
            assert!(!supply.take(2, |_| taken += 1));
        }
        assert_eq!(taken, 10);
        drop(supply);
        let drawn = drawing.join().expect("drawn");
        assert!((10..=15).contains(&drawn), "{drawn} drawn, 10 taken");
    }

    #[test]
    fn enough_requests_wait_however_large_they_are() {
        let (feed, supply) = supply(3);
        let drawing = std::thread::spawn(move || while feed.push(request(MOST_BYTES)) {});
        assert_eq!(supply.fill(), 3);
        drop(supply);
        drawing.join().expect("drawn");
    }

    #[test]
    fn the_end_and_its_reason_are_told() {
        let (feed, supply) = supply(1);
        assert!(feed.push(request(1)));
        feed.fail("no more rows".to_owned());
        assert_eq!((supply.fill(), supply.error().as_deref()), (1, Some("no more rows")));
        assert!(!supply.take(0, |_| {}), "one is left");
        assert!(supply.take(9, |_| {}));
    }
}
