//! Sends bytes to the server and receives them, over plain TCP or TLS. No call blocks.
//!
//! Under TLS the kernel's times of arrival are not used, because decrypted data need not have arrived at one time.

use super::stamps::{Stamp, ask_for_stamps, receive};
use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// TLS settings for one server.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Settings for the server of this name. Its certificate is checked against those that the system trusts, unless `insecure` is true.
    pub fn new(host: &str, insecure: bool) -> Result<Tls, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("\"{host}\" is not a valid name in a certificate; correct the server's address"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("cannot speak TLS: {error}"))?;
        let config = if insecure {
            let verifier = Arc::new(TrustsAnyone(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier)
        } else {
            let error =
                |error| format!("cannot load the system's certificates: {error}; install them, or set insecure");
            builder.with_platform_verifier().map_err(error)?
        };
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls {
            config: Arc::new(config),
            name,
        })
    }
}

/// The byte stream of one connection.
pub(crate) struct Transport {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

/// Result of a read.
pub(crate) enum ReadOutcome {
    Bytes {
        count: usize,
        /// Arrival of the last of the bytes, if the kernel stamped it.
        stamp: Option<Stamp>,
        /// True if no more data is available for now. If false, there may be more, about which the event loop is not notified again.
        is_last: bool,
    },
    Nothing,
    End,
}

impl Transport {
    /// Takes over a connection that is being opened. The event loop gets its events under `token`.
    pub fn new(mut tcp: TcpStream, tls: Option<&Tls>, registry: &Registry, token: Token) -> io::Result<Transport> {
        let tls = tls.map(|tls| ClientConnection::new(tls.config.clone(), tls.name.clone()));
        let tls = tls.transpose().map_err(io::Error::other)?.map(Box::new);
        if tls.is_none() {
            ask_for_stamps(&tcp);
        }
        tcp.register(registry, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Transport { tcp, tls })
    }

    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.tcp.deregister(registry)
    }

    /// Continues connecting and the TLS handshake. Returns true once both are done.
    pub fn confirm(&mut self) -> io::Result<bool> {
        if let Some(error) = self.tcp.take_error()? {
            return Err(error);
        }
        match self.tcp.peer_addr() {
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
            other => other?,
        };
        self.tcp.set_nodelay(true)?;
        self.shake_hands()
    }

    fn shake_hands(&mut self) -> io::Result<bool> {
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.is_handshaking()) {
            match tls.complete_io(&mut self.tcp) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                other => other?,
            };
        }
        Ok(true)
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        let Some(tls) = &mut self.tls else {
            return Ok(match retry(|| receive(&self.tcp, buffer))? {
                None => ReadOutcome::Nothing,
                Some((0, _)) => ReadOutcome::End,
                Some((count, stamp)) => ReadOutcome::Bytes {
                    count,
                    stamp,
                    // A short read has emptied the socket; more bytes, or the end, wake the loop again.
                    is_last: count < buffer.len(),
                },
            });
        };
        loop {
            match tls.reader().read(buffer) {
                // Both ways to close a connection count as its end. Whether the response is complete follows from HTTP.
                Ok(0) => return Ok(ReadOutcome::End),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(ReadOutcome::End),
                Ok(count) => {
                    return Ok(ReadOutcome::Bytes {
                        count,
                        stamp: None,
                        is_last: false,
                    });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if retry(|| tls.read_tls(&mut self.tcp))?.is_none() {
                return Ok(ReadOutcome::Nothing);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Writes some of the bytes. Returns their number, or `None` if none can be written for now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if !self.flush()? {
            return Ok(None);
        }
        match &mut self.tls {
            None => retry(|| self.tcp.write(bytes)),
            Some(tls) => tls.writer().write(bytes).map(Some),
        }
    }

    /// Hands encrypted data to the system. Returns true once all that was written has been handed over.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            if retry(|| tls.write_tls(&mut self.tcp))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Repeats a call that was interrupted. Returns `None` if it would have blocked.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<Option<T>> {
    loop {
        return match call() {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}

/// Accepts every certificate; signatures are still checked.
#[derive(Debug)]
struct TrustsAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustsAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
