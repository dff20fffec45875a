//! Performs a measurement on its own thread. If the future is dropped or the time limit is reached, the thread's generators are stopped. A
//! thread that has to clean up is then awaited.

use crate::bench::broken;
use crate::cause::{Cause, Failure};
use crate::load::Stop;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at the clock. At most twice this time is counted: if more has passed, the process was stopped, which does not
/// count towards the limit of the run.
const LOOK: Duration = Duration::from_millis(100);

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
    /// It is not awaited, and ends by itself.
    Left,
}

/// Performs `work` on a thread, within the time that `limit` returns. The limit may grow during the work, and time for which the process is
/// stopped does not count. `stops` end the generators that the work uses.
pub(super) async fn perform<T: Send + 'static>(
    stops: Vec<Stop>,
    limit: impl Fn() -> Duration,
    given_up: GivenUp,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
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
    let mut passed = Duration::ZERO;
    while passed < limit() {
        let look = LOOK.min(limit() - passed);
        let began = Instant::now();
        match tokio::time::timeout(look, &mut reported).await {
            Ok(Ok(done)) => return done,
            Ok(Err(_)) => return Err(broken("the generator's thread ended early")),
            Err(_) => passed += began.elapsed().min(2 * LOOK),
        }
    }
    let detail = format!("not done after {} s", limit().as_secs());
    Err(Failure::new(Cause::BenchTimeout, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::sleep;

    #[tokio::test]
    async fn time_in_which_the_process_is_stopped_does_not_count() {
        let limit = 5 * LOOK;
        let (go_on, awaited) = channel();
        let work = move || {
            awaited.recv().expect("sent");
            sleep(LOOK / 2);
            Ok(7)
        };
        let stopped = async {
            // Blocks the only thread that looks at the time.
            sleep(2 * limit);
            go_on.send(()).expect("awaited");
        };
        let performed = perform(Vec::new(), || limit, GivenUp::Awaited, work);
        let (done, ()) = tokio::join!(performed, stopped);
        assert_eq!(done.ok(), Some(7));
        let late = || -> Result<(), Failure> {
            sleep(2 * LOOK);
            Ok(())
        };
        let failure = perform(Vec::new(), || LOOK, GivenUp::Awaited, late).await;
        assert_eq!(failure.err().map(|failure| failure.cause), Some(Cause::BenchTimeout));
    }
}
