//! Virtual time for futures.

use crate::run::activity_lock::ActivityLock;
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The end of a sleep, and the waker of its task.
type Sleeper = (Duration, Waker);

/// A clock that leaps to the next moment at which something happens.
#[derive(Clone, Default)]
pub struct Clock(Rc<(Cell<Duration>, RefCell<Vec<Sleeper>>)>);

impl Clock {
    pub fn now(&self) -> Duration {
        self.0.0.get()
    }

    pub async fn sleep(&self, seconds: f64) {
        let end = self.now() + Duration::from_secs_f64(seconds);
        std::future::poll_fn(|context| {
            if self.now() >= end {
                return Poll::Ready(());
            }
            self.0.1.borrow_mut().push((end, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        struct Woken(AtomicBool);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            while woken.0.swap(false, Ordering::Relaxed) {
                if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return value;
                }
            }
            let next = self.0.1.borrow().iter().map(|(end, _)| *end).min();
            let next = next.expect("a task that waits for no sleep would wait for ever");
            self.0.0.set(next);
            let sleepers = self.0.1.take();
            let (due, rest) = sleepers.into_iter().partition(|(end, _)| *end <= next);
            self.0.1.replace(rest);
            let due: Vec<Sleeper> = due;
            due.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    pub fn activity_lock(&self) -> ActivityLock {
        let clock = self.clone();
        ActivityLock::with_clock(move || clock.now())
    }
}
