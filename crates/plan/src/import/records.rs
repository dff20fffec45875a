//! Reads the records of vLLM's parameter files, and converts them to combinations of a plan that give the same command lines.

use super::{Loads, ReadFile, ReadSweep, Remarks, vllm_sweep};
use crate::matrix::argv::json_word;
use crate::{Combo, Params, Side, check_names, records, spelling, syntax::json_text};
use serde_json::{Value, json};
use std::path::Path;

/// The records of both files, without duplicates.
pub(super) struct Sides<'a> {
    pub serve: Vec<Record<'a>>,
    pub bench: Vec<Record<'a>>,
}

/// A record as vLLM's sweep has it, and as a combination of the plan.
pub(super) struct Record<'a> {
    pub theirs: &'a Combo,
    pub ours: Combo,
}

/// Reads the records of a file. A file that cannot be read is reported, and has no records.
pub(super) fn of_file(path: &Path, read: ReadFile<'_>, remarks: &mut Remarks) -> Vec<Combo> {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            remarks.object(message, "correct the path; it is relative to the current directory");
            return Vec::new();
        }
    };
    let source = remarks.sources.add(path, text.as_str());
    let root = json_text::parse(&text, source, &mut remarks.found);
    let combos = records(&root, &mut remarks.found);
    check_names(&combos, &mut remarks.found);
    combos.into_iter().map(|(_, combo)| combo).collect()
}

/// Converts the records of both sides to combinations. Adds notes about records that are left out, and parameters that a plan writes
/// differently.
pub(super) fn translate<'a>(read: &'a ReadSweep<'_>, remarks: &mut Remarks) -> Sides<'a> {
    let mut side = |side: Side, records: &'a [Combo]| {
        let mut kept: Vec<(String, Record<'a>)> = Vec::new();
        for (place, theirs) in records.iter().enumerate() {
            let called = called(theirs, place);
            let ours = Combo {
                name: theirs.name.clone(),
                params: params(read, theirs, side, &called, remarks),
            };
            match kept.iter().find(|(_, other)| other.ours.params == ours.params) {
                Some((other, _)) => remarks.notes.push(format!(
                    "{} {called} repeats {other}, and is left out: vLLM would reuse its results or measure it again",
                    side.noun(),
                )),
                None => kept.push((called, Record { theirs, ours })),
            }
        }
        kept.into_iter().map(|(_, record)| record).collect()
    };
    Sides {
        serve: side(Side::Serve, &read.serve),
        bench: side(Side::Bench, &read.bench),
    }
}

/// Name of a record in notes.
fn called(combo: &Combo, place: usize) -> String {
    match vllm_sweep::name(combo).as_str() {
        "" => format!("number {}", place + 1),
        name => format!("`{name}`"),
    }
}

fn params(read: &ReadSweep<'_>, record: &Combo, side: Side, called: &str, remarks: &mut Remarks) -> Params {
    let noun = side.noun();
    let keys: &[&str] = match side {
        Side::Serve => &["name", "command", "env"],
        Side::Bench => &["name"],
    };
    let mut params = Params::new();
    for (name, value) in &record.params {
        if side == Side::Bench && spelling::same(name, "percentile_metrics") {
            remarks.notes.push(format!("load {called}: {PERCENTILE_METRICS}"));
            continue;
        }
        if keys.contains(&name.as_str()) {
            let message = format!("{noun} {called} sets a parameter `{name}`, which is a key of a plan's combination");
            remarks.object(message, format!("put --{name} into the command"));
            continue;
        }
        let long = spelling::long_name(name).filter(|_| side == Side::Serve && !name.starts_with('-'));
        if let Some(long) = long {
            remarks.notes.push(format!(
                "server {called}: `{name}` is written `{long}`, the name of its flag"
            ));
        }
        let name = long.unwrap_or(name);
        let (value, note) = passed(name, value);
        remarks
            .notes
            .extend(note.map(|note| format!("{noun} {called}: {note}")));
        // vLLM applies both to one flag, so the second replaces the first.
        let earlier = params.keys().find(|other| spelling::same(other, name)).cloned();
        if let Some(earlier) = &earlier {
            remarks.notes.push(format!(
                "{noun} {called}: `{earlier}` and `{name}` are one flag, and the second wins"
            ));
        }
        params.insert(earlier.unwrap_or_else(|| name.to_owned()), value);
    }
    if side == Side::Bench
        && !matches!(read.sweep.loads, Loads::Listed | Loads::Startup { .. })
        && spelling::find(&params, "num_prompts").is_none()
    {
        params.insert("num_prompts".to_owned(), read.num_prompts(&record.params).into());
    }
    params
}

/// Reason for leaving out `--percentile-metrics`.
pub(super) const PERCENTILE_METRICS: &str =
    "`--percentile-metrics` is left out, as in vLLM's sweep, which always asks for ttft,tpot,itl,e2el";

/// Returns the value with which a plan passes the words that vLLM passes, and a note if these words are unusual.
fn passed(name: &str, value: &Value) -> (Value, Option<String>) {
    match value {
        Value::Null => {
            let note = format!("`{name}` is null, for which vLLM passes the word None; remove it if it is to be unset");
            ("None".into(), Some(note))
        }
        Value::Array(_) => {
            let text = vllm_sweep::text(value);
            let note = format!(
                "`{name}` is a list, which vLLM passes as the one word {text}; write {{ value = [...] }} for a word each"
            );
            (text.into(), Some(note))
        }
        Value::Object(_) if is_written_whole(value) => (json!({ "value": value }), None),
        Value::Object(_) => {
            let note = format!(
                "`{name}` is written as text, which names its folder differently: TOML has no place for all of it"
            );
            (json_word(value).into(), Some(note))
        }
        value => (value.clone(), None),
    }
}

/// Returns true if TOML can hold a value. TOML has neither null nor whole numbers above 2^63 - 1.
fn is_written_whole(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Number(number) => number.is_i64() || number.is_f64(),
        Value::Array(items) => items.iter().all(is_written_whole),
        Value::Object(members) => members.values().all(is_written_whole),
        Value::Bool(_) | Value::String(_) => true,
    }
}
