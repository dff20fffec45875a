//! Loading a plan: its text, the plans it extends and the `--set` overrides become one tree, which is then read.

use super::merge::merge;
use super::node::{Entry, Kind, Node};
use super::origin::Origin;
use super::problem::{Diagnostics, Problem, Problems};
use super::read::{Names, Reader};
use super::secrets::Secrets;
use super::source::{Format, Sources, Span};
use super::world::World;
use super::{Plan, json_text, text, ties, toml_text};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A plan as far as it could be read, and what is wrong with it: later checks add to that, so that the user sees
/// everything in one go. What could not be read is left out of the plan or at its default.
#[derive(Debug)]
pub struct Draft {
    /// The plan.
    pub plan: Plan,
    /// What is wrong so far.
    pub found: Diagnostics,
}

impl Draft {
    /// The plan, if nothing is wrong with it.
    pub fn finish(self) -> Result<Plan, Problems> {
        match self.found.is_empty() {
            true => Ok(self.plan),
            false => Err(self.found.into_problems(&self.plan.origin.sources, &self.plan.secrets)),
        }
    }
}

/// Loads the plan at a path. Each override is `KEY=VALUE` with a dotted key such as `serve.params.max_num_seqs` and a TOML
/// value; what is no TOML value is a text, unless it begins like one.
pub fn load(path: &Path, overrides: &[String]) -> Result<Plan, Problems> {
    draft(path, overrides)?.finish()
}

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// The same as far as it goes. The path `-` is standard input, which is JSON if it begins with a brace. `Err` if there is no text, or
/// it is no TOML or JSON: nothing more can be said of it.
pub fn draft(path: &Path, overrides: &[String]) -> Result<Draft, Problems> {
    let is_piped = path.as_os_str() == STANDARD_INPUT;
    let (path, bytes) = match is_piped {
        true => {
            let mut bytes = Vec::new();
            let piped = std::io::stdin().lock().read_to_end(&mut bytes);
            (Path::new("stdin"), piped.map(|_| bytes))
        }
        false => (path, std::fs::read(path)),
    };
    let bytes = bytes.map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied => "give this user the right to read it",
            ErrorKind::IsADirectory => "give the path of a plan, a file",
            _ => "correct the path",
        };
        unreadable(path, &error.to_string(), remedy)
    })?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable(path, "it is not UTF-8 text", "save it as UTF-8"))?;
    let format = match is_piped && text.trim_start().starts_with('{') {
        true => Format::Json,
        false => Format::of(path),
    };
    read(&text, format, path, overrides, &World::real())
}

/// The same of a text that is at hand; `path` names it in messages, and relative paths start there.
pub fn draft_of(text: &str, format: Format, path: &Path) -> Result<Draft, Problems> {
    read(text, format, path, &[], &World::real())
}

fn unreadable(path: &Path, why: &str, remedy: &str) -> Problems {
    let problem = Problem {
        message: format!("cannot read the plan {}: {why}", path.display()),
        places: Vec::new(),
        remedy: remedy.into(),
    };
    Problems::new(vec![problem], &Sources::default(), &Secrets::default())
}

/// Reads a plan from its text. `path` names it in messages and is where relative paths start; variables and further
/// files come from `world` alone.
pub fn parse(
    text: &str,
    format: Format,
    path: &Path,
    overrides: &[String],
    world: &World<'_>,
) -> Result<Plan, Problems> {
    read(text, format, path, overrides, world)?.finish()
}

fn read(text: &str, format: Format, path: &Path, overrides: &[String], world: &World<'_>) -> Result<Draft, Problems> {
    let mut reader = Reader {
        world,
        range_values: 0,
        sources: Sources::default(),
        found: Diagnostics::default(),
        secrets: Secrets::default(),
        names: Names::default(),
        is_detailed: false,
        required: Vec::new(),
    };
    let source = reader.sources.add(path, text);
    let mut root = tree(text, format, source, &mut reader.found);
    if !reader.found.is_empty() {
        return Err(reader.found.into_problems(&reader.sources, &reader.secrets));
    }
    let mut verbatim = true;
    if let Some(base) = extended(&root, path, &mut vec![path.to_path_buf()], &mut reader) {
        let over = std::mem::replace(&mut root, base);
        merge(&mut root, over);
        // What it extended is in it now, wherever it is read again.
        drop_extends(&mut root);
        verbatim = false;
    }
    for setting in overrides {
        let source = reader.sources.add("--set", setting.as_str());
        if let Some(over) = override_tree(setting, source, &mut reader.found) {
            merge(&mut root, over);
            verbatim = false;
        }
    }
    root.span.source = 0;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut plan = reader.plan(&root, &stem);
    plan.text = match verbatim {
        true => text.to_string(),
        false => text::write(&root, format),
    };
    plan.format = format;
    plan.path = path.to_path_buf();
    plan.origin = Arc::new(Origin {
        sources: Arc::new(reader.sources),
        root,
    });
    let mut found = reader.found;
    ties::check(&plan, &mut found);
    Ok(Draft { plan, found })
}

fn tree(text: &str, format: Format, source: usize, found: &mut Diagnostics) -> Node {
    match format {
        Format::Toml => toml_text::parse(text, source, found),
        Format::Json => json_text::parse(text, source, found),
    }
}

/// The tree of the plan that this one extends, itself laid over what it extends. `chain` holds the plans on the way.
fn extended(root: &Node, path: &Path, chain: &mut Vec<PathBuf>, reader: &mut Reader<'_>) -> Option<Node> {
    let node = root.child("extends")?;
    let name = match &node.kind {
        Kind::Text(text) => reader.expand(text, node.span),
        _ => {
            let message = format!("`extends` must be a string, found {}", node.kind_name());
            reader.found.object(node.span, message, "write the path of a plan");
            return None;
        }
    };
    let base_path = path.parent().unwrap_or(Path::new("")).join(&name);
    let plain = |path: &Path| {
        path.components()
            .filter(|part| part.as_os_str() != ".")
            .collect::<PathBuf>()
    };
    if chain.iter().any(|earlier| plain(earlier) == plain(&base_path)) || chain.len() > 32 {
        let remedy = "remove one of the `extends` of the circle";
        reader.found.object(
            node.span,
            format!("`{name}` extends itself through other plans"),
            remedy,
        );
        return None;
    }
    let text = match (reader.world.read)(&base_path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read {}: {error}", base_path.display());
            reader.found.object(
                node.span,
                message,
                "correct the path; it is relative to the file that names it",
            );
            return None;
        }
    };
    let source = reader.sources.add(&base_path, text.as_str());
    let mut base = tree(&text, Format::of(&base_path), source, &mut reader.found);
    chain.push(base_path.clone());
    if let Some(mut further) = extended(&base, &base_path, chain, reader) {
        merge(&mut further, base);
        base = further;
    }
    drop_extends(&mut base);
    Some(base)
}

fn drop_extends(root: &mut Node) {
    if let Kind::Table(entries) = &mut root.kind {
        entries.retain(|entry| entry.key != "extends");
    }
}

/// `KEY=VALUE` as a tree of one leaf.
fn override_tree(setting: &str, source: usize, found: &mut Diagnostics) -> Option<Node> {
    let mut quiet = Diagnostics::default();
    let as_toml = toml_text::parse(setting, source, &mut quiet);
    if quiet.is_empty() && matches!(&as_toml.kind, Kind::Table(entries) if entries.len() == 1) {
        return Some(as_toml);
    }
    let whole = Span {
        source,
        start: 0,
        end: setting.len(),
    };
    let (key, value) = match setting.split_once('=') {
        Some(parts) => parts,
        None => {
            let remedy = "write --set KEY=VALUE, such as --set runs=5";
            found.object(whole, "this override has no `=`", remedy);
            return None;
        }
    };
    let mut quiet = Diagnostics::default();
    let mut tree = toml_text::parse(&format!("{key}=0"), source, &mut quiet);
    if !quiet.is_empty() {
        let remedy = "write a dotted key such as serve.params.max_num_seqs";
        found.object(
            Span {
                end: key.len(),
                ..whole
            },
            "the key of this override is not a dotted name",
            remedy,
        );
        return None;
    }
    let start = key.len() + 1;
    // JSON for a flag is a text, as it is within a plan.
    let is_json = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(value).is_ok();
    if value.trim().starts_with(['[', '{', '"', '\'']) && !is_json {
        let message =
            "the value of this override begins like a list, a table or a quoted text, but does not end like one";
        let remedy = "close it, or put a text in quotes, as in --set 'KEY=\"[text\"'";
        found.object(Span { start, ..whole }, message, remedy);
        return None;
    }
    let leaf = Node {
        span: Span { start, ..whole },
        kind: Kind::Text(value.trim().to_string()),
    };
    replace_leaf(&mut tree, leaf);
    Some(tree)
}

fn replace_leaf(tree: &mut Node, leaf: Node) {
    match &mut tree.kind {
        Kind::Table(entries) => {
            if let Some(Entry { value, .. }) = entries.first_mut() {
                replace_leaf(value, leaf);
            }
        }
        _ => *tree = leaf,
    }
}
