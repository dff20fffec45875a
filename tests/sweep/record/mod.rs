//! What a sweep leaves on disk: sessions, kills, damage, and what goes on from it.

mod directory;
mod disk;
mod foreign;
mod moved;
mod planted;
mod resume;
mod sessions;
mod steps;
