//! The reference of parameters, `docs/parameters.md`: made from the tables, so that it cannot lie.

use super::{Param, Table};
use crate::dataset::KINDS;
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

/// A row for each parameter; those that have the same row further up are only named.
fn rows<'a>(out: &mut String, known: &mut BTreeSet<String>, params: impl Iterator<Item = &'a Param>) {
    let (mut head, mut again) = ("\n| parameter | meaning |\n| --- | --- |\n", Vec::new());
    for param in params {
        let [takes, help] = [short(&param.wants()), param.help().replace('|', "\\|")];
        let row = format!("| `{}`: {takes} | {help} |", param.name);
        if known.contains(&row) {
            again.push(format!("`{}`", param.name));
            continue;
        }
        let _ = writeln!(out, "{head}{row}");
        head = "";
        known.insert(row);
    }
    if !again.is_empty() {
        let _ = write!(out, "\nAs above: {}.\n", again.join(", "));
    }
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
