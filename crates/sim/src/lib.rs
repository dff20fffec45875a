//! A simulated vLLM server: its command line, its HTTP interface and a model of its engine, in real or in virtual time.
//!
//! It shares no wire types with the load generator: a shared mistake would be invisible.

pub mod sim;
