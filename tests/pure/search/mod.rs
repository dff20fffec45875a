//! The load search: earlier algorithms, with which it is compared, probe as their authors' code did, and its own laws hold.

mod evidence;
#[path = "../../../benches/search/history.rs"]
mod history;
mod laws;
#[path = "../../../benches/search/pchip.rs"]
mod pchip;
mod rising;
mod vectors;
