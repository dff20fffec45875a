//! An event stream gives the same events however it is cut into reads, and a scanner that has learned the shape of its events
//! reads each as a fresh one does.

use crate::reads;
use vsweep::load::wire::chunk::Scanner;
use vsweep::load::wire::sse::Parser;

pub fn check(data: &[u8]) {
    let Some((reads, whole)) = reads(data) else { return };
    let found = events(&reads);
    assert_eq!(found, events(&[whole]), "another cut gives other events");
    let mut scanner = Scanner::default();
    for event in found.iter().flatten() {
        assert_eq!(
            scanner.scan(event),
            Scanner::default().scan(event),
            "what was learned changes what is read"
        );
    }
}

/// The events; `None` if one is too long.
fn events(reads: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let (mut parser, mut found) = (Parser::default(), Vec::new());
    let mut emit = |event: &[u8], _| found.push(event.to_vec());
    for read in reads {
        parser.feed(read, 0, &mut emit).ok()?;
    }
    parser.finish(&mut emit).ok()?;
    Some(found)
}
