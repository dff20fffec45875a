//! Whole sweeps by the real binary on simulated servers: what they leave, how they fail, go on and are foretold.

#[path = "../support/agreement.rs"]
mod agreement;
mod alone;
mod answers;
mod attached;
mod beside;
mod ci_guard;
mod clients;
mod comparison;
#[path = "../support/deadline.rs"]
mod deadline;
mod directory;
mod disk;
mod elsewhere;
mod explore;
mod foreign;
#[path = "../support/harness.rs"]
mod harness;
mod init;
mod iterations;
mod k8s;
mod known_noise;
mod live;
mod mix;
mod moved;
mod nodes;
mod offline;
mod on_finish;
mod optimize;
mod packing;
mod phases;
mod planted;
mod rehearse;
mod requirements;
mod resume;
mod run;
#[path = "../support/scripted.rs"]
mod scripted;
mod sessions;
mod sla;
mod slurm;
mod standing;
mod starts;
mod steps;
mod telemetry;
mod unknown;
mod validity;
mod workers;
