//! The reference of parameters, `docs/parameters.md`: made from the tables, so that it cannot lie.

use super::{Param, Table};
use crate::dataset::KINDS;
use std::fmt::Write;

const ABOUT: &str = "# Parameters

A plan sets them in `[bench.params]`, a command line as flags (`--num-prompts`). Defaults are in brackets.
";

/// The whole text, for benchmarks under their titles.
pub fn markdown(benchmarks: &[(&str, &Table)]) -> String {
    let mut out = String::from(ABOUT);
    // Writing to a string cannot fail.
    for (title, table) in benchmarks {
        let _ = write!(out, "\n## {title}\n");
        let mut last = "";
        for group in table.groups {
            if group.title != last {
                let _ = write!(out, "\n### {}\n", group.title);
                head(&mut out);
            }
            last = group.title;
            rows(&mut out, group.params.iter());
        }
        for kind in KINDS.iter().filter(|_| table.has_datasets) {
            let _ = write!(
                out,
                "\n### `dataset_name = \"{}\"`\n\nPrompts: {}.\n",
                kind.name, kind.prompts
            );
            head(&mut out);
            rows(&mut out, kind.all_params());
        }
    }
    out
}

fn head(out: &mut String) {
    out.push_str("\n| parameter | takes | |\n| --- | --- | --- |\n");
}

fn rows<'a>(out: &mut String, params: impl Iterator<Item = &'a Param>) {
    for param in params {
        let [name, wants, help] = [param.name.to_owned(), param.wants(), param.help()];
        let _ = writeln!(out, "| `{name}` | {wants} | {} |", help.replace('|', "\\|"));
    }
}
