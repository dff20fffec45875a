//! The records of vLLM's parameter files: read, and as combinations of a plan that give the same command lines.

use super::{Loads, ReadFile, ReadSweep, plain, theirs};
use crate::matrix::argv::json_word;
use crate::plan::{Combo, Diagnostics, Params, Sources, json_text, records, spelling};
use serde_json::Value;
use std::path::Path;

/// One side of the plan.
pub(super) struct Sides {
    pub serve: Vec<Kept>,
    pub bench: Vec<Kept>,
}

/// A combination of the plan, and the record that it comes from.
pub(super) struct Kept {
    pub record: usize,
    pub combo: Combo,
}

/// The combinations of a file.
pub(super) fn of_file(path: &Path, read: ReadFile<'_>, sources: &mut Sources, found: &mut Diagnostics) -> Vec<Combo> {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => {
            found.add(plain(
                format!("cannot read {}: {error}", path.display()),
                "correct the path; it is relative to the current directory",
            ));
            return Vec::new();
        }
    };
    let source = sources.add(path, text.clone());
    let root = json_text::parse(&text, source, found);
    let records = records(&root, found);
    let mut combos: Vec<Combo> = Vec::with_capacity(records.len());
    for (span, combo) in records {
        let same = |other: &Combo| other.name.is_some() && other.name == combo.name;
        if combos.iter().any(same) {
            let name = combo.name.as_deref().unwrap_or_default();
            let message = format!("two combinations are called `{name}`");
            found.add(crate::plan::Problem::new(span, message, "rename one"));
        }
        combos.push(combo);
    }
    combos
}

/// The records of both sides as combinations; notes say what had to be put otherwise.
pub(super) fn translate(read: &ReadSweep<'_>, notes: &mut Vec<String>, found: &mut Diagnostics) -> Sides {
    let mut side = |records: &[Combo], what: RecordSide| {
        let mut kept: Vec<Kept> = Vec::new();
        for (record, combo) in records.iter().enumerate() {
            let called = called(combo, record);
            let combo = Combo {
                name: combo.name.clone(),
                params: params(read, combo, &what, &called, notes, found),
            };
            match kept.iter().find(|other| other.combo.params == combo.params) {
                Some(other) => notes.push(format!(
                    "{} {called} is {} once more, and is left out: vLLM would read its results or measure it again",
                    what.word(),
                    self::called(&records[other.record], other.record)
                )),
                None => kept.push(Kept { record, combo }),
            }
        }
        kept
    };
    Sides {
        serve: side(&read.serve, RecordSide::Serve),
        bench: side(&read.bench, RecordSide::Bench),
    }
}

enum RecordSide {
    Serve,
    Bench,
}

impl RecordSide {
    fn word(&self) -> &'static str {
        match self {
            RecordSide::Serve => "server",
            RecordSide::Bench => "load",
        }
    }
}

/// How a note calls a record.
fn called(combo: &Combo, place: usize) -> String {
    match theirs::name(combo).as_str() {
        "" => format!("number {}", place + 1),
        name => format!("`{name}`"),
    }
}

fn params(
    read: &ReadSweep<'_>,
    record: &Combo,
    side: &RecordSide,
    called: &str,
    notes: &mut Vec<String>,
    found: &mut Diagnostics,
) -> Params {
    let mut params = Params::new();
    for (name, value) in &record.params {
        if matches!(side, RecordSide::Bench) && spelling::same(name, "percentile_metrics") {
            notes.push(format!("load {called}: {PERCENTILE_METRICS}"));
            continue;
        }
        let is_taken = match side {
            RecordSide::Serve => ["name", "command", "env"].contains(&name.as_str()),
            RecordSide::Bench => name == "name",
        };
        if is_taken {
            let message = format!(
                "{} {called} sets a parameter `{name}`, which is a key of a plan's combination",
                side.word()
            );
            found.add(plain(message, format!("put --{name} into the command")));
            continue;
        }
        let long = spelling::long_name(name).filter(|_| matches!(side, RecordSide::Serve) && !name.starts_with('-'));
        if let Some(long) = long {
            notes.push(format!(
                "server {called}: `{name}` is written `{long}`, the name of its flag"
            ));
        }
        let name = long.unwrap_or(name);
        let (value, note) = passed(name, value);
        notes.extend(note.map(|note| format!("{} {called}: {note}", side.word())));
        // vLLM applies both to one flag, the second over the first.
        let earlier = params.keys().find(|other| spelling::same(other, name)).cloned();
        if let Some(earlier) = &earlier {
            notes.push(format!(
                "{} {called}: `{earlier}` and `{name}` are one flag, and the second wins",
                side.word()
            ));
        }
        params.insert(earlier.unwrap_or_else(|| name.to_owned()), value);
    }
    if matches!(side, RecordSide::Bench)
        && !matches!(read.sweep.loads, Loads::Listed | Loads::Startup { .. })
        && spelling::find(&params, "num_prompts").is_none()
    {
        params.insert("num_prompts".to_owned(), read.num_prompts(&record.params).into());
    }
    params
}

/// Why `--percentile-metrics` is left out.
pub(super) const PERCENTILE_METRICS: &str =
    "`--percentile-metrics` is left out, as in vLLM's sweep, which always asks for ttft,tpot,itl,e2el";

/// The value with which a plan passes the same words, and what is odd about them.
fn passed(name: &str, value: &Value) -> (Value, Option<String>) {
    match value {
        Value::Null => (
            "None".into(),
            Some(format!(
                "`{name}` is null, for which vLLM passes the word None; remove it if it is to be unset"
            )),
        ),
        Value::Array(_) => {
            let text = theirs::text(value);
            let note = format!(
                "`{name}` is a list, which vLLM passes as the one word {text}; write {{ value = [...] }} for a word each"
            );
            (text.into(), Some(note))
        }
        // TOML has no null; the words are the same.
        Value::Object(_) if has_null(value) => (json_word(value).into(), None),
        value => (value.clone(), None),
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}
