//! Rows of local data files: JSON lines, JSON, CSV, TSV and Parquet. The extension of a file determines its format. Each row keeps its
//! position, so that every error names the file, the position and the remedy.

use memchr::memchr_iter;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use vsweep_base::files::read_named_file;

/// Extensions of the files that [`read`] accepts.
pub(in crate::dataset) const ENDINGS: [&str; 7] = ["jsonl", "ndjson", "json", "csv", "tsv", "parquet", "pq"];

/// One row: values by column, in the file's order.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::dataset) struct DataRow {
    /// The file, and the line or number of the row in it, for error messages.
    place: String,
    pub fields: Map<String, Value>,
}

/// Rows, each with its line or number, from 1.
type NumberedRows = Vec<(usize, Map<String, Value>)>;

/// Reads the rows of a file. A file without rows is an error.
pub(in crate::dataset) fn read(file: &Path) -> Result<Vec<DataRow>, String> {
    let name = file.display();
    let bytes = read_named_file(file)
        .map_err(|error| format!("cannot read the dataset {name}: {error}; check dataset_path"))?;
    let ending = file.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    parse(file, &ending, bytes)
}

/// Parses the contents of a file with this extension, in lower case.
fn parse(file: &Path, ending: &str, bytes: Vec<u8>) -> Result<Vec<DataRow>, String> {
    let name = file.display();
    let (unit, rows) = numbered(ending, bytes).map_err(|problem| format!("{name}{problem}"))?;
    if rows.is_empty() {
        return Err(format!("{name} holds no rows; give a file with data"));
    }
    let rows = rows.into_iter().map(|(number, fields)| {
        let place = format!("{name}, {unit} {number}");
        DataRow { place, fields }
    });
    Ok(rows.collect())
}

/// Returns the unit of the rows' numbers (`line`, `entry` or `row`), and the rows. An error is the end of a sentence that begins with the
/// file's name.
fn numbered(ending: &str, bytes: Vec<u8>) -> Result<(&'static str, NumberedRows), String> {
    if !ENDINGS.contains(&ending) {
        return Err(format!(
            " is not a dataset file; its name must end in one of {}",
            ENDINGS.join(", ")
        ));
    }
    if matches!(ending, "parquet" | "pq") {
        return Ok(("row", (1..).zip(parquet(bytes)?).collect()));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = memchr_iter(b'\n', &error.as_bytes()[..error.utf8_error().valid_up_to()]).count() + 1;
        format!(", line {line}: not UTF-8; save the file as UTF-8")
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = match ending {
        "csv" => separated(text, b','),
        "tsv" => separated(text, b'\t'),
        "json" => match json(text) {
            Ok(entries) => return Ok(("entry", entries)),
            // Some .json files hold JSON lines.
            Err(problem) => json_lines(text).map_err(|_| problem),
        },
        _ => json_lines(text),
    };
    Ok(("line", lines?))
}

impl DataRow {
    /// Returns an error message about this row.
    pub fn wrong(&self, problem: &str) -> String {
        format!("{}: {problem}", self.place)
    }

    /// Returns a column's text; a number is returned as its digits.
    pub fn text(&self, column: &str) -> Result<String, String> {
        match self.column(column)? {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(self.wrong(&format!("\"{column}\" is not a string; correct or remove the row"))),
        }
    }

    /// Returns a column's number, at least 0 and below 1e15. A text is parsed as a number.
    pub fn number(&self, column: &str) -> Result<f64, String> {
        let number = match self.column(column)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.filter(|number| (0.0..1e15).contains(number)).ok_or_else(|| {
            self.wrong(&format!(
                "\"{column}\" is not a number of at least 0; correct or remove the row"
            ))
        })
    }

    /// Returns a column's number, truncated to a whole number.
    pub fn count(&self, column: &str) -> Result<u64, String> {
        self.number(column).map(|number| number as u64)
    }

    /// Returns the names of its first 12 columns, for the message that a column is missing.
    pub fn columns(&self) -> String {
        let columns: Vec<&str> = self.fields.keys().take(12).map(String::as_str).collect();
        columns.join(", ")
    }

    fn column(&self, column: &str) -> Result<&Value, String> {
        self.fields.get(column).ok_or_else(|| {
            self.wrong(&format!(
                "no column \"{column}\" (there are: {}); add it, or use another dataset_name",
                self.columns()
            ))
        })
    }
}

fn json_lines(text: &str) -> Result<NumberedRows, String> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let rows = lines.map(|(number, line)| match serde_json::from_str(line) {
        Ok(Value::Object(fields)) => Ok((number, fields)),
        Ok(_) => Err(format!(", line {number}: not a JSON object; correct or remove it")),
        Err(error) => Err(format!(
            ", line {number}: not JSON ({}); correct or remove it",
            without_line(&error)
        )),
    });
    rows.collect()
}

fn json(text: &str) -> Result<NumberedRows, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        format!(
            ", line {}: not JSON ({}); correct it",
            error.line(),
            without_line(&error)
        )
    })?;
    let entries = match value {
        Value::Array(entries) => entries,
        Value::Object(mut object) => match object.remove("data") {
            Some(Value::Array(entries)) => entries,
            _ => vec![Value::Object(object)],
        },
        _ => return Err(" holds no list of objects; write [{…}, {…}]".to_owned()),
    };
    let rows = (1..).zip(entries).map(|(number, entry)| match entry {
        Value::Object(fields) => Ok((number, fields)),
        _ => Err(format!(", entry {number}: not an object; correct or remove it")),
    });
    rows.collect()
}

/// Returns the parser's message without its position, because error messages begin with the position in the file.
fn without_line(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.split(" at line ").next().unwrap_or(&message).to_owned()
}

fn separated(text: &str, delimiter: u8) -> Result<NumberedRows, String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let wrong = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!(", line {line}: {len} fields where the header has {expected_len}; correct or remove the line")
            }
            _ => format!(", line {line}: {error}; correct or remove the line"),
        }
    };
    let header = reader.headers().map_err(wrong)?.clone();
    let rows = reader.records().map(|record| {
        let record = record.map_err(wrong)?;
        let number = record.position().map_or(0, |position| position.line() as usize);
        let fields = header.iter().zip(&record);
        let fields = fields.map(|(name, value)| (name.to_owned(), Value::from(value)));
        Ok((number, fields.collect()))
    });
    rows.collect()
}

/// Returns the rows of a Parquet file. An error is the end of a sentence that begins with the file's name.
fn parquet(bytes: Vec<u8>) -> Result<Vec<Map<String, Value>>, String> {
    // The reader trusts the lengths and offsets in a file and panics on some wrong ones.
    let read = catch_unwind(AssertUnwindSafe(|| unguarded_parquet(bytes)));
    read.unwrap_or_else(|_| Err("its contents contradict each other".to_owned()))
        .map_err(|problem| {
            format!(": cannot be read as Parquet ({problem}); write it again, uncompressed or with Snappy")
        })
}

fn unguarded_parquet(bytes: Vec<u8>) -> Result<Vec<Map<String, Value>>, String> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(|error| error.to_string())?;
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    rows.map(|row| match row.map(|row| row.to_json_value()) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("a row is not a record".to_owned()),
        Err(error) => Err(error.to_string()),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(ending: &str, text: &str) -> Result<Vec<DataRow>, String> {
        parse(Path::new("data").with_extension(ending).as_path(), ending, text.into())
    }

    #[test]
    fn all_forms_give_the_same_rows() {
        let lines = parsed(
            "jsonl",
            "\u{feff}{\"a\": \"x\", \"n\": 3}\n\n{\"a\": \"y\", \"n\": 4}\n",
        )
        .expect("rows");
        let list = parsed("json", r#"[{"a": "x", "n": 3}, {"a": "y", "n": 4}]"#).expect("rows");
        let table = parsed("csv", "a,n\r\nx,3\r\n\"y\",4\r\n").expect("rows");
        for rows in [&lines, &list, &table] {
            let found: Vec<_> = rows
                .iter()
                .map(|row| (row.text("a").expect("text"), row.count("n").expect("count")))
                .collect();
            assert_eq!(found, [("x".to_owned(), 3), ("y".to_owned(), 4)]);
        }
        assert_eq!(lines[1].place, "data.jsonl, line 3", "lines count, not rows");
        assert_eq!(
            list,
            parsed("json", r#"{"data": [{"a": "x", "n": 3}, {"a": "y", "n": 4}]}"#).expect("rows")
        );
    }

    #[test]
    fn complaints_name_file_place_and_remedy() {
        let complaint = |ending, text| parsed(ending, text).expect_err("wrong");
        insta::assert_snapshot!(
            [
                complaint("jsonl", "{\"a\": 1}\n{\"a\": \n"),
                complaint("jsonl", "[1]"),
                complaint("jsonl", "\n"),
                complaint("json", "7"),
                complaint("json", "[{}, 2]"),
                complaint("csv", "a,b\n1,2\n3\n"),
                complaint("txt", "a"),
                complaint("parquet", "PAR1"),
                parse(Path::new("x.csv"), "csv", b"a\n\xff".to_vec()).expect_err("wrong"),
                read(Path::new("/nowhere/x.jsonl")).expect_err("missing"),
            ]
            .join("\n"),
            @r"
        data.jsonl, line 2: not JSON (EOF while parsing a value); correct or remove it
        data.jsonl, line 1: not a JSON object; correct or remove it
        data.jsonl holds no rows; give a file with data
        data.json holds no list of objects; write [{…}, {…}]
        data.json, entry 2: not an object; correct or remove it
        data.csv, line 3: 1 fields where the header has 2; correct or remove the line
        data.txt is not a dataset file; its name must end in one of jsonl, ndjson, json, csv, tsv, parquet, pq
        data.parquet: cannot be read as Parquet (EOF: Parquet file too small. Size is 4 but need 8); write it again, uncompressed or with Snappy
        x.csv, line 2: not UTF-8; save the file as UTF-8
        cannot read the dataset /nowhere/x.jsonl: No such file or directory (os error 2); check dataset_path
        "
        );
        let rows = parsed("jsonl", r#"{"a": [], "b": -1}"#).expect("rows");
        assert_eq!(
            rows[0].text("prompt").expect_err("missing"),
            "data.jsonl, line 1: no column \"prompt\" (there are: a, b); add it, or use another dataset_name"
        );
        assert!(rows[0].text("a").is_err() && rows[0].number("b").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_rows_or_a_complaint(
            ending in proptest::sample::select(&ENDINGS[..]),
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Ok(rows) = parse(Path::new("x"), ending, bytes) {
                prop_assert!(!rows.is_empty());
            }
        }

        #[test]
        fn nearly_right_texts_are_rows_or_a_complaint(
            ending in proptest::sample::select(&ENDINGS[..5]),
            text in "[\\[\\]{}\",:a1\n\r\t -]{0,80}",
        ) {
            if let Ok(rows) = parse(Path::new("x"), ending, text.into_bytes()) {
                prop_assert!(!rows.is_empty());
            }
        }
    }
}

#[cfg(test)]
mod parquet_tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Two rows with a text, a number, a list and a list of records, written by pyarrow with Snappy.
    const FILE: &[u8] = include_bytes!("../../../../../tests/data/datasets/rows.parquet");

    #[test]
    fn texts_numbers_and_lists_are_read() {
        let rows = parquet(FILE.to_vec()).expect("readable");
        let second = json!({"prompt": "second", "output_tokens": 6, "turns": ["c"],
                            "messages": [{"role": "user", "content": "y"}]});
        assert_eq!(rows.len(), 2);
        assert_eq!(Value::Object(rows[1].clone()), second);
    }

    proptest! {
        #[test]
        fn damaged_files_are_rows_or_a_complaint(at in 0..FILE.len(), byte: u8, end in 0..FILE.len()) {
            let mut damaged = FILE.to_vec();
            damaged[at] = byte;
            let _ = parquet(damaged.clone());
            damaged.truncate(end);
            prop_assert!(parquet(damaged).is_err());
        }
    }
}
