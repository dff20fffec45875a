//! The load generator: takes requests that are ready to send and their due times, and returns the timeline of each.
//!
//! The generator runs on a thread of its own with one event loop and no runtime. The time of sending is read right before the system call
//! that sends. The time of arrival comes from the kernel, or is read right after the system call that receives, before any byte is parsed.
//! Prompts are drawn in `dataset`, metrics are computed from timelines in the `metrics` crate, and `params` declares the parameters of a
//! benchmark. No code is shared with the simulated server, because a shared mistake would be invisible.

/// The APIs of a server: the body of each request, and the meaning of its reply.
pub mod api {
    pub(super) mod backend;
    pub mod body;
    pub(super) mod form;
    pub(super) mod moderation;
    pub(super) mod request;
    pub(super) mod responses;
}
pub mod arrival;
mod clock;
pub mod dataset;
mod drive;
mod generator;
mod limit;
pub mod params;
mod stock;
mod supply;
mod turns;
/// HTTP on the wire: addresses, connections, TLS, responses and their events.
pub mod wire {
    pub(super) mod address;
    pub mod chunk;
    pub(super) mod connection;
    pub(super) mod exchange;
    pub mod http;
    pub mod sse;
    pub(super) mod stamps;
    pub(super) mod transport;
}

pub use api::backend::{Backend, Reply};
pub use api::body::{BodyOptions, Content};
pub use api::request::{Request, RequestOptions};
pub use drive::{Load, LoadOutcome, SendWindow};
pub use generator::{Generator, Stop, UNCONNECTED};
pub use limit::{FILES_BESIDE_CONNECTIONS, allow_connections};
pub use stock::{Requests, TokenCounts};
pub use supply::{Feed, Supply, supply};
pub use turns::{Turn, Turns};
pub use wire::address::ServerAddress;
pub use wire::transport::Tls;
