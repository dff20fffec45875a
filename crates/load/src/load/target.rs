//! Where the server under test is: a base URL taken apart.

use std::net::{SocketAddr, ToSocketAddrs};

/// A base URL such as `http://127.0.0.1:8000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether it speaks TLS.
    pub is_https: bool,
    /// Host without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path before the endpoint: empty, or `/prefix`.
    pub path: String,
}

impl Target {
    /// Takes a base URL apart.
    pub fn parse(url: &str) -> Result<Target, String> {
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
        Ok(Target {
            is_https,
            host: host.to_owned(),
            port,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// The `Host` header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The addresses its name stands for, in the system's order. Asks the name service, so it may block.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        addresses
            .map(Iterator::collect)
            .map_err(|error| format!("cannot find the host {}: {error}", self.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let target = Target::parse("http://[::1]:8000/api/").expect("valid");
        assert_eq!(
            (target.authority().as_str(), target.path.as_str()),
            ("[::1]:8000", "/api")
        );
        assert_eq!(Target::parse("http://node7").map(|target| target.port), Ok(80));
        assert_eq!(
            Target::parse("https://node7").map(|target| (target.port, target.is_https)),
            Ok((443, true))
        );
        for wrong in ["node7:8000", "ftp://x", "http://", "http://x:99999", "http://a b"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
