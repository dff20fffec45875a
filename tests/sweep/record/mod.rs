//! The record of a sweep on disk: sessions, kills, damage, and sweeps that continue from it.

mod directory;
mod disk;
mod foreign;
mod moved;
mod planted;
mod resume;
mod sessions;
mod steps;
