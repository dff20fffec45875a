//! How much room a sweep's files take: figures from real directories, rounded up. Bytes.

use super::server::ProgramKind;

/// What every directory holds: report, charts, manifest, plan.
pub const BASE: u64 = 2_000_000;
/// A run's result without its lists, its journal lines and its rows in the tables.
const RUN: u64 = 12_000;
/// A request's part of a result, and of one that keeps every request's figures.
const REQUEST: u64 = 45;
const DETAILED_REQUEST: u64 = 6_000;

/// What one run leaves.
pub fn of_run(requests: u64, is_detailed: bool) -> u64 {
    RUN + requests * if is_detailed { DETAILED_REQUEST } else { REQUEST }
}

/// What one start of a server leaves: its log.
pub fn of_start(kind: ProgramKind) -> u64 {
    match kind {
        ProgramKind::Simulator => 50_000,
        ProgramKind::Vllm => 200_000,
    }
}
