//! A response has the same status, body and end however it is cut into reads.

use crate::reads;
use vsweep::load::wire::http::Response;

pub fn check(data: &[u8]) {
    let Some((reads, whole)) = reads(data) else { return };
    assert_eq!(
        response(&reads),
        response(&[whole]),
        "another cut gives another response"
    );
}

/// Status, body and whether it is complete; `None` if it is refused.
fn response(reads: &[&[u8]]) -> Option<(u16, Vec<u8>, bool)> {
    let (mut response, mut body) = (Response::default(), Vec::new());
    for read in reads {
        response
            .feed(read, &mut |_, piece| body.extend_from_slice(piece))
            .ok()?;
    }
    let is_done = response.is_done() || response.close();
    Some((response.status.as_u16(), body, is_done))
}
