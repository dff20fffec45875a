//! What every server of a rehearsal is played with.

use super::learn::Lessons;
use super::{Budget, Options};
use crate::agenda::Schedule;
use crate::matrix::Matrix;
use crate::plan::Plan;

/// What every server is played with.
pub struct Company<'a> {
    pub plan: &'a Plan,
    pub matrix: &'a Matrix,
    pub schedule: Schedule<'a>,
    pub options: &'a Options,
    pub lessons: &'a Lessons,
    pub budget: &'a Budget,
}
