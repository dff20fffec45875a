//! Detects disturbances of the machine during a measurement: a thread sleeps for a millisecond repeatedly, and records how late it wakes.
//! Such delays would affect the latencies of the generator and of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(1);
/// A sleep that ends later than this was disturbed.
const LATE: Duration = Duration::from_millis(4);
/// Share of sleeps that may be disturbed.
const DISTURBED: f64 = 0.001;
/// Attempts before a busy machine is refused.
const ATTEMPTS: usize = 4;

/// Returns the result of the first undisturbed attempt; `None` if all were disturbed.
pub fn calmly<T>(mut attempt: impl FnMut() -> T) -> Option<T> {
    for _ in 0..ATTEMPTS {
        let sleeper = Sleeper::start();
        let result = attempt();
        let disturbed = sleeper.end();
        if disturbed <= DISTURBED {
            return Some(result);
        }
        eprintln!(
            "the machine was busy for {:.2} % of the time: measured again",
            100.0 * disturbed
        );
    }
    None
}

struct Sleeper {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Sleeper {
    fn start() -> Sleeper {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut sleeps, mut late) = (0.0, 0.0);
            while !seen.load(Ordering::Relaxed) {
                let start = Instant::now();
                std::thread::sleep(SLEEP);
                sleeps += 1.0;
                late += f64::from(u8::from(start.elapsed() > SLEEP + LATE));
            }
            late / f64::max(sleeps, 1.0)
        });
        Sleeper { is_over, thread }
    }

    /// Ends the thread. Returns the share of its sleeps that ended late.
    fn end(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}
