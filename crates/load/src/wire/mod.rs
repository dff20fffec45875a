//! HTTP on the wire: addresses, connections, TLS, responses and their events.

pub(super) mod address;
pub mod chunk;
pub(super) mod connection;
pub(super) mod exchange;
pub mod http;
pub mod sse;
pub(super) mod stamps;
pub(super) mod transport;
