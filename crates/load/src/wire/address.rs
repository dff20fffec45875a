//! Address of the server under test: a parsed base URL, and explanations of connection errors.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// A base URL such as `http://127.0.0.1:8000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// True for HTTPS.
    pub is_https: bool,
    /// Host without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path before the endpoint: empty, or `/prefix`.
    pub path: String,
}

impl ServerAddress {
    /// Parses a base URL.
    pub fn parse(url: &str) -> Result<ServerAddress, String> {
        let wrong =
            |why: &str| format!("the server's address \"{url}\" {why}; write http://HOST:PORT or https://HOST:PORT");
        let (is_https, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(wrong("has an unknown scheme")),
            None => return Err(wrong("has no scheme")),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (
                host,
                port.parse()
                    .map_err(|_| wrong("has a port that is not a number up to 65535"))?,
            ),
            _ if is_https => (authority, 443),
            _ => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || url.contains(char::is_whitespace) {
            return Err(wrong("names no host"));
        }
        if !host.is_ascii() {
            return Err(format!(
                "the server's address \"{url}\" has a host name with letters beyond ASCII, which is not looked up; write its form in \
                 ASCII, which begins with xn--"
            ));
        }
        Ok(ServerAddress {
            is_https,
            host: host.to_owned(),
            port,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// Returns host and port as in the `Host` header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Resolves the name to addresses, in the system's order. Blocks while it asks the name service.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        addresses
            .map(Iterator::collect)
            .map_err(|error| format!("cannot find the host {}: {error}", self.host))
    }

    /// Returns a sentence about connections that could not be opened within `limit`: the attempt, the system's error, the remedy.
    pub fn unopened(&self, what: &str, error: &io::Error, limit: Duration) -> String {
        let text = match error.kind() {
            ErrorKind::TimedOut => format!("not open within {} s", limit.as_secs_f64()),
            _ => error.to_string(),
        };
        let remedy = match error.kind() {
            _ if is_about_a_certificate(error) => "trust the certificate's issuer on this machine, or set insecure",
            // To a server without TLS the handshake is a broken request: it answers with an error, or closes the connection.
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                if self.is_https =>
            {
                "the server may not speak TLS: write http:// in base_url"
            }
            ErrorKind::TimedOut => {
                "check whether the server is overloaded or a firewall drops packets; check host and port"
            }
            ErrorKind::ConnectionRefused => "start the server, or correct base_url, host or port",
            _ => "check base_url, host and port",
        };
        format!("cannot open {what} to {}: {text}; {remedy}", self.authority())
    }
}

fn is_about_a_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let target = ServerAddress::parse("http://[::1]:8000/api/").expect("valid");
        assert_eq!(
            (target.authority().as_str(), target.path.as_str()),
            ("[::1]:8000", "/api")
        );
        assert_eq!(ServerAddress::parse("http://node7").map(|target| target.port), Ok(80));
        assert_eq!(
            ServerAddress::parse("https://node7").map(|target| (target.port, target.is_https)),
            Ok((443, true))
        );
        for wrong in ["node7:8000", "ftp://x", "http://", "http://x:99999", "http://a b"] {
            assert!(ServerAddress::parse(wrong).is_err(), "{wrong}");
        }
        let beyond = ServerAddress::parse("http://b\u{fc}cher.example:8000").expect_err("not looked up");
        assert!(
            beyond.ends_with("write its form in ASCII, which begins with xn--"),
            "{beyond}"
        );
        let punycode = ServerAddress::parse("http://xn--bcher-kva.example:8000").expect("valid");
        assert_eq!(punycode.host, "xn--bcher-kva.example");
    }

    #[test]
    fn the_remedy_fits_the_error() {
        let target = |url: &str| ServerAddress::parse(url).expect("a URL");
        let issuer = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        for (url, error, wanted) in [
            (
                "http://h:1",
                ErrorKind::ConnectionRefused.into(),
                "start the server, or correct",
            ),
            (
                "http://h:1",
                ErrorKind::TimedOut.into(),
                "h:1: not open within 30 s; check",
            ),
            ("https://h:1", ErrorKind::BrokenPipe.into(), "write http:// in base_url"),
            (
                "http://h:1",
                ErrorKind::BrokenPipe.into(),
                "check base_url, host and port",
            ),
            (
                "https://h:1",
                io::Error::new(ErrorKind::InvalidData, issuer),
                "or set insecure",
            ),
        ] {
            let said = target(url).unopened("connections", &error, Duration::from_secs(30));
            assert!(said.contains(wanted), "{said}");
        }
    }
}
