//! One connection of the generator and the request it carries.

use super::exchange::Exchange;
use super::transport::{ReadOutcome, Tls, Transport};
use mio::net::TcpStream;
use mio::{Registry, Token};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// A connection to the server under test.
pub(crate) struct Connection {
    transport: Transport,
    /// True once the connection is established, with TLS once the handshake is done too.
    pub is_open: bool,
    /// Index of the request that it carries, if any.
    pub carries: Option<usize>,
    /// Number of bytes of the request that were handed to the system so far; `None` if there is nothing left to write.
    pub writing: Option<usize>,
    /// True once a request on this connection has ended.
    pub has_answered: bool,
    /// Time since which it has carried no request.
    pub idle_since: Instant,
    pub exchange: Exchange,
}

impl Connection {
    /// Begins to connect. The event loop gets its events under `token`.
    pub fn open(
        address: SocketAddr,
        tls: Option<&Tls>,
        registry: &Registry,
        token: Token,
        exchange: Exchange,
    ) -> io::Result<Connection> {
        Ok(Connection {
            transport: Transport::new(TcpStream::connect(address)?, tls, registry, token)?,
            is_open: false,
            carries: None,
            writing: None,
            has_answered: false,
            idle_since: Instant::now(),
            exchange,
        })
    }

    /// Goes on with connecting. Returns true once the connection is open.
    pub fn confirm(&mut self) -> io::Result<bool> {
        self.is_open = self.transport.confirm()?;
        if self.is_open {
            self.idle_since = Instant::now();
        }
        Ok(self.is_open)
    }

    /// Writes as much of the rest of a request as the system takes now.
    pub fn write(&mut self, request: &[u8]) -> io::Result<()> {
        while let Some(done) = self.writing {
            if done == request.len() {
                if self.transport.flush()? {
                    self.writing = None;
                }
                return Ok(());
            }
            match self.transport.write(&request[done..])? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(n) => self.writing = Some(done + n),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads bytes that have arrived.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        self.transport.read(buffer)
    }

    /// Closes the connection, and returns the memory of its exchange for the next one.
    pub fn close(mut self, registry: &Registry) -> Exchange {
        let _ = self.transport.deregister(registry);
        self.exchange
    }
}
