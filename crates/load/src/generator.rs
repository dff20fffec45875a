//! The event loop: opens connections, sends each request when it is due and a slot is free, reads the answers.
//!
//! The loop is one thread with one `epoll`, without a runtime. It waits for due times with a timer of the kernel's full resolution. The
//! submodules open connections, end requests, and measure how long the loop did not look at the network.

mod absence;
mod ending;
mod opening;

use self::absence::Absence;
use super::api::moderation::Moderation;
use super::clock::{nanos, thread_cpu};
use super::drive::{Drive, Load, LoadOutcome};
use super::wire::connection::Connection;
use super::wire::exchange::Exchange;
use super::wire::stamps::ArrivalClock;
use super::wire::transport::{ReadOutcome, Tls};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use nix::errno::Errno;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vsweep_metrics::{LoadProgress, Nanos};

const TIMER: Token = Token(usize::MAX);
const STOP: Token = Token(usize::MAX - 1);
const SWEEPER: Token = Token(usize::MAX - 2);
/// Maximum number of requests that are sent before the loop looks at arrivals again, so that a burst of sends does not delay reading.
const SENDS_PER_TURN: usize = 16;
/// Maximum number of reads from one connection before the loop looks at the others, so that a server that never stops sending does not
/// delay them.
const READS_PER_TURN: usize = 4;
/// Maximum number of connections that are being opened at the same time, so that a server's listen queue is not flooded.
const OPENING_AT_ONCE: usize = 128;
/// Number of idle connections kept ready if the number of slots is not limited.
const SPARE: usize = 16;
/// Longest time that a connection may be idle and still be used. vLLM closes idle connections after 5 s.
const TRUSTED_IDLE: Duration = Duration::from_secs(3);
/// Time between two sweeps over all connections. A stop of the process is measured too short by at most this time, which must not exceed
/// the 50 ms above which a stop can disturb a run.
const SWEEP: Duration = Duration::from_millis(50);
/// Beginning of the error of a request for which no connection could be opened.
pub const UNCONNECTED: &str = "could not open a connection";
/// Time between checks for a request that is still to be drawn.
const STARVED: Duration = Duration::from_millis(1);

/// Connections to one server and the loop that drives them.
pub struct Generator {
    poll: Poll,
    timer: TimerFd,
    /// Wakes the loop for its next sweep. A time limit for each wait would be more expensive: each would set up a timer of the kernel.
    sweeper: TimerFd,
    stop: Stop,
    /// The server's addresses; the first that answers is used.
    addresses: VecDeque<SocketAddr>,
    tls: Option<Tls>,
    /// The connections. The index of a connection is called its place, and is its token for the event loop.
    connections: Vec<Option<Connection>>,
    /// Places of the open connections that carry no request.
    idle: Vec<usize>,
    /// Places of closed connections, which the next connections take.
    vacant: Vec<usize>,
    /// Exchanges of closed connections. The next connections reuse their memory.
    exchanges: Vec<Exchange>,
    /// Number of connections that are being opened.
    opening: usize,
    /// Connections that may have more to read, of which the kernel does not notify the loop again. The flag is true if the server has
    /// closed its end.
    unread: Vec<(usize, bool)>,
    /// True once the server was seen to close a connection without announcing it. From then on, each connection is closed after an answer.
    closes_unannounced: bool,
    /// Number of connections that were opened because a request had none.
    awaited: u64,
    /// The error by which this machine refused a connection that a request needs.
    refused: Option<io::Error>,
    buffer: Vec<u8>,
    /// Buffer for a request that is read from a file.
    outgoing: Vec<u8>,
}

impl Generator {
    /// Creates a generator for the server at one of `addresses`, not connected yet.
    pub fn new(addresses: Vec<SocketAddr>, tls: Option<Tls>) -> io::Result<Generator> {
        let poll = Poll::new()?;
        let timer = |token| -> io::Result<TimerFd> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
            let fd = timer.as_fd().as_raw_fd();
            poll.registry()
                .register(&mut SourceFd(&fd), token, Interest::READABLE)?;
            Ok(timer)
        };
        let (timer, sweeper) = (timer(TIMER)?, timer(SWEEPER)?);
        let waker = Arc::new(Waker::new(poll.registry(), STOP)?);
        Ok(Generator {
            poll,
            timer,
            sweeper,
            stop: Stop {
                asked: Arc::new(AtomicBool::new(false)),
                waker,
            },
            addresses: addresses.into(),
            tls,
            connections: vec![],
            idle: vec![],
            vacant: vec![],
            exchanges: vec![],
            opening: 0,
            unread: vec![],
            closes_unannounced: false,
            awaited: 0,
            refused: None,
            buffer: vec![0; 256 << 10],
            outgoing: vec![],
        })
    }

    /// Returns a handle by which another thread can end the generator.
    pub fn stop_handle(&self) -> Stop {
        self.stop.clone()
    }

    /// Sends the load and awaits every answer.
    pub fn drive(&mut self, load: &Load) -> io::Result<LoadOutcome> {
        self.drive_watched(load, &mut |_| ControlFlow::Continue(()))
    }

    /// Like `drive`, but `watch` can end the load. Requests in flight are then given up.
    pub fn drive_watched(
        &mut self,
        load: &Load,
        watch: &mut dyn FnMut(LoadProgress<'_>) -> ControlFlow<()>,
    ) -> io::Result<LoadOutcome> {
        (self.awaited, self.refused) = (0, None);
        let cpu_before = thread_cpu();
        let mut drive = Drive::new(load, watch);
        let mut arrivals = ArrivalClock::new(drive.clock);
        let mut moderation = Moderation::default();
        let mut events = Events::with_capacity(1024);
        let mut absence = Absence::new(nanos(SWEEP));
        set(&self.sweeper, SWEEP)?;
        let mut reported = 0;
        let (mut connecting, mut waiting, mut last) = (0, 0, 0);
        while !drive.is_finished() {
            let turn_began = arrivals.look();
            absence.looked(turn_began);
            connecting += waiting * turn_began.saturating_sub(last);
            if absence.total > reported {
                reported = absence.total;
                drive.notify(LoadProgress::Stalled(reported));
            }
            let unread = std::mem::take(&mut self.unread);
            for event in &events {
                self.serve(event.token().0, event.is_read_closed(), &mut arrivals, &mut drive);
            }
            for (place, read_closed) in unread {
                self.serve(place, read_closed, &mut arrivals, &mut drive);
            }
            drive.advance();
            let has_more = self.dispatch(&mut drive);
            let now = drive.clock.now();
            (waiting, last) = (drive.waiting.len() as Nanos, now);
            if absence.worked(turn_began, now) {
                self.sweep(&mut drive, now);
                set(&self.sweeper, SWEEP)?;
            }
            moderation.note(arrivals.stamped, now);
            if self.stop.is_asked() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if let Some(error) = self.refused.take() {
                return Err(error);
            }
            if drive.is_finished() {
                break;
            }
            let is_behind = has_more || !self.unread.is_empty();
            if !is_behind {
                self.arm(&mut drive)?;
                if drive.waiting.is_empty()
                    && let Some(pause) = moderation.pause(turn_began, now, drive.next_due())
                {
                    std::thread::sleep(pause);
                }
            }
            let pause = match is_behind {
                true => Some(Duration::ZERO),
                false => drive.is_starved().then_some(STARVED),
            };
            self.wait(&mut events, pause)?;
        }
        let cut = match drive.is_cut {
            true => self.cut(drive.clock.now()),
            false => vec![],
        };
        Ok(LoadOutcome {
            duration: drive.clock.now(),
            began: drive.clock.zero,
            cut,
            asked: drive.stock.asked,
            cpu: thread_cpu().saturating_sub(cpu_before),
            samples: drive.samples,
            longest_absence: absence.longest,
            total_absence: absence.total,
            absences: absence.times,
            stamped_share: arrivals.stamped_share(),
            late_connections: self.awaited,
            connecting,
            undrawn: drive.undrawn,
        })
    }

    fn wait(&mut self, events: &mut Events, limit: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, limit) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => other,
        }
    }

    /// Sends requests that are due, up to [`SENDS_PER_TURN`]. Returns true if more are due.
    fn dispatch(&mut self, drive: &mut Drive<'_>) -> bool {
        for _ in 0..SENDS_PER_TURN {
            if !drive.can_send() {
                break;
            }
            let Some((index, ready)) = drive.take(drive.clock.now()) else {
                break;
            };
            match self.idle.pop() {
                Some(place) => self.send(place, index, ready, drive),
                None => {
                    drive.waiting.push_back((index, ready));
                    self.awaited += 1;
                    self.open_for(drive);
                }
            }
        }
        if drive.load.limit.is_none() && drive.has_more() && self.idle.len() + self.opening < SPARE {
            self.open_for(drive);
        }
        drive.can_send()
    }

    /// Opens a connection during a load. If that fails, the request that has waited longest fails. But if this machine cannot open more
    /// connections, the load ends, because the server is not at fault.
    fn open_for(&mut self, drive: &mut Drive<'_>) {
        let Err(error) = self.open() else { return };
        if drive.waiting.is_empty() {
            return;
        }
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMFILE | Errno::ENFILE | Errno::EADDRNOTAVAIL | Errno::ENOBUFS) => self.refused = Some(error),
            _ => {
                let (index, ready) = drive.waiting.pop_front().expect("not empty");
                drive.fail_unsent(index, ready, format!("{UNCONNECTED}: {error}"));
            }
        }
    }

    fn send(&mut self, place: usize, index: usize, ready: Nanos, drive: &mut Drive<'_>) {
        let Some(connection) = &mut self.connections[place] else {
            return;
        };
        connection.exchange.begin(
            drive.load,
            (index, drive.stock.properties(index)),
            (drive.due(index, ready), ready),
        );
        let bytes = drive.bytes(index, &mut self.outgoing);
        (connection.carries, connection.writing) = (Some(index), Some(0));
        connection.exchange.sent(drive.clock.now());
        if let Err(error) = bytes.and_then(|bytes| connection.write(bytes)) {
            self.lose(place, Some(format!("sending failed: {error}")), drive);
        }
    }

    /// Handles events of one connection.
    fn serve(&mut self, place: usize, read_closed: bool, arrivals: &mut ArrivalClock, drive: &mut Drive<'_>) {
        let Some(Some(connection)) = self.connections.get_mut(place) else {
            return;
        };
        if !connection.is_open {
            match connection.confirm() {
                Ok(false) => return,
                Ok(true) => {
                    self.opening -= 1;
                    self.offer(place, drive);
                }
                Err(error) => {
                    self.discard(place);
                    if let Some((index, ready)) = drive.waiting.pop_front() {
                        drive.fail_unsent(index, ready, format!("{UNCONNECTED}: {error}"));
                    }
                }
            }
            return;
        }
        if let (Some(index), Some(_)) = (connection.carries, connection.writing)
            && let Err(error) = drive
                .bytes(index, &mut self.outgoing)
                .and_then(|bytes| connection.write(bytes))
        {
            return self.lose(place, Some(format!("sending failed: {error}")), drive);
        }
        for _ in 0..READS_PER_TURN {
            let Some(connection) = &mut self.connections[place] else {
                return;
            };
            let arrived = connection.read(&mut self.buffer);
            let is_busy = connection.carries.is_some();
            match arrived {
                Ok(ReadOutcome::Nothing) => return,
                Ok(ReadOutcome::Bytes { count, stamp, is_last }) if is_busy => {
                    let at = arrivals.time(stamp, connection.exchange.heard_at());
                    if connection.exchange.feed(&self.buffer[..count], at) {
                        return self.end(place, at, read_closed, drive);
                    }
                    if is_last && !read_closed {
                        return;
                    }
                }
                Ok(ReadOutcome::End) if is_busy => return self.lose(place, None, drive),
                Err(error) if is_busy => {
                    return self.lose(place, Some(format!("the connection broke: {error}")), drive);
                }
                _ => return self.discard(place),
            }
        }
        self.unread.push((place, read_closed));
    }

    fn arm(&self, drive: &mut Drive<'_>) -> io::Result<()> {
        let wanted = drive.next_due();
        if wanted == drive.armed_for {
            return Ok(());
        }
        if let Some(due) = wanted {
            set(&self.timer, Duration::from_nanos(due.saturating_sub(drive.clock.now())))?;
        }
        drive.armed_for = wanted;
        Ok(())
    }
}

/// Lets a timer expire once, after at least a nanosecond: a time of 0 would disarm it.
fn set(timer: &TimerFd, after: Duration) -> io::Result<()> {
    let after = Expiration::OneShot(after.max(Duration::from_nanos(1)).into());
    Ok(timer.set(after, TimerSetTimeFlags::empty())?)
}

/// A handle that ends a generator from another thread.
#[derive(Debug, Clone)]
pub struct Stop {
    pub(super) asked: Arc<AtomicBool>,
    pub(super) waker: Arc<Waker>,
}

impl Stop {
    /// Asks the generator to end at once.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Relaxed);
        // A generator that cannot be woken sees the flag at its next sweep.
        let _ = self.waker.wake();
    }

    /// Returns true if the generator was asked to end.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
