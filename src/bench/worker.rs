//! A measurement on a thread of its own that leaves no trace when it is given up: dropping the future, or its time running
//! out, stops the thread's generators and waits until it has tidied up behind itself.

use crate::bench::broken;
use crate::cause::{Cause, Failure};
use crate::load::Stop;
use std::thread::JoinHandle;
use std::time::Duration;

struct Worker {
    stops: Vec<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stops.iter().for_each(Stop::stop);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to tidy up that we could.
            let _ = thread.join();
        }
    }
}

/// Performs `work` on a thread, for at most `limit`. `stops` end the generators that it uses.
pub(super) async fn perform<T: Send + 'static>(
    stops: Vec<Stop>,
    limit: Duration,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (report, reported) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("vsweep-load".to_owned());
    let thread = thread
        .spawn(move || {
            // Nobody listens any more if the run was given up.
            let _ = report.send(work());
        })
        .map_err(|error| broken(format!("cannot start the generator's thread: {error}")))?;
    let _ends_with_the_future = Worker {
        stops,
        thread: Some(thread),
    };
    match tokio::time::timeout(limit, reported).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(broken("the generator's thread ended early")),
        Err(_) => {
            let detail = format!("not done after {} s", limit.as_secs());
            Err(Failure::new(Cause::BenchTimeout, detail))
        }
    }
}
