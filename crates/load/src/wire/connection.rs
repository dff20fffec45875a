//! One connection of the generator and the request it carries.

use super::exchange::Exchange;
use super::transport::{Arrived, Tls, Transport};
use mio::net::TcpStream;
use mio::{Registry, Token};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// A connection to the server under test.
pub(crate) struct Connection {
    transport: Transport,
    /// Connecting, and the handshake if there is one, are done.
    pub is_open: bool,
    /// The request it carries, as an index.
    pub carries: Option<usize>,
    /// Number of bytes of the request that were handed over; `None` once the system has all of it.
    pub unsent: Option<usize>,
    /// It has carried a request to its end.
    pub has_answered: bool,
    /// Since when it has carried nothing.
    pub idle_since: Instant,
    pub exchange: Exchange,
}

impl Connection {
    /// Begins to connect; the event loop hears of it as `token`.
    pub fn open(
        address: SocketAddr,
        tls: Option<&Tls>,
        registry: &Registry,
        token: Token,
        exchange: Exchange,
    ) -> io::Result<Connection> {
        let mut transport = Transport::new(TcpStream::connect(address)?, tls)?;
        transport.register(registry, token)?;
        Ok(Connection {
            transport,
            is_open: false,
            carries: None,
            unsent: None,
            has_answered: false,
            idle_since: Instant::now(),
            exchange,
        })
    }

    /// Asks how connecting went; true once it is open.
    pub fn confirm(&mut self) -> io::Result<bool> {
        self.is_open = self.transport.confirm()?;
        if self.is_open {
            self.idle_since = Instant::now();
        }
        Ok(self.is_open)
    }

    /// Hands over the rest of a request, as much as is taken.
    pub fn write(&mut self, request: &[u8]) -> io::Result<()> {
        while let Some(done) = self.unsent {
            if done == request.len() {
                if self.transport.flush()? {
                    self.unsent = None;
                }
                return Ok(());
            }
            match self.transport.write(&request[done..])? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(n) => self.unsent = Some(done + n),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads what has arrived.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Arrived> {
        self.transport.read(buffer)
    }

    /// Leaves the event loop and gives back the memory for the next connection.
    pub fn close(mut self, registry: &Registry) -> Exchange {
        let _ = self.transport.deregister(registry);
        self.exchange
    }
}
