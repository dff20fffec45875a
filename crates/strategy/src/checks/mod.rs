//! Statistics behind reasons not to believe a run: pure functions over summaries and series. Each says what was seen; which code it
//! becomes, and whether it applies to the load at hand, is decided where runs are judged.

mod answers;
mod steady;

pub use answers::{AnswerCheck, Answers, Asked, Distance, Long, Reply, Token, judge};
pub use steady::{Trend, Unsteady, mser5, trend, unsteady};
