//! Where rows of a dataset come from: files, and the Hugging Face Hub.

pub(super) mod hub;
pub(super) mod parquet;
pub(super) mod rows;
pub(super) mod split;
