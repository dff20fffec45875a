//! The files of a crate, a bench or a test binary never depend on each other in a circle. A file may use everything in the `mod.rs` above
//! it. If that `mod.rs` uses a file below, this counts as a dependency of the `mod.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path inside its crate.
type Module = Vec<String>;

/// The parts of a path in code.
type Steps = Vec<String>;

#[test]
fn no_files_need_each_other() {
    let mut circles = Vec::new();
    for folder in roots() {
        let needs = needs(&modules(&folder));
        for start in needs.keys() {
            for next in &needs[start] {
                if let Some(back) = way(&needs, next, start) {
                    let way: Vec<String> = [start.clone()]
                        .into_iter()
                        .chain(back)
                        .map(|module| module.join("::"))
                        .collect();
                    circles.push(format!("{}: {}", folder.display(), way.join(" needs ")));
                }
            }
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// Folders of crates, and folders of benches and tests with a `main.rs`.
fn roots() -> Vec<PathBuf> {
    let with_a_main = ["benches", "tests"].into_iter().flat_map(|folder| {
        let entries = fs::read_dir(folder).expect("readable");
        let folders = entries.map(|entry| entry.expect("readable").path());
        folders.filter(|folder| folder.join("main.rs").exists())
    });
    super::layers::source_folders().into_iter().chain(with_a_main).collect()
}

/// Dependencies between the files of a crate, which are given as module and text.
fn needs_of(files: &[(&str, &str)]) -> BTreeMap<Module, BTreeSet<Module>> {
    needs(
        &files
            .iter()
            .map(|(name, text)| (module(name), (*text).to_owned()))
            .collect(),
    )
}

fn module(name: &str) -> Module {
    name.split("::").map(str::to_owned).collect()
}

#[test]
fn a_circle_is_found_through_a_name_that_is_passed_on() {
    let needs = needs_of(&[
        ("room", "mod a;\nmod b;\npub use b::Thing;\n"),
        ("room::a", "use super::{Thing, other};\n"),
        ("room::b", "use std::fmt;\nuse super::a::Part;\n"),
    ]);
    let (a, b) = (module("room::a"), module("room::b"));
    assert_eq!(way(&needs, &b, &a), Some(vec![b, a]));
}

#[test]
fn a_circle_is_found_through_what_a_file_needs_below_it() {
    let needs = needs_of(&[
        ("state", "use super::reader::Read;\n"),
        ("reader", "mod fold;\nuse fold::Fold;\npub struct Read;\n"),
        ("reader::fold", "use super::Read;\nuse crate::state::Session;\n"),
    ]);
    let (state, reader) = (module("state"), module("reader"));
    let through = module("reader::fold");
    assert_eq!(way(&needs, &reader, &state), Some(vec![reader, through, state]));
}

#[test]
fn a_circle_is_found_through_a_path_without_use() {
    let needs = needs_of(&[
        ("a", "use crate::b::Part;\n"),
        ("b", "fn f() -> u8 {\n    crate::a::text(1)\n}\n"),
    ]);
    assert_eq!(needs[&module("b")], BTreeSet::from([module("a")]));
}

/// Code of every module of a crate, without comments, and without the unit tests at the end of a file, which may use everything.
fn modules(folder: &Path) -> BTreeMap<Module, String> {
    let files: Vec<PathBuf> = super::layers::files_below(folder, &["rs"]);
    let texts = files.iter().map(|path| {
        let relative = path.strip_prefix(folder).expect("below the folder").with_extension("");
        let mut module: Module = relative
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            module.pop();
        }
        (module, fs::read_to_string(path).expect("readable"))
    });
    let code = |text: &str| {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    };
    texts.map(|(module, text)| (module, code(&text))).collect()
}

/// Dependencies of each module, without those on modules above it.
fn needs(files: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let passed_on: BTreeMap<(Module, String), Module> = files
        .iter()
        .flat_map(|(module, code)| {
            let shown = paths(code).0.into_iter().filter(|(is_shown, _)| *is_shown);
            shown.filter_map(|(_, path)| {
                let name = path.last()?.clone();
                let target = resolve(files, &BTreeMap::new(), module, &path)?;
                (target != *module).then(|| ((module.clone(), name), target))
            })
        })
        .collect();
    let of = |module: &Module, code: &String| {
        let (named, written_out) = paths(code);
        let hidden = named.into_iter().filter(|(is_shown, _)| !is_shown);
        let needed = hidden.map(|(_, path)| path).chain(written_out);
        let targets = needed.filter_map(|path| resolve(files, &passed_on, module, &path));
        targets.filter(|target| !module.starts_with(target)).collect()
    };
    files
        .iter()
        .map(|(module, code)| (module.clone(), of(module, code)))
        .collect()
}

/// Returns the module that a path leads to.
fn resolve(
    files: &BTreeMap<Module, String>,
    passed_on: &BTreeMap<(Module, String), Module>,
    from: &Module,
    path: &[String],
) -> Option<Module> {
    let mut here = from.clone();
    let mut steps = path.iter().peekable();
    match steps.peek().map(|step| step.as_str()) {
        Some("crate") => {
            here.clear();
            steps.next();
        }
        Some("self") => drop(steps.next()),
        Some("super") => {}
        Some(first) if files.contains_key(&[here.clone(), vec![first.to_owned()]].concat()) => {}
        _ => return None,
    }
    for step in steps {
        let below = [here.clone(), vec![step.clone()]].concat();
        if step == "super" {
            here.pop();
        } else if files.contains_key(&below) {
            here = below;
        } else {
            return passed_on.get(&(here.clone(), step.clone())).cloned().or(Some(here));
        }
    }
    Some(here)
}

/// Returns the paths in `use` lines, with true for those that are re-exported, and the paths in other code, such as `crate::a::text(1)`.
pub fn paths(code: &str) -> (Vec<(bool, Steps)>, Vec<Steps>) {
    let mut uses: Vec<(bool, String)> = Vec::new();
    let (mut rest, mut is_open) = (String::new(), false);
    for line in code.lines().map(str::trim) {
        let begun = line.split_once("use ").filter(|(visibility, _)| {
            let visibility = visibility.trim_end();
            visibility.is_empty() || visibility == "pub" || visibility.starts_with("pub(") && visibility.ends_with(')')
        });
        match (begun, uses.last_mut()) {
            (_, Some((_, tree))) if is_open => tree.push_str(line),
            (Some((visibility, tree)), _) => uses.push((visibility.starts_with("pub"), tree.to_owned())),
            _ => {
                rest += line;
                rest.push('\n');
                continue;
            }
        }
        is_open = !line.ends_with(';');
    }
    let named = uses.iter().flat_map(|(is_shown, tree)| {
        let leaves = leaves(tree.trim_end_matches(';'));
        leaves.into_iter().map(move |leaf| (*is_shown, leaf))
    });
    let words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let written_out = words.filter(|word| word.contains("::"));
    let steps = |word: &str| word.split("::").map(str::to_owned).collect();
    (named.collect(), written_out.map(steps).collect())
}

/// Splits `a::{b, c::{d, e}}` into `a::b`, `a::c::d` and `a::c::e`.
fn leaves(tree: &str) -> Vec<Steps> {
    let (prefix, inner) = match tree.split_once('{') {
        Some((prefix, rest)) => (prefix, rest.rsplit_once('}').map_or(rest, |(inner, _)| inner)),
        None => ("", tree),
    };
    let steps = |path: &str| -> Steps {
        let path = path.split(" as ").next().unwrap_or_default();
        path.split("::")
            .map(|step| step.trim().to_owned())
            .filter(|step| !step.is_empty())
            .collect()
    };
    if !tree.contains('{') {
        return vec![steps(tree)];
    }
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().expect("never empty").push(c),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| leaves(part.trim()))
        .map(|leaf| [steps(prefix), leaf].concat())
        .collect()
}

/// Returns a shortest path from one module to another, with both ends.
fn way(needs: &BTreeMap<Module, BTreeSet<Module>>, from: &Module, to: &Module) -> Option<Vec<Module>> {
    let mut ways = vec![vec![from.clone()]];
    let mut seen = BTreeSet::from([from.clone()]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().expect("never empty");
            if last == to {
                return Some(way);
            }
            for next in needs.get(last).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    longer.push([way.clone(), vec![next.clone()]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}
