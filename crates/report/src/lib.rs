//! The presentation of an experiment: tables and charts made from the journal, a summary in the terminal, the state of a sweep, and its
//! progress while it runs.
//!
//! Everything here is a fold over what is recorded: no runtime, no network, no process. Charts are data ([`chart`]), made
//! one file a kind ([`charts`]) and drawn in one place ([`picture`]); nothing is measured or decided here.

pub mod align;
mod answer;
mod attainment;
mod basis;
mod bound;
pub mod chart;
pub mod charts;
pub mod columns;
pub mod compare;
mod compared;
mod configs;
mod distributions;
mod document;
mod duplicates;
mod ending;
mod environment;
pub mod failures;
mod files;
pub mod goals;
pub mod history;
pub mod html;
mod inputs;
mod known_noise;
mod live;
pub mod markdown;
mod names;
mod nodes;
mod optimized;
mod ordered;
mod pages;
pub mod phases;
pub mod picture;
pub mod progress;
mod ranking;
mod remarks;
pub mod requirements;
mod rows;
mod sentences;
mod sla;
mod source;
mod starts;
pub mod status;
mod telemetry;
mod template;
pub mod terminal;
mod text;
mod timeline;
mod unsteady;
pub mod variation;
pub mod verify;
mod vllm_tree;
pub mod words;
mod worries;
mod write;
mod yaml;

pub use answer::{answer_by_table, estimate_by_table};
pub use basis::is_current;
pub use inputs::Inputs;
pub use known_noise::known_noise;
pub use live::LiveStatus;
pub use pages::{Pages, make_pages};
pub use rows::{Runs, read_runs};
pub use sentences::Best;
pub use source::{read_any, read_records};
pub use timeline::{RequestSamples, write_timeline};
pub use vllm_tree::{Exported, write_vllm_tree};
pub use write::{LiveTables, Written, judge, write_all};
