//! Arrival times of bytes. The kernel stamps segments as they come in. This module enables and reads the stamps, and converts them to the
//! run's clock, so that the time of an event does not depend on how soon it is read.
//!
//! Stamps use the system's wall clock, which can be set. Both clocks are read once in each turn of the event loop. Without a stamp, or if
//! the wall clock was set since the last turn, the time of reading is used as the time of arrival.

use crate::clock::Clock;
use mio::net::TcpStream;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeValLike;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::{SystemTime, UNIX_EPOCH};
use vsweep_metrics::Nanos;

/// Maximum time, in nanoseconds, that reading both clocks may take. If it takes longer, the thread was interrupted between the reads, and
/// the comparison is not used.
const LONGEST_LOOK: Nanos = 20_000;
/// Largest change of the difference between the clocks from one turn to the next, in nanoseconds, that counts as drift. A larger change
/// means that the wall clock was set.
const MOST_DRIFT: u64 = 100_000;

/// A time of arrival by the wall clock, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp(i64);

/// Asks the kernel to stamp the bytes that arrive on a connection. If the kernel refuses, they have no stamps.
pub(crate) fn ask_for_stamps(socket: &TcpStream) {
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
}

/// Buffer for the control messages of a read, with the alignment that the kernel requires.
#[repr(align(8))]
struct Control([u8; 64]);

/// Reads bytes that have arrived. Returns their number, and the stamp of the last of them.
pub(crate) fn receive(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Option<Stamp>)> {
    let mut control = Control([0; 64]);
    let mut into = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut into, Some(&mut control.0), MsgFlags::empty())?;
    let mut controls = message.cmsgs().into_iter().flatten();
    let stamp = controls.find_map(|item| match item {
        ControlMessageOwned::ScmTimestampns(time) => Some(Stamp(time.num_nanoseconds())),
        _ => None,
    });
    Ok((message.bytes, stamp))
}

/// Converts stamps to times of arrival on the run's clock.
pub(crate) struct ArrivalClock {
    clock: Clock,
    /// The wall clock's time at t0, by the latest comparison of the clocks.
    wall_zero: i64,
    /// True if the wall clock has not been set since the previous turn.
    is_steady: bool,
    looked_at: Nanos,
    /// Number of reads whose arrival time is the kernel's.
    pub stamped: u64,
    /// Number of all reads.
    pub all: u64,
}

impl ArrivalClock {
    pub fn new(clock: Clock) -> Self {
        ArrivalClock {
            clock,
            wall_zero: 0,
            is_steady: false,
            looked_at: 0,
            stamped: 0,
            all: 0,
        }
    }

    /// Compares both clocks before the reads of a turn. Returns the time on the run's clock.
    pub fn look(&mut self) -> Nanos {
        let before = self.clock.now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = wall.map_or(0, |since| since.as_nanos() as i64);
        self.compare(before, wall, self.clock.now());
        self.looked_at
    }

    fn compare(&mut self, before: Nanos, wall: i64, after: Nanos) {
        self.looked_at = after;
        if after - before <= LONGEST_LOOK {
            let wall_zero = wall - before.midpoint(after) as i64;
            self.is_steady = wall_zero.abs_diff(self.wall_zero) <= MOST_DRIFT;
            self.wall_zero = wall_zero;
        }
    }

    /// Returns the arrival time of the data that was just read. The time is never before `earliest`, the last activity of the connection.
    pub fn time(&mut self, stamp: Option<Stamp>, earliest: Nanos) -> Nanos {
        self.all += 1;
        let usable = stamp.filter(|_| self.is_steady);
        let Some(at) = usable.and_then(|Stamp(wall)| Nanos::try_from(wall - self.wall_zero).ok()) else {
            return self.clock.now();
        };
        self.stamped += 1;
        // An arrival time cannot be in the future. The clock is read only for bytes that came during this turn.
        let latest = if at <= self.looked_at { at } else { self.clock.now() };
        at.min(latest).max(earliest)
    }

    /// Share of the reads whose arrival time is the kernel's.
    pub fn stamped_share(&self) -> f64 {
        self.stamped as f64 / self.all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::{Duration, Instant};

    const WALL: i64 = 1_795_000_000_000_000_000;

    fn steady() -> ArrivalClock {
        let mut arrivals = ArrivalClock::new(Clock::start());
        arrivals.compare(0, WALL, 0);
        assert!(!arrivals.is_steady, "one look tells nothing");
        arrivals.compare(1000, WALL + 1000, 1000);
        arrivals
    }

    #[test]
    fn a_stamp_becomes_a_time_of_the_run() {
        let mut arrivals = steady();
        assert_eq!(arrivals.time(Some(Stamp(WALL + 700)), 0), 700);
        assert_eq!(
            arrivals.time(Some(Stamp(WALL + 700)), 800),
            800,
            "not before it was asked for"
        );
        assert!(arrivals.time(None, 0) > 0, "the clock stands in");
        assert_eq!((arrivals.stamped, arrivals.all), (2, 3));
    }

    #[test]
    fn no_stamp_lies_in_the_future() {
        let mut arrivals = steady();
        let at = arrivals.time(Some(Stamp(WALL + 1_000_000_000_000_000)), 0);
        assert!(at <= arrivals.clock.now());
    }

    #[test]
    fn stamps_are_not_believed_while_the_wall_clock_is_set() {
        const HOUR: i64 = 3_600_000_000_000;
        let mut arrivals = steady();
        for step in [HOUR, -HOUR] {
            let (before, wall_zero) = (arrivals.looked_at, arrivals.wall_zero);
            arrivals.compare(before, wall_zero + before as i64 + step, before);
            arrivals.time(Some(Stamp(wall_zero + 700)), 0);
            arrivals.time(Some(Stamp(wall_zero + step + 700)), 0);
            assert_eq!(arrivals.stamped, 0);
            arrivals.compare(before, wall_zero + before as i64 + step, before);
            assert_eq!(arrivals.time(Some(Stamp(wall_zero + step + 700)), 0), 700);
            arrivals.stamped = 0;
        }
    }

    #[test]
    fn an_interrupted_look_says_nothing() {
        let mut arrivals = steady();
        arrivals.compare(2000, WALL + 9_000_000, 9_000_000);
        assert_eq!(arrivals.time(Some(Stamp(WALL + 700)), 0), 700);
    }

    #[test]
    fn the_system_stamps_what_it_receives() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (mut server, _) = listener.accept().expect("accepted");
        // A blocking socket, so that nothing here waits by the clock.
        let socket = TcpStream::from_std(socket);
        ask_for_stamps(&socket);
        let mut arrivals = ArrivalClock::new(Clock::start());
        let mut buffer = [0; 16];
        // The system begins to stamp a moment after it was asked to.
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            arrivals.look();
            let before = arrivals.clock.now();
            server.write_all(b"x").expect("sent");
            let (count, stamp) = receive(&socket, &mut buffer).expect("received");
            assert_eq!(count, 1);
            if arrivals.is_steady && stamp.is_some() {
                let at = arrivals.time(stamp, 0);
                assert!(
                    before <= at + LONGEST_LOOK + MOST_DRIFT && at <= arrivals.clock.now(),
                    "{before} {at}"
                );
                return;
            }
        }
        panic!("no stamp came");
    }
}
