//! Why a connection could not be opened, in words: what was tried, what the system said, what to do.

use super::target::Target;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// A sentence about connections to `target` that could not be opened within `limit`.
pub fn unopened(what: &str, target: &Target, error: &io::Error, limit: Duration) -> String {
    let text = match error.kind() {
        ErrorKind::TimedOut => format!("not open within {} s", limit.as_secs_f64()),
        _ => error.to_string(),
    };
    let remedy = match error.kind() {
        _ if is_about_a_certificate(error) => "trust the certificate's issuer on this machine, or set insecure",
        // A server without TLS takes the handshake for a broken request, and answers so or hangs up.
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            if target.is_https =>
        {
            "the server may not speak TLS: write http:// in base_url"
        }
        ErrorKind::TimedOut => "look whether the server is overloaded or a firewall drops packets; check host and port",
        ErrorKind::ConnectionRefused => "start the server, or correct base_url, host or port",
        _ => "check base_url, host and port",
    };
    format!("cannot open {what} to {}: {text}; {remedy}", target.authority())
}

fn is_about_a_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_fits_the_error() {
        let target = |url: &str| Target::parse(url).expect("a URL");
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
                "h:1: not open within 30 s; look",
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
            let said = unopened("connections", &target(url), &error, Duration::from_secs(30));
            assert!(said.contains(wanted), "{said}");
        }
    }
}
