//! Statistics of measurements: intervals over server starts, ratios of two sides, and the verdicts based on them.
//!
//! The unit is the start of a server. Runs on one start have that start's deviation in common, so more runs reduce only the noise between
//! runs. All values are logarithms of a metric; a ratio is a difference of logarithms. `docs/verdicts.md` explains the method.

mod cholesky;
mod class;
mod distribution;
mod effort;
mod estimate;
mod random;
mod ratio;
mod starts;

pub use cholesky::{Cholesky, dot};
pub use class::{ClassTag, figure_of, is_class_name, split_class};
pub(crate) use distribution::level_of_look;
pub use distribution::{holm, normal_quantile, student_quantile, student_two_sided};
pub(crate) use effort::{IntervalRule, more_units};
pub use effort::{Repeats, more_starts};
pub use estimate::{Error, Estimate, Interval};
pub use random::{Normals, Random};
pub use ratio::{ALPHA, Better, Bound, Margin, Margins, RequirementVerdict, Verdict};
pub use starts::{Noise, RunPrior, Start, estimate};
