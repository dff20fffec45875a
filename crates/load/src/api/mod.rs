//! The APIs of a server: the body of each request, and the meaning of its reply.

pub(super) mod backend;
pub mod body;
pub(super) mod form;
pub(super) mod moderation;
pub(super) mod request;
pub(super) mod responses;
