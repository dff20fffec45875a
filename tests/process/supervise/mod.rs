//! Supervision against real processes: the guard with small shell scripts, the server with every fault of the simulator.
//! Each test marks its processes by an environment variable of its own and checks that none with that mark is left.

mod campaign;
mod external;
mod faults;
mod guard;
mod real;
mod tree;
