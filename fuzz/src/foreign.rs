//! A result of another client gives figures or is refused.

use vsweep::bench::read_results;
use vsweep::table::{RunFigures, read_scalars};

pub fn check(data: &[u8]) {
    if let Ok(found) = read_results(data) {
        assert!(found.iter().all(|result| !result.is_empty()));
    }
    let _ = read_scalars(data, &RunFigures::default());
}
