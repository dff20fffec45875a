//! A plan as text: TOML and JSON with places, and problems that show them.

pub(super) mod interpolate;
pub(crate) mod json_text;
pub(super) mod node;
pub(super) mod origin;
pub(super) mod problem;
pub(super) mod source;
pub(super) mod text;
pub(super) mod toml_text;
