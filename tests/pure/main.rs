//! What needs no server: plans and their expansion, the laws of the search, the engine model beside published figures, faulty
//! files, and the house rules.

mod calibration;
mod circles;
#[path = "../support/deadline.rs"]
mod deadline;
mod doubts;
mod layers;
mod mangled_files;
mod matrix;
mod plans;
mod search;
mod servers;
