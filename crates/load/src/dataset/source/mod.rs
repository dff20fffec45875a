//! Rows of a dataset: from files and from the Hugging Face Hub.

pub(super) mod hub;
pub(super) mod rows;
pub(super) mod split;
