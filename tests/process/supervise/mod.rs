//! Supervision of real processes: the guard with small shell scripts, the server with every fault of the simulator. Each test marks its
//! processes by an environment variable, and checks that none with this mark is left.

mod campaign;
mod external;
mod faults;
mod guard;
mod real;
mod tree;
