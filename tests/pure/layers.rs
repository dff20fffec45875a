//! Rules of the architecture that the compiler does not check: which rooms of a crate may use each other, which dependencies pure rooms
//! must not have, and that every module says what it owns. The manifests decide which crates may use each other.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that form one room with the crate's name, except for the modules listed, which are rooms of their own. In every other crate each
/// module is a room.
const CRATES: [(&str, &[&str]); 7] = [
    ("agenda", &[]),
    ("answer", &[]),
    ("load", &["dataset", "params"]),
    ("metrics", &["rng"]),
    ("plan", &["import", "matrix"]),
    ("report", &[]),
    ("sim", &[]),
];

/// Rooms by layer. A room may use rooms of lower layers, and those in `NEIGHBOURS`.
const LAYERS: [&[&str]; 8] = [
    &[
        "closed_list",
        "error",
        "files",
        "fingerprint",
        "ids",
        "units",
        "cause",
        "validity",
        "printable",
        "request_error",
        "python_json",
        "shell",
        "rng",
        "spool",
        "threads",
    ],
    &[
        "plan",
        "matrix",
        "import",
        "metrics",
        "search",
        "stats",
        "selection",
        "checks",
        "answer",
        "params",
    ],
    &["journal", "table", "evidence"],
    &["agenda"],
    &["server", "load", "dataset", "bench", "telemetry", "sim"],
    &["run", "rehearse"],
    &["report", "lint", "cluster"],
    &["cli", "main", "lib"],
];

/// Rooms that a room may use in its own layer.
const NEIGHBOURS: [(&str, &[&str]); 20] = [
    ("request_error", &["printable"]),
    ("cause", &["printable", "request_error"]),
    ("validity", &["printable", "request_error"]),
    ("shell", &["printable"]),
    ("files", &["error", "ids"]),
    ("fingerprint", &["units"]),
    ("matrix", &["plan"]),
    ("import", &["plan", "matrix"]),
    ("search", &["stats"]),
    ("selection", &["stats"]),
    ("checks", &["stats"]),
    ("answer", &["search", "stats"]),
    ("table", &["journal"]),
    ("evidence", &["journal", "table"]),
    ("server", &["telemetry"]),
    ("dataset", &["load"]),
    ("bench", &["load", "dataset", "server", "telemetry"]),
    ("rehearse", &["run"]),
    ("lint", &["report"]),
    ("cluster", &["report"]),
];

/// Rooms (left) that must not use others (right), although these are in a lower layer: measuring rooms do not record.
const NEVER: (&[&str], &[&str]) = (&["server", "bench", "telemetry"], &["journal", "table"]);

/// Rooms that use no clock and no network.
const CALM: &[&str] = &[
    "error",
    "files",
    "fingerprint",
    "ids",
    "units",
    "cause",
    "printable",
    "request_error",
    "python_json",
    "shell",
    "plan",
    "matrix",
    "import",
    "metrics",
    "params",
    "rng",
    "spool",
    "search",
    "stats",
    "selection",
    "checks",
    "answer",
    "agenda",
];

/// Rooms that use no files and no environment variables.
const CLOSED: &[&str] = &[
    "fingerprint",
    "ids",
    "units",
    "cause",
    "printable",
    "request_error",
    "python_json",
    "shell",
    "metrics",
    "rng",
    "search",
    "stats",
    "selection",
    "checks",
    "answer",
    "table",
    "evidence",
    "agenda",
];

/// Words that must not occur in the code of a room.
const FOREIGN: [(&[&str], &[&str]); 4] = [
    (CALM, &["Instant::now", "SystemTime::now", "jiff::"]),
    (CALM, &["std::net::", "std::process::Command"]),
    (
        &["journal", "table", "evidence", "report"],
        &["std::net::", "std::process::Command"],
    ),
    (CLOSED, &["std::fs", "std::env"]),
];

#[test]
fn rooms_use_only_what_lies_below() {
    let mut faults = Vec::new();
    for (room, path, code) in sources() {
        let used = used_rooms(&code).into_iter().map(|module| room_of(&path, &module));
        for used in used.filter(|used| *used != room) {
            let may = |table: &[(&str, &[&str])]| {
                table
                    .iter()
                    .any(|(who, what)| *who == room && what.contains(&used.as_str()))
            };
            let is_never = NEVER.0.contains(&room.as_str()) && NEVER.1.contains(&used.as_str());
            if is_never || !(layer_of(&used) < layer_of(&room) || may(&NEIGHBOURS)) {
                faults.push(format!("{}: {room} may not use {used}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Sentences are made from the answer's document alone, so that none of them makes a decision.
#[test]
fn writers_of_sentences_read_the_document_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/report/src/sentences");
    let sources = files_below(&folder, &["rs"]);
    assert!(!sources.is_empty(), "no sentences in {}", folder.display());
    for path in sources {
        let text = fs::read_to_string(&path).expect("readable");
        for foreign in ["vsweep_record", "vsweep_strategy", "crate::rows", "crate::inputs"] {
            assert!(!text.contains(foreign), "{} uses {foreign}", path.display());
        }
    }
}

#[test]
fn pure_rooms_stay_pure() {
    let mut faults = Vec::new();
    for (room, path, code) in sources() {
        for (rooms, words) in FOREIGN {
            for word in words
                .iter()
                .filter(|word| rooms.contains(&room.as_str()) && code.contains(**word))
            {
                faults.push(format!("{}: {room} may not mention {word}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `println!` panics if standard output is closed or full.
#[test]
fn nothing_panics_because_nobody_listens() {
    let panics = |code: &str| {
        ["print!(", "println!(", "env::args()"]
            .iter()
            .any(|word| code.contains(word))
    };
    let faults: Vec<_> = sources()
        .into_iter()
        .filter(|(_, _, code)| panics(code))
        .map(|(_, path, _)| path)
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn every_module_opens_with_what_it_owns() {
    let silent: Vec<_> = source_folders()
        .iter()
        .flat_map(|folder| files_below(folder, &["rs"]))
        .filter(|path| !fs::read_to_string(path).expect("readable").starts_with("//!"))
        .collect();
    assert!(silent.is_empty(), "no module doc: {silent:?}");
}

#[test]
fn files_hold_one_idea() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|(_, path, _)| {
            let text = fs::read_to_string(&path).expect("readable");
            (path, code_lines(&text).count())
        })
        .filter(|(_, lines)| *lines > 400)
        .collect();
    assert!(long.is_empty(), "more than 400 lines before the tests: {long:?}");
}

/// Returns the room of a top-level module of the crate that contains `file`.
pub fn room_of(file: &Path, module: &str) -> String {
    let own = CRATES
        .iter()
        .find(|(name, _)| file.starts_with(Path::new("crates").join(name)));
    match own {
        Some((name, rooms)) if !rooms.contains(&module) => (*name).to_owned(),
        _ => module.to_owned(),
    }
}

/// Short folders, so that a reader finds a file by looking through them.
#[test]
fn folders_are_short_and_repeat_no_name() {
    let mut folders = source_folders();
    folders.extend(
        [
            "tests/bench",
            "tests/process",
            "tests/pure",
            "tests/report",
            "tests/sweep",
        ]
        .map(PathBuf::from),
    );
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("readable");
        let (below, files): (Vec<_>, Vec<_>) = entries
            .map(|entry| entry.expect("readable").path())
            .partition(|path| path.is_dir());
        let files = files.iter().filter(|path| !path.ends_with("mod.rs")).count();
        assert!(
            files <= 20,
            "{} holds {files} files; group some by their job",
            folder.display()
        );
        for path in below.iter().filter(|path| !path.ends_with("snapshots")) {
            let repeats = path.file_name() == folder.parent().and_then(Path::file_name) && folder.ends_with("src");
            assert!(!repeats, "{} repeats the name of its crate", path.display());
            folders.push(path.clone());
        }
    }
}

fn layer_of(room: &str) -> usize {
    LAYERS
        .iter()
        .position(|rooms| rooms.contains(&room))
        .unwrap_or_else(|| {
            panic!("room `{room}` stands in no layer; add it to tests/pure/layers.rs and ARCHITECTURE.md")
        })
}

/// Returns the folder `src` of every crate of the workspace.
pub fn source_folders() -> Vec<PathBuf> {
    let crates = fs::read_dir("crates").expect("readable");
    let mut folders: Vec<_> = crates
        .map(|entry| entry.expect("readable").path().join("src"))
        .collect();
    folders.push("src".into());
    folders
}

/// Returns every source file with its room and its code, without comments, and without tests, which may use anything.
pub fn sources() -> Vec<(String, PathBuf, String)> {
    source_folders().iter().flat_map(|folder| sources_in(folder)).collect()
}

fn sources_in(folder: &Path) -> Vec<(String, PathBuf, String)> {
    files_below(folder, &["rs"])
        .into_iter()
        .map(|path| {
            let relative = path.strip_prefix(folder).expect("below src");
            let first = Path::new(relative.components().next().expect("a name").as_os_str());
            let room = room_of(&path, &first.file_stem().expect("a name").to_string_lossy());
            let text = fs::read_to_string(&path).expect("readable");
            let code: Vec<&str> = code_lines(&text)
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect();
            (room, path, code.join("\n"))
        })
        .collect()
}

fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"))
}

/// Returns the names after `crate::`, also those inside `crate::{a, b}`.
fn used_rooms(code: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => rooms.extend(outermost_names(group)),
            None => rooms.push(rest.to_owned()),
        }
    }
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    let rooms = rooms.iter().map(|text| {
        let text = text.trim_start();
        let name: String = text.chars().take_while(is_word).collect();
        // A macro is at the root of its crate, not in a room.
        let is_macro = text[name.len()..].starts_with('!');
        if is_macro { String::new() } else { name }
    });
    rooms.filter(|room| !room.is_empty()).collect()
}

/// Returns the items up to the brace that closes the group, without the content of inner braces.
fn outermost_names(group: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0;
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(String::new()),
            c if depth == 0 => names.last_mut().expect("never empty").push(c),
            _ => {}
        }
    }
    names
}

pub fn files_below(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files.extend(files_below(&path, extensions));
        } else if path
            .extension()
            .is_some_and(|found| extensions.iter().any(|extension| found == *extension))
        {
            files.push(path);
        }
    }
    files.sort();
    files
}
