//! Where a server listens: read from its command line in every spelling, chosen where it says nothing, and checked to be
//! free before the launch.
//!
//! A vLLM command without `--host` would listen on every interface of the machine; vsweep adds `--host 127.0.0.1`, so
//! that a benchmark's server is never offered to the network unless the plan says so.

use super::procfs::{self, Listener};
use super::trees;
use crate::cause::{Cause, Failure};
use crate::plan::ServeCommand;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Host and port of a server as its command line gives them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Address {
    /// As given; `None` leaves the server's default.
    pub host: Option<String>,
    /// As given; `None` leaves the server's default.
    pub port: Option<u16>,
    /// Whether the command line says by [`PORT`] where a port belongs that is chosen for it.
    is_placed: bool,
}

/// Stands in a command line for the port that is chosen.
pub const PORT: &str = "{port}";

/// Words of a command line as a server would read them: with some port in place of the one that its start will choose.
pub fn placed(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.replace(PORT, "8000")).collect()
}

impl Address {
    /// Reads what a command line says. A port that is none, and a Unix socket, are refused.
    pub fn read(argv: &[String]) -> Result<Address, Failure> {
        let bad = |detail: &str| Err(Failure::new(Cause::BadFlag, detail));
        let command = ServeCommand::of(argv);
        if command.has("uds") {
            return bad("--uds listens on a Unix socket; vsweep measures over TCP, so remove it");
        }
        let is_placed = argv.iter().any(|word| word.contains(PORT));
        let port = match command.value("port") {
            _ if is_placed => None,
            Some(value) => match value.parse().ok().filter(|&port| port != 0) {
                Some(port) => Some(port),
                None => return bad(&format!("--port {value} is not a port (1 to 65535)")),
            },
            None if command.has("port") => return bad("--port has no value"),
            None => None,
        };
        let host = command.value("host").map(str::to_owned);
        Ok(Address { host, port, is_placed })
    }

    /// The host to connect to: a server on all interfaces is reached through the loopback one.
    pub fn reachable_host(&self) -> &str {
        match self.host.as_deref() {
            None | Some("" | "0.0.0.0") => "127.0.0.1",
            Some("::") => "::1",
            Some(host) => host,
        }
    }

    /// `http://host:port` with vLLM's default port 8000, IPv6 addresses in brackets.
    pub fn base_url(&self) -> String {
        let (host, port) = (self.reachable_host(), self.port.unwrap_or(8000));
        match host.contains(':') && !host.starts_with('[') {
            true => format!("http://[{host}]:{port}"),
            false => format!("http://{host}:{port}"),
        }
    }

    /// Fills in what the command line leaves open, the port with a free one, and appends it there. The port that was chosen is to
    /// be kept as long as the server is there.
    pub fn settle(&mut self, argv: &mut Vec<String>) -> Result<Option<Promised>, Failure> {
        let refused = |error| Failure::new(Cause::PortTaken, format!("no free port can be had: {error}"));
        let chosen = match self.port {
            Some(_) => None,
            None => Some(Promised::choose().map_err(refused)?),
        };
        let port = self
            .port
            .or(chosen.as_ref().map(Promised::port))
            .expect("given or chosen");
        self.settle_on(port, argv);
        Ok(chosen)
    }

    /// Fills in what the command line leaves open, the port with this one, and appends it there.
    pub fn settle_on(&mut self, port: u16, argv: &mut Vec<String>) {
        if self.is_placed {
            for word in argv.iter_mut() {
                *word = word.replace(PORT, &port.to_string());
            }
            self.port = Some(port);
            return;
        }
        if self.host.is_none() && speaks_vllm(argv) {
            argv.extend(["--host".to_owned(), "127.0.0.1".to_owned()]);
            self.host = Some("127.0.0.1".to_owned());
        }
        if self.port.is_none() {
            argv.extend(["--port".to_owned(), port.to_string()]);
            self.port = Some(port);
        }
    }

    /// Whether somebody holds the port that the server is about to listen on, and who.
    pub fn taken(&self) -> Option<Taken> {
        let port = self.port?;
        let is_taken = self.listening_ips().into_iter().any(|ip| is_in_use(ip, port));
        is_taken.then(|| Taken {
            port,
            by: procfs::listener(port),
        })
    }

    fn listening_ips(&self) -> Vec<IpAddr> {
        match self.host.as_deref() {
            None | Some("") => vec![Ipv4Addr::UNSPECIFIED.into()],
            Some(host) => match host.trim_matches(['[', ']']).parse() {
                Ok(ip) => vec![ip],
                // The lookup of a name; one that does not resolve is the server's to complain about.
                Err(_) => (host, 0)
                    .to_socket_addrs()
                    .map(|found| found.map(|a| a.ip()).collect())
                    .unwrap_or_default(),
            },
        }
    }
}

/// A port that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    port: u16,
    by: Option<Listener>,
}

impl Taken {
    /// Whether it will not be free again by itself: somebody listens who is none of ours.
    pub fn stays(&self) -> bool {
        match self.by {
            Some(Listener::Process(pid)) => !trees::will_end(pid),
            Some(Listener::Hidden) => true,
            // A connection to somewhere uses it for a while.
            None => false,
        }
    }

    /// The failure of a server that cannot start for it.
    pub fn failure(&self) -> Failure {
        let holder = match self.by {
            Some(Listener::Process(pid)) => format!("process {pid} ({})", procfs::program_name(pid)),
            Some(Listener::Hidden) => "a process that cannot be seen from here".to_owned(),
            None => "a connection, and nobody listens there".to_owned(),
        };
        let port = self.port;
        Failure::new(Cause::PortTaken, format!("port {port} is held by {holder}"))
    }
}

/// Whether a command line is vLLM's server or a look-alike with the same flags.
fn speaks_vllm(argv: &[String]) -> bool {
    argv.iter()
        .any(|word| word == "serve" || word.starts_with("vllm.entrypoints"))
}

/// A port that a server of ours was told to listen on. It takes a while until it does; until it is gone no other is told the same.
#[derive(Debug)]
pub struct Promised(u16);

/// The ports that are promised.
static PROMISED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
/// How many were chosen.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

impl Promised {
    /// Chooses a port that is free on both loopback addresses and all interfaces at this moment. It is none that the kernel gives
    /// to connections, if there are others: those of a load beside the start of a server would take it.
    pub fn choose() -> std::io::Result<Promised> {
        let mut promised = PROMISED.lock().unwrap_or_else(PoisonError::into_inner);
        let own = TRIED_FROM..ephemeral().filter(|first| *first > TRIED_FROM).unwrap_or(u16::MAX);
        // Two vsweeps that ask at once rarely begin at the same port, and no server gets that of the one before it.
        let turn = (std::process::id() as usize).wrapping_mul(STRIDE);
        let turn = turn.wrapping_add(CHOSEN.fetch_add(1, Ordering::Relaxed)) % own.len();
        let mut ports = own.clone().cycle().skip(turn).take(own.len());
        let port = ports.find(|port| !promised.contains(port) && is_free(*port));
        let port = port.ok_or(std::io::ErrorKind::AddrInUse)?;
        promised.insert(port);
        Ok(Promised(port))
    }

    /// Its number.
    pub fn port(&self) -> u16 {
        self.0
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        PROMISED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Below it are ports that many programs listen on by default.
const TRIED_FROM: u16 = 20_000;
/// Between the first ports of processes with successive ids.
const STRIDE: usize = 97;

/// The first port that the kernel gives to connections.
fn ephemeral() -> Option<u16> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    range.split_whitespace().next()?.parse().ok()
}

fn is_free(port: u16) -> bool {
    !is_in_use(Ipv4Addr::UNSPECIFIED.into(), port) && !is_in_use(Ipv6Addr::LOCALHOST.into(), port)
}

fn is_in_use(ip: IpAddr, port: u16) -> bool {
    TcpListener::bind((ip, port)).is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn url(line: &str) -> String {
        Address::read(&words(line)).expect("a readable address").base_url()
    }

    #[test]
    fn every_spelling_is_read() {
        assert_eq!(url("vllm serve m"), "http://127.0.0.1:8000");
        assert_eq!(url("vllm serve m --host=h --port=81"), "http://h:81");
        assert_eq!(url("vllm serve m -p 9 --port 10"), "http://127.0.0.1:10");
        assert_eq!(url("vllm serve m --port 1 --port 2"), "http://127.0.0.1:2");
        assert_eq!(url("vllm serve m --host ::1"), "http://[::1]:8000");
        assert_eq!(url("vllm serve m --host 0.0.0.0 --port 5"), "http://127.0.0.1:5");
        assert_eq!(url("docker run -p 8000:8000 image --port 7"), "http://127.0.0.1:7");
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "s --port x",
            "s --port",
            "s --port 0",
            "s --port 70000",
            "s --uds /tmp/x",
        ] {
            assert_eq!(
                Address::read(&words(line)).expect_err("refused").cause,
                Cause::BadFlag,
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_missing_is_appended() {
        let mut argv = words("vllm serve m --host 127.0.0.1");
        let mut address = Address::read(&argv).expect("readable");
        let chosen = address.settle(&mut argv).expect("a free port");
        assert_eq!(address.port, chosen.as_ref().map(Promised::port));
        assert_eq!(argv.len(), 7);
        assert_eq!(Address::read(&argv), Ok(address.clone()));
        assert_eq!(address.taken(), None);

        let mut plain = words("vllm serve m --port 9");
        Address::read(&plain)
            .expect("readable")
            .settle(&mut plain)
            .expect("nothing to choose");
        assert_eq!(plain[5..], ["--host", "127.0.0.1"]);
        let mut script = words("./start.sh --port 9");
        Address::read(&script)
            .expect("readable")
            .settle(&mut script)
            .expect("nothing to choose");
        assert_eq!(script.len(), 3);
    }

    #[test]
    fn no_port_is_promised_twice() {
        let promised: Vec<Promised> = (0..20).map(|_| Promised::choose().expect("a free port")).collect();
        let ports: BTreeSet<u16> = promised.iter().map(Promised::port).collect();
        assert_eq!(ports.len(), promised.len());
    }

    #[test]
    fn a_taken_port_names_its_holder() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("bound").port();
        for host in ["127.0.0.1", "0.0.0.0"] {
            let address = Address {
                host: Some(host.into()),
                port: Some(port),
                is_placed: false,
            };
            let taken = address.taken().expect("taken");
            assert!(taken.stays(), "no vsweep started this process");
            let failure = taken.failure();
            assert_eq!(failure.cause, Cause::PortTaken);
            assert!(failure.detail.contains(&std::process::id().to_string()), "{failure}");
        }
    }
}
