//! Statistics behind reasons not to believe a run: pure functions over summaries and series. Each says what was seen; which code it
//! becomes, and whether it applies to the load at hand, is decided where runs are judged.

mod answers;
mod drift;
mod extent;
mod steady;

pub use answers::{AnswerCheck, AnsweredStart, Answers, Distance, Long, Reply, Token, judge};
pub use drift::{LEAST_DRIFT, Step, drift};
pub use extent::{Short, needed, percentile, short};
pub use steady::{Trend, changing, mser5, trend, unsteady};
