//! No two files of a crate need each other. A folder's `mod.rs` and the files below it count as one: it declares them, and they
//! complete its types.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path inside its crate.
type Module = Vec<String>;

#[test]
fn no_files_need_each_other() {
    let mut circles = Vec::new();
    for folder in super::layers::source_folders() {
        let files = modules(&folder);
        let needs = needs(&files);
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

#[test]
fn a_circle_is_found_through_a_name_that_is_passed_on() {
    let file = |name: &str, text: &str| (name.split("::").map(str::to_owned).collect::<Module>(), text.to_owned());
    let files = BTreeMap::from([
        file("room", "mod a;\nmod b;\npub use b::Thing;\n"),
        file("room::a", "use super::{Thing, other};\n"),
        file("room::b", "use std::fmt;\nuse super::a::Part;\n"),
    ]);
    let needs = needs(&files);
    let module = |name: &str| vec!["room".to_owned(), name.to_owned()];
    assert_eq!(
        way(&needs, &module("b"), &module("a")),
        Some(vec![module("b"), module("a")])
    );
}

/// The code of every module of a crate, without tests and comments.
fn modules(folder: &Path) -> BTreeMap<Module, String> {
    let files: Vec<PathBuf> = super::layers::files_below(folder);
    let texts: BTreeMap<Module, String> = files
        .iter()
        .map(|path| {
            let relative = path.strip_prefix(folder).expect("below src").with_extension("");
            let mut module: Module = relative
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                module.pop();
            }
            (module, fs::read_to_string(path).expect("readable"))
        })
        .collect();
    // Modules that are declared for tests only, and what lies below them.
    let of_tests: Vec<Module> = texts
        .iter()
        .flat_map(|(module, text)| {
            let declared = text
                .split("#[cfg(test)]\nmod ")
                .skip(1)
                .filter_map(|rest| rest.split_once(';'));
            let name = declared
                .map(|(name, _)| name.to_owned())
                .filter(|name| !name.contains(' '));
            name.map(|name| [module.clone(), vec![name]].concat())
                .collect::<Vec<_>>()
        })
        .collect();
    let is_test = |module: &Module| of_tests.iter().any(|test| module.starts_with(test));
    let code = |text: &str| {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let kept = texts.into_iter().filter(|(module, _)| !is_test(module));
    kept.map(|(module, text)| (module, code(&text))).collect()
}

/// Which modules each module needs, apart from those above and below it.
fn needs(files: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let passed_on: BTreeMap<(Module, String), Module> = files
        .iter()
        .flat_map(|(module, code)| {
            let shown = paths(code).into_iter().filter(|(is_shown, _)| *is_shown);
            shown.filter_map(|(_, path)| {
                let name = path.last()?.clone();
                let target = resolve(files, &BTreeMap::new(), module, &path)?;
                (target != *module).then(|| ((module.clone(), name), target))
            })
        })
        .collect();
    let of = |module: &Module, code: &String| {
        let hidden = paths(code).into_iter().filter(|(is_shown, _)| !is_shown);
        let targets = hidden.filter_map(|(_, path)| resolve(files, &passed_on, module, &path));
        targets
            .filter(|target| !module.starts_with(target) && !target.starts_with(module))
            .collect()
    };
    files
        .iter()
        .map(|(module, code)| (module.clone(), of(module, code)))
        .collect()
}

/// The module that a path leads to.
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

/// Every path of the `use` lines, with whether others see it.
fn paths(code: &str) -> Vec<(bool, Vec<String>)> {
    let mut paths = Vec::new();
    for statement in code.split(';') {
        let line = statement.rsplit("\n\n").next().unwrap_or_default().trim();
        let line = line
            .lines()
            .skip_while(|line| !line.contains("use "))
            .collect::<Vec<_>>()
            .join(" ");
        let Some((visibility, tree)) = line.split_once("use ") else {
            continue;
        };
        let is_shown = visibility.trim_start().starts_with("pub");
        if visibility.trim().is_empty() || is_shown {
            let leaves = leaves(tree);
            paths.extend(leaves.into_iter().map(|leaf| (is_shown, leaf)));
        }
    }
    paths
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
fn leaves(tree: &str) -> Vec<Vec<String>> {
    let (prefix, inner) = match tree.split_once('{') {
        Some((prefix, rest)) => (prefix, rest.rsplit_once('}').map_or(rest, |(inner, _)| inner)),
        None => ("", tree),
    };
    let steps = |path: &str| -> Vec<String> {
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

/// A shortest way from one module to another, both included.
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
