//! The presentation of an experiment: tables and charts made from the journal, a summary in the terminal, the state of a sweep, and its
//! progress while it runs.
//!
//! Everything here is computed from the record, without a runtime, network or processes. Charts are data ([`chart`]), made by one file for
//! each kind ([`charts`]) and drawn in one place ([`picture`]); nothing is measured or decided here.

pub mod chart;
pub mod charts;
pub mod columns;
pub mod compare;
mod distributions;
mod document;
mod environment;
pub mod findings;
pub mod history;
pub mod html;
mod inputs;
mod known_noise;
mod live;
mod names;
mod ordered;
pub mod output;
pub mod phases;
pub mod picture;
pub mod progress;
mod rows;
mod sentences;
mod source;
mod telemetry;
pub mod texts;
mod timeline;

pub use findings::answer::{answer_by_table, estimate_by_table};
pub use findings::compared::so_far as comparison_so_far;
pub use inputs::{Inputs, plan_text};
pub use known_noise::known_noise;
pub use live::LiveStatus;
pub use output::basis::is_current;
pub use output::pages::{Pages, make_pages};
pub use output::starts::SweepUsage;
pub use output::vllm_tree::{ExportSummary, write_vllm_tree};
pub use output::write::{LiveTables, ReportOutput, judge, rewrite_all, write_all};
pub use rows::{Runs, read_runs};
pub use sentences::Best;
pub use source::{read_any, read_records};
pub use texts::words::name as metric_in_words;
pub use timeline::{RequestSamples, write_timeline};
