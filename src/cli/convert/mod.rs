//! Plans from elsewhere, and results for elsewhere.

pub mod export;
pub mod import;
pub mod schema;
