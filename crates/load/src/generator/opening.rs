//! Opens and closes the generator's connections.

use super::{Generator, OPENING_AT_ONCE, SWEEP, TRUSTED_IDLE};
use crate::wire::connection::Connection;
use mio::{Events, Token};
use std::io;
use std::time::{Duration, Instant};

impl Generator {
    /// Opens connections until `count` are idle. If the first connection to an address fails, the next address is tried.
    ///
    /// # Errors
    ///
    /// The error of a connection; `TimedOut` after `timeout`, or if the generator is asked to stop.
    pub fn connect(&mut self, count: usize, timeout: Duration) -> io::Result<()> {
        // Checked even if enough connections are idle, because the caller that stopped the generator waits for its end.
        if self.stop.is_asked() {
            self.discard_all();
            return Err(io::ErrorKind::TimedOut.into());
        }
        let deadline = Instant::now() + timeout;
        let mut events = Events::with_capacity(1024);
        self.drop_stale();
        while self.idle.len() < count {
            while self.opening < OPENING_AT_ONCE && self.idle.len() + self.opening < count {
                self.open()?;
            }
            if self.stop.is_asked() || Instant::now() > deadline {
                self.discard_all();
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.wait(&mut events, Some(SWEEP))?;
            for event in &events {
                let place = event.token().0;
                let Some(Some(connection)) = self.connections.get_mut(place) else {
                    continue;
                };
                if !connection.is_open {
                    match connection.confirm() {
                        Ok(true) => {
                            self.opening -= 1;
                            self.idle.push(place);
                        }
                        Ok(false) => {}
                        Err(error) => {
                            self.discard(place);
                            if !self.idle.is_empty() || self.addresses.len() < 2 {
                                return Err(error);
                            }
                            self.addresses.pop_front();
                            self.discard_all();
                        }
                    }
                } else if event.is_read_closed() {
                    self.discard(place);
                }
            }
        }
        Ok(())
    }

    /// Begins to open a connection, and returns its place.
    pub(super) fn open(&mut self) -> io::Result<usize> {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let exchange = self.exchanges.pop().unwrap_or_default();
        let address = *self.addresses.front().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let registry = self.poll.registry();
        let opened = Connection::open(address, self.tls.as_ref(), registry, Token(place), exchange);
        match opened {
            Ok(connection) => self.connections[place] = Some(connection),
            Err(error) => {
                self.vacant.push(place);
                return Err(error);
            }
        }
        self.opening += 1;
        Ok(place)
    }

    pub(super) fn discard(&mut self, place: usize) {
        if let Some(connection) = self.connections[place].take() {
            if !connection.is_open {
                self.opening -= 1;
            }
            self.exchanges.push(connection.close(self.poll.registry()));
            self.vacant.push(place);
            self.idle.retain(|idle| *idle != place);
        }
    }

    pub(super) fn discard_all(&mut self) {
        (0..self.connections.len()).for_each(|place| self.discard(place));
    }

    /// Closes connections that were idle for longer than [`TRUSTED_IDLE`], because the server may have closed them.
    pub(super) fn drop_stale(&mut self) {
        for place in self.idle.clone() {
            if self.connections[place]
                .as_ref()
                .is_none_or(|connection| connection.idle_since.elapsed() > TRUSTED_IDLE)
            {
                self.discard(place);
            }
        }
    }
}
