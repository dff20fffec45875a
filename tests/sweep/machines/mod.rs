//! Where servers run: packed on GPUs, by workers, on nodes and clusters, or started by others.

mod alone;
mod attached;
mod beside;
mod elsewhere;
mod k8s;
mod nodes;
mod packing;
mod slurm;
mod workers;
