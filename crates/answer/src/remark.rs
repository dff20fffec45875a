//! Remarks that a reader of the figures needs, in the form that every document uses.

use serde::{Deserialize, Serialize};

/// One remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Its subject in a word or two.
    pub about: String,
    /// A sentence without its full stop.
    pub text: String,
}
