//! Determines the address at which a server listens: reads it from its command line in every spelling, chooses it if the command line does
//! not, and checks before the launch that it is free.
//!
//! A vLLM command without `--host` would listen on every interface of the machine. vsweep adds `--host 127.0.0.1`, so that a benchmark's
//! server is not offered to the network unless the plan says so. Only a command with [`PORT`] gets no host, because its server may run in a
//! container and must then be reached from outside.

use super::process::procfs::{self, Listener};
use crate::cause::{Cause, Failure};
use crate::plan::ServeCommand;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

/// Host and port of a server as its command line gives them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Address {
    /// The given host; `None` is the server's default.
    pub host: Option<String>,
    /// The given port; `None` is the server's default.
    pub port: Option<u16>,
    /// True if the command line contains [`PORT`], so a port is chosen for it.
    has_placeholder: bool,
}

/// Placeholder in a command line for the chosen port.
pub const PORT: &str = "{port}";

/// Returns the words of a command line with port 8000 in place of [`PORT`], to read them before a port is chosen.
pub fn placed(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.replace(PORT, "8000")).collect()
}

impl Address {
    /// Reads host and port from a command line. Refuses an invalid port and a Unix socket.
    pub fn read(argv: &[String]) -> Result<Address, Failure> {
        let bad = |detail: &str| Err(Failure::new(Cause::BadFlag, detail));
        let command = ServeCommand::of(argv);
        if command.has("uds") {
            return bad("--uds listens on a Unix socket; vsweep measures over TCP, so remove it");
        }
        let has_placeholder = argv.iter().any(|word| word.contains(PORT));
        let port = match command.value("port") {
            _ if has_placeholder => None,
            Some(value) => match value.parse().ok().filter(|&port| port != 0) {
                Some(port) => Some(port),
                None => return bad(&format!("--port {value} is not a port (1 to 65535)")),
            },
            None if command.has("port") => return bad("--port has no value"),
            None => None,
        };
        let host = command.value("host").map(str::to_owned);
        Ok(Address {
            host,
            port,
            has_placeholder,
        })
    }

    /// Returns the host to connect to. A server on all interfaces is reached through the loopback one.
    pub fn reachable_host(&self) -> &str {
        match self.host.as_deref() {
            None | Some("" | "0.0.0.0") => "127.0.0.1",
            Some("::") => "::1",
            Some(host) => host,
        }
    }

    /// Returns `http://host:port`, with vLLM's default port 8000, and with IPv6 addresses in brackets.
    pub fn base_url(&self) -> String {
        let (host, port) = (self.reachable_host(), self.port.unwrap_or(8000));
        match host.contains(':') && !host.starts_with('[') {
            true => format!("http://[{host}]:{port}"),
            false => format!("http://{host}:{port}"),
        }
    }

    /// Chooses host and port if the command line leaves them open, and adds them to it. The port is a free one.
    pub fn settle(&mut self, argv: &mut Vec<String>) -> Result<(), Failure> {
        let refused = |error| Failure::new(Cause::PortTaken, format!("cannot get a free port: {error}"));
        let port = self.port.map_or_else(free_port, Ok).map_err(refused)?;
        self.settle_on(port, argv);
        Ok(())
    }

    /// Chooses host and port if the command line leaves them open, and adds them to it. The port is the given one.
    pub fn settle_on(&mut self, port: u16, argv: &mut Vec<String>) {
        if self.has_placeholder {
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

    /// If the port of the server is in use, returns the failure, which names the process that holds it, and true if the port will not
    /// become free by itself.
    pub fn taken(&self) -> Option<(Failure, bool)> {
        let port = self.port?;
        let ips = self.listening_ips();
        if !ips.iter().any(|ip| is_in_use(*ip, port)) {
            return None;
        }
        let (holder, stays) = match procfs::listener(&ips, port) {
            Some(Listener::Process(pid)) => {
                let holder = format!("process {pid} ({})", procfs::program_name(pid));
                (holder, !procfs::will_end(pid))
            }
            Some(Listener::Hidden(_)) => ("a process that cannot be seen from here".to_owned(), true),
            // The connection uses the port only for a while.
            None => ("an open connection, without a listener".to_owned(), false),
        };
        let failure = Failure::new(Cause::PortTaken, format!("port {port} is held by {holder}"));
        Some((failure, stays))
    }

    fn listening_ips(&self) -> Vec<IpAddr> {
        match self.host.as_deref() {
            None | Some("") => vec![Ipv4Addr::UNSPECIFIED.into()],
            Some(host) => match host.trim_matches(['[', ']']).parse() {
                Ok(ip) => vec![ip],
                // Resolves a name; a name that does not resolve is reported by the server.
                Err(_) => (host, 0)
                    .to_socket_addrs()
                    .map(|found| found.map(|a| a.ip()).collect())
                    .unwrap_or_default(),
            },
        }
    }
}

/// Returns true if a command line starts vLLM's server or one with the same flags.
fn speaks_vllm(argv: &[String]) -> bool {
    argv.iter()
        .any(|word| word == "serve" || word.starts_with("vllm.entrypoints"))
}

/// First port that is tried. Many programs listen on lower ports by default.
const TRIED_FROM: u16 = 20_000;
/// Distance between the first ports that processes with successive ids try.
const STRIDE: usize = 97;
/// Number of ports that this process has tried. The number only grows, so no two servers get the same port, even before the first one
/// listens.
static TRIED: Mutex<usize> = Mutex::new(0);

/// Returns a port that is free at this moment on all IPv4 interfaces and on the IPv6 loopback interface. Ports that the kernel gives to
/// connections are avoided if possible: connections of a load during the server's start could take them.
fn free_port() -> std::io::Result<u16> {
    let candidates = TRIED_FROM..ephemeral().filter(|first| *first > TRIED_FROM).unwrap_or(u16::MAX);
    // Two vsweep processes rarely begin at the same port. Those in two containers may have the same id, and share the network.
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    let first = (namespace as usize)
        .wrapping_add(std::process::id() as usize)
        .wrapping_mul(STRIDE);
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in candidates.clone() {
        let offset = first.wrapping_add(*tried) % candidates.len();
        *tried += 1;
        let port = candidates.start + offset as u16;
        if is_free(port) {
            return Ok(port);
        }
    }
    Err(std::io::ErrorKind::AddrInUse.into())
}

/// Returns the first port that the kernel gives to connections.
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
    use std::collections::BTreeSet;

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
        address.settle(&mut argv).expect("a free port");
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
    fn no_port_is_given_twice() {
        let ports: BTreeSet<u16> = (0..20).map(|_| free_port().expect("a free port")).collect();
        assert_eq!(ports.len(), 20);
    }

    #[test]
    fn a_taken_port_names_its_holder() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("bound").port();
        for host in ["127.0.0.1", "0.0.0.0"] {
            let address = Address {
                host: Some(host.into()),
                port: Some(port),
                has_placeholder: false,
            };
            let (failure, stays) = address.taken().expect("taken");
            assert!(stays, "no vsweep started this process");
            assert_eq!(failure.cause, Cause::PortTaken);
            assert!(failure.detail.contains(&std::process::id().to_string()), "{failure}");
        }
    }
}
