//! Coverage-guided fuzzing of everything that vsweep reads: libFuzzer mutates inputs, and a target checks what must hold for each.
//! `VSWEEP_FUZZ` names the target. A new target is a file and a line in `TARGETS`; `.ci/night fuzz` runs them all. Built without the
//! feature `libfuzzer`, the program checks the files on its command line, such as an input that failed.

#![cfg_attr(feature = "libfuzzer", no_main)]

mod dataset;
mod experiment;
mod files;
mod foreign;
mod http;
mod journal;
mod plan;
mod prometheus;
mod run_file;
mod sse;
mod tokenizer;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 9] = [
    ("sse", sse::check),
    ("http", http::check),
    ("prometheus", prometheus::check),
    ("plan", plan::check),
    ("journal", journal::check),
    ("run_file", run_file::check),
    ("foreign", foreign::check),
    ("tokenizer", tokenizer::check),
    ("dataset", dataset::check),
];

fn target() -> Target {
    let wanted = std::env::var("VSWEEP_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    let names = TARGETS.map(|(name, _)| name).join(", ");
    found
        .unwrap_or_else(|| panic!("no target is called '{wanted}'; set VSWEEP_FUZZ to one of {names}"))
        .1
}

#[cfg(not(feature = "libfuzzer"))]
fn main() {
    let check = target();
    for path in std::env::args_os().skip(1) {
        check(&std::fs::read(path).expect("an input that can be read"));
    }
}

#[cfg(feature = "libfuzzer")]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static TARGET: std::sync::OnceLock<Target> = std::sync::OnceLock::new();
    // libFuzzer's hook aborts at panics, also at those of a library that vsweep catches. Of the others the abort comes later.
    let begin = || {
        drop(std::panic::take_hook());
        target()
    };
    TARGET.get_or_init(begin)(data);
});

/// The bytes as they might arrive: the first byte says how many reads there are, and each of the next where one ends.
fn reads(data: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let (count, data) = data.split_first()?;
    let (cuts, whole) = data.split_at_checked(usize::from(count % 8))?;
    let mut rest = whole;
    let mut reads = Vec::new();
    for cut in cuts {
        let (read, left) = rest.split_at(usize::from(*cut).min(rest.len()));
        reads.push(read);
        rest = left;
    }
    reads.push(rest);
    Some((reads, whole))
}
