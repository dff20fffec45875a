//! The reference of parameters, `docs/parameters.md`: made from the tables, so that it cannot lie.

use super::{Param, Table};
use crate::dataset::KINDS;
use crate::plan::reference::write_rows;
use itertools::Itertools;
use std::collections::BTreeSet;
use std::fmt::Write;

const ABOUT: &str = "# Parameters of a benchmark

A plan sets them in `[bench.params]`, a command line as flags (`--num-prompts`). Defaults are in brackets.
";

/// The whole text, for benchmarks under their titles.
pub fn markdown(benchmarks: &[(&str, &Table)]) -> String {
    let mut out = String::from(ABOUT);
    let mut known = BTreeSet::new();
    // Writing to a string cannot fail.
    for (title, table) in benchmarks {
        let _ = write!(out, "\n## {title}\n");
        for (title, groups) in &table.groups.iter().chunk_by(|group| group.title) {
            let _ = write!(out, "\n### {title}\n");
            rows(&mut out, &mut known, groups.flat_map(|group| group.params.iter()));
        }
        for kind in KINDS.iter().filter(|_| table.has_datasets) {
            let _ = write!(
                out,
                "\n### `dataset_name = \"{}\"`\n\nPrompts: {}.\n",
                kind.name, kind.prompts
            );
            rows(&mut out, &mut known, kind.all_params());
        }
    }
    out
}

/// A row for each parameter.
fn rows<'a>(out: &mut String, known: &mut BTreeSet<String>, params: impl Iterator<Item = &'a Param>) {
    let rows = params.map(|param| {
        let [takes, help] = [short(&param.wants()), param.help().replace('|', "\\|")];
        (&param.name, format!("| `{}`: {takes} | {help} |", param.name))
    });
    write_rows("| parameter | meaning |", rows, known, out);
}

/// Shortens the description of a value for a table: `a whole number of at least 1` becomes `integer ≥ 1`.
fn short(wants: &str) -> String {
    let words = [
        ("a whole number", "integer"),
        ("a number of milliseconds", "milliseconds"),
        ("a number of seconds", "seconds"),
        (" of at least ", " ≥ "),
        (" at least ", " ≥ "),
        (" above ", " > "),
        (" below ", " < "),
        (" at most ", " ≤ "),
        ("nothing", "switch"),
    ];
    let short = words
        .iter()
        .fold(wants.to_owned(), |text, (from, to)| text.replace(from, to));
    short.strip_prefix("a ").map(str::to_owned).unwrap_or(short)
}
