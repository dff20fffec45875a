//! Texts for terminals and pull requests, and the words in them.

pub mod align;
mod brief;
pub mod changes;
pub mod criteria;
pub mod ending;
pub mod markdown;
pub mod status;
pub(super) mod template;
pub mod terminal;
pub(super) mod text;
pub mod words;
