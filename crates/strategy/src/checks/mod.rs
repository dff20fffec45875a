//! Statistics behind the doubts of a run: pure functions over summaries and series. The code that judges runs decides which doubt follows
//! from a result, and whether it applies to the load.

mod answers;
mod extent;
mod steady;

pub use answers::{AnswerCheck, AnsweredStart, Answers, Distance, Long, Reply, Token, judge};
pub use extent::{Shortfall, percentile, shortfall, values_needed};
pub use steady::{Step, changing, drift, unsteady};
