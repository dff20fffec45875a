//! Tests of values that are read, of errors with their lines, and of agreement with another YAML reader.

use super::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn settings_are_read() {
    let text = "--- \n# a comment\nmodel: meta-llama/Llama-3.1-8B   # another\nport: 12323\n'gpu share': 0.90\nenforce-eager: true\n\
                url: http://a:80/#x\nempty:\nnames: [a, b c]\nothers: [\"a, b\", \"d\\u00e9\"]\nlist:\n- -1\n- '- it''s'\ntable:\n  mode: 3\n  pass_config:\n    \
                fuse: false\n  sizes:\n    - 1\n    - 2\njson: {\"a\":1, \"b\": [true, null], \"c d\": {}}\nend: x # \n";
    let wanted = json!({
        "model": "meta-llama/Llama-3.1-8B", "port": 12323, "gpu share": 0.9, "enforce-eager": true, "url": "http://a:80/#x",
        "empty": null, "names": ["a", "b c"], "others": ["a, b", "dé"], "list": [-1, "- it's"],
        "table": {"mode": 3, "pass_config": {"fuse": false}, "sizes": [1, 2]},
        "json": {"a": 1, "b": [true, null], "c d": {}}, "end": "x",
    });
    assert_eq!(read(text), Ok(wanted));
    assert_eq!(read("# nothing\n"), Ok(Value::Null));
    // As PyYAML reads them.
    for (text, value) in [
        ("on", json!(true)),
        ("No", json!(false)),
        ("~", json!(null)),
        ("nO", json!("nO")),
        ("1e5", json!("1e5")),
        ("1.0e5", json!("1.0e5")),
        ("1.0e+5", json!(1e5)),
        ("-1.E-5", json!(-1e-5)),
        (r#""\U0001f600\\U\t\"""#, json!("\u{1f600}\\U\t\"")),
        ("127.0.0.1", json!("127.0.0.1")),
        ("8k", json!("8k")),
        ("2024-01-01", json!("2024-01-01")),
    ] {
        assert_eq!(read(&format!("a: {text}")), Ok(json!({"a": value})), "{text}");
    }
}

#[test]
fn everything_else_is_refused_with_its_line() {
    for (text, why) in [
        ("a: 1\nb", "line 2 has no `key: value`"),
        ("a: 1\n  b: 2", "line 2 does not continue the lines above it"),
        ("a:\n  b: 1\n c: 2", "line 3 does not continue"),
        ("  a: 1\nb: 2", "line 2 does not continue"),
        ("a: 1\n\tb: 2", "line 2 has a tab"),
        ("a: 1\na: 2", "line 2 has a key for the second time"),
        (
            "a: {b: 1}",
            "line 1 has brackets that are neither a plain list nor JSON",
        ),
        ("a: [1", "line 1 has brackets"),
        ("a: [b, [c]]", "line 1 has brackets"),
        ("a: [b,]", "line 1 has the value ``"),
        ("a: 'b", "line 1 has a quote that is never closed"),
        ("a: 'b' c", "line 1 has `c` behind a value"),
        ("- a: b", "line 1 has the value `a: b`"),
        ("a: b: c", "line 1 has the value `b: c`"),
        (
            "a: |\n  b",
            "line 1 has the value `|`, which is not read without quotes",
        ),
        (
            "a: &x b",
            "line 1 has the value `&x b`, which is not read without quotes",
        ),
        ("a: *x", "line 1 has the value `*x`, which is not read without quotes"),
        (
            "a: !!str 1",
            "line 1 has the value `!!str 1`, which is not read without quotes",
        ),
        ("a: \"\\q\"", "line 1 has an escape that JSON does not have"),
        ("a: \"\\ud800\"", "line 1 has an escape that JSON does not have"),
        ("a: 010", "line 1 has `010`, which some read as another number"),
        ("a: 0x10", "line 1 has `0x10`"),
        ("a: 99999999999999999999", "line 1 has `9999"),
        ("a: 12:30", "line 1 has `12:30`"),
        ("a: .inf", "line 1 has `.inf`"),
        ("a: 1\n---\nb: 2", "line 2 begins or ends a document"),
        ("a\n  b: 1", "line 1 has no `key: value`"),
        ("a: b\n  c", "line 2 does not continue"),
    ] {
        let refused = read(text).expect_err(text);
        assert!(refused.starts_with(why), "{text:?}: {refused}");
        assert!(refused.contains(';'), "{refused} has a remedy");
    }
    let deep = format!("a: {}", "[".repeat(100_000));
    assert!(read(&deep).expect_err("too deep").contains("brackets"));
}

/// Returns true if another reader, of YAML 1.2, gives the same value. Versions differ in `yes` and `1e5`.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Bool(ours), Value::String(theirs)) => match theirs.to_ascii_lowercase().as_str() {
            "yes" | "on" => *ours,
            "no" | "off" => !ours,
            _ => false,
        },
        (Value::String(ours), Value::Number(theirs)) => ours.parse::<f64>().ok() == theirs.as_f64(),
        (Value::Number(ours), Value::Number(theirs)) => ours.as_f64() == theirs.as_f64(),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let mut pairs = ours.iter().zip(theirs);
            ours.len() == theirs.len() && pairs.all(|(ours, theirs)| ours.0 == theirs.0 && is_same(ours.1, theirs.1))
        }
        (ours, theirs) => ours == theirs,
    }
}

/// Pieces of YAML, so that what is drawn is often valid.
const PIECES: [&str; 42] = [
    "a",
    "b:",
    "c: ",
    "key: ",
    "\"q\": ",
    "- ",
    "-",
    "\n",
    "\n",
    "\n  ",
    "\n    ",
    "\n- ",
    "\n  - ",
    " ",
    "1",
    "-2.5",
    "0.90",
    "1e5",
    "true",
    "no",
    "~",
    "null",
    "x y",
    "'it''s'",
    "\"t\\n\\u00e9\"",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ",",
    ": ",
    "#",
    " # c",
    "é",
    "/p/q",
    ".5",
    "--- ",
    "010",
    "'",
    "\"",
    "?",
];

proptest! {
    #[test]
    fn what_is_read_is_what_another_reader_reads(text in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14)) {
        let text = text.concat();
        if let Ok(ours) = read(&text) {
            let theirs = serde_yaml_ng::from_str::<Value>(&text);
            // JSON takes the last of two equal keys.
            prop_assume!(!theirs.as_ref().is_err_and(|error| error.to_string().contains("duplicate")));
            let theirs = theirs.map_err(|error| TestCaseError::fail(format!("{text:?} is {ours}, but {error}")))?;
            prop_assert!(is_same(&ours, &theirs), "{text:?} is {ours}, but {theirs}");
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(?s)[-:\\[\\]{}'\"\\\\#, \n\tau0é]{0,12}.{0,12}") {
        let _ = read(&text);
    }
}
