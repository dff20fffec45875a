//! Statistics behind reasons not to believe a run: pure functions over summaries and series. Each says what was seen; which code it
//! becomes, and whether it applies to the load at hand, is decided where runs are judged.

mod answers;
mod extent;
mod steady;

pub use answers::{AnswerCheck, AnsweredStart, Answers, Distance, Long, Reply, Token, judge};
pub use extent::{Short, needed, percentile, short};
pub use steady::{LEAST_DRIFT, Step, Trend, changing, drift, mser5, trend, unsteady};
