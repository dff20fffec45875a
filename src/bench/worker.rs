//! A measurement on a thread of its own that leaves no trace when it is given up: dropping the future, or its time running
//! out, stops the thread's generators, and waits until it has tidied up behind itself where there is something to tidy up.

use crate::bench::broken;
use crate::cause::{Cause, Failure};
use crate::load::Stop;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Worker {
    stops: Vec<Stop>,
    /// The thread, if its end is awaited.
    thread: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stops.iter().for_each(Stop::stop);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked leaves nothing that we could clean up.
            let _ = thread.join();
        }
    }
}

/// Fate of a thread whose work is given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// It is awaited, because it cleans up after itself.
    Awaited,
    /// It ends by itself when it notices that nobody listens.
    Left,
}

/// Performs `work` on a thread, for as long as `limit` says, which may be more when it is asked again. `stops` end the
/// generators that it uses.
pub(super) async fn perform<T: Send + 'static>(
    stops: Vec<Stop>,
    limit: impl Fn() -> Duration,
    given_up: GivenUp,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let began = Instant::now();
    let (report, mut reported) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("vsweep-load".to_owned());
    let thread = thread
        .spawn(move || {
            // If the run was given up, the receiver is gone.
            let _ = report.send(work());
        })
        .map_err(|error| {
            broken(format!(
                "cannot start the generator's thread: {error}; raise the limit of processes"
            ))
        })?;
    let _ends_with_the_future = Worker {
        stops,
        thread: Some(thread).filter(|_| given_up == GivenUp::Awaited),
    };
    loop {
        let left = limit().saturating_sub(began.elapsed());
        match tokio::time::timeout(left, &mut reported).await {
            Ok(Ok(done)) => return done,
            Ok(Err(_)) => return Err(broken("the generator's thread ended early")),
            Err(_) if began.elapsed() < limit() => {}
            Err(_) => break,
        }
    }
    let detail = format!("not done after {} s", limit().as_secs());
    Err(Failure::new(Cause::BenchTimeout, detail))
}
