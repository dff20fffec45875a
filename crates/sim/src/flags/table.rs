//! The tables of flags, and the parsing of their values: `vllm.txt` has the flags of vLLM 0.32, `sim.txt` those of the simulator.

use serde::Deserialize;
use serde_json::Value;
use std::iter::Peekable;
use std::sync::LazyLock;

/// Form of a flag's value. The tables write the names of the variants in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FlagKind {
    /// `--x` and `--no-x`.
    Bool,
    /// `--x` alone.
    Flag,
    Int,
    /// An integer that may be written `1k`, `2M`, `4K`, `1.5m`.
    Human,
    /// Like `Human`, or `auto` or -1.
    HumanOrAuto,
    Float,
    Json,
    Text,
    /// Any number of values, at least one.
    Texts,
    Ints,
    /// One value, which may be left out.
    Maybe,
    /// Repeatable.
    Append,
    Choice,
}

/// A line of a table: `KIND --name -short HELP`, or `choice:a|b --name`.
pub(super) struct Flag {
    pub kind: FlagKind,
    /// Accepted words of a `Choice`, separated by bars.
    choices: &'static str,
    /// The first is the canonical one, `--max-num-seqs`.
    pub names: Vec<&'static str>,
}

/// The simulator's own flags, each with its help.
const SIMULATOR_FLAGS: &str = include_str!("sim.txt");

static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let lines = include_str!("vllm.txt").lines().chain(SIMULATOR_FLAGS.lines());
    lines.map(flag).collect()
});

fn flag(line: &'static str) -> Flag {
    let (kind, rest) = line.split_once(' ').unwrap_or_default();
    let (kind, choices) = kind.split_once(':').unwrap_or((kind, ""));
    Flag {
        kind: serde_json::from_value(kind.into()).expect("the tables have only these kinds"),
        choices,
        names: rest.split(' ').take_while(|word| word.starts_with('-')).collect(),
    }
}

/// Returns the help of the simulator's own flags, one line each.
pub fn help() -> String {
    let of_flag = |line: &str| format!("  {}\n", line.split_once(' ').unwrap_or_default().1);
    SIMULATOR_FLAGS.lines().map(of_flag).collect()
}

/// Returns the long names of all flags.
pub fn names() -> Vec<&'static str> {
    let names = FLAGS.iter().flat_map(|flag| &flag.names).copied();
    names.filter(|name| name.starts_with("--")).collect()
}

/// Returns true if the flag of this name, without dashes, has a `--no-` form.
pub fn has_negative(name: &str) -> bool {
    find(&format!("--no-{name}")).is_some_and(|found| found.negated)
}

/// Returns the value of a flag, from the same word (`attached`) or from those that follow. The error is argparse's.
pub(super) fn take_value<'a>(
    found: &FoundFlag,
    mut attached: Option<&'a str>,
    rest: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Value, String> {
    let mut next = || {
        attached
            .take()
            .or_else(|| rest.next_if(|value| !looks_like_a_flag(value)))
    };
    let kind = found.flag.kind;
    Ok(match kind {
        FlagKind::Bool | FlagKind::Flag => match attached {
            Some(value) => return Err(format!("ignored explicit argument '{value}'")),
            None => Value::Bool(!found.negated),
        },
        FlagKind::Maybe => next().map_or(Value::Bool(true), Value::from),
        FlagKind::Texts | FlagKind::Ints => {
            let values: Vec<Value> = std::iter::from_fn(next)
                .map(|text| convert(found.flag, text))
                .collect::<Result<_, _>>()?;
            match values.is_empty() {
                true => return Err("expected at least one argument".to_owned()),
                false => Value::Array(values),
            }
        }
        _ => match (next().ok_or("expected one argument")?, &found.path) {
            // The value of a dotted flag is JSON if it can be parsed, and text otherwise.
            (text, Some(_)) => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
            (text, None) => convert(found.flag, text)?,
        },
    })
}

/// A flag as it was found on a command line.
pub(super) struct FoundFlag {
    pub flag: &'static Flag,
    /// True for `--no-x`.
    negated: bool,
    /// The part after the first dot of `--compilation-config.mode`.
    pub path: Option<String>,
}

/// Finds a flag under any of its spellings.
pub(super) fn find(typed: &str) -> Option<FoundFlag> {
    let (name, path) = match typed.split_once('.') {
        Some((name, path)) => (name, Some(path.to_owned())),
        None => (typed, None),
    };
    let kebab = name.replace('_', "-");
    let name = if name.starts_with("--") { &kebab } else { name };
    let exact = |name: &str| FLAGS.iter().find(|flag| flag.names.contains(&name));
    let (flag, negated) = match exact(name) {
        Some(flag) => (flag, false),
        None => (exact(&format!("--{}", name.strip_prefix("--no-")?))?, true),
    };
    let is_whole = path.is_none();
    let fits = match negated {
        true => is_whole && flag.kind == FlagKind::Bool,
        // Only flags with JSON values have dotted forms.
        false => is_whole || matches!(flag.kind, FlagKind::Json | FlagKind::Text),
    };
    fits.then_some(FoundFlag { flag, negated, path })
}

/// Returns true for a word that begins with a dash and is neither a single dash nor a negative number.
pub(super) fn looks_like_a_flag(argument: &str) -> bool {
    argument.len() > 1 && argument.starts_with('-') && argument.parse::<f64>().is_err()
}

/// Converts one word to a value of this flag. The error is argparse's.
fn convert(flag: &Flag, text: &str) -> Result<Value, String> {
    let (kind, value) = match flag.kind {
        FlagKind::Int | FlagKind::Ints => ("int", text.trim().replace('_', "").parse::<i64>().ok().map(Value::from)),
        FlagKind::Human => ("human_readable_int", human(text).map(Value::from)),
        FlagKind::HumanOrAuto if text == "auto" => return Ok((-1).into()),
        FlagKind::HumanOrAuto => ("human_readable_int_or_auto", human(text).map(Value::from)),
        FlagKind::Float => ("float", text.trim().parse::<f64>().ok().map(Value::from)),
        FlagKind::Json => ("loads", serde_json::from_str(text).ok()),
        FlagKind::Choice if !flag.choices.split('|').any(|choice| choice == text) => {
            let choices = flag.choices.replace('|', "', '");
            return Err(format!("invalid choice: '{text}' (choose from '{choices}')"));
        }
        _ => return Ok(text.into()),
    };
    value.ok_or_else(|| format!("invalid {kind} value: '{text}'"))
}

/// Parses an integer with a unit: `1k` is 1000, `1K` is 1024, and so on with m, g, t.
fn human(text: &str) -> Option<i64> {
    let text = text.trim();
    let unit = text.chars().last()?;
    let Some(power) = "kmgt".find(unit.to_ascii_lowercase()) else {
        return text.replace('_', "").parse().ok();
    };
    let base: f64 = if unit.is_ascii_lowercase() { 1000.0 } else { 1024.0 };
    let number: f64 = text[..text.len() - 1].parse().ok()?;
    // As in vLLM, only decimal units may follow a fraction.
    let whole = unit.is_ascii_lowercase() || number.fract() == 0.0;
    (whole && number.is_finite()).then_some((number * base.powi(power as i32 + 1)) as i64)
}
