//! Reports of experiments with known figures: tables, chart data, pictures, pages in a browser, and files for other programs.

#[path = "../support/agreement.rs"]
mod agreement;
mod compare;
mod dashboard;
#[path = "../support/deadline.rs"]
mod deadline;
#[path = "../support/experiment.rs"]
mod experiment;
mod export;
#[path = "../support/harness.rs"]
mod harness;
mod kinds;
mod page;
mod pictures;
mod plot;
mod reports;
mod tree;
