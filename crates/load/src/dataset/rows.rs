//! Rows of local data files: JSON lines, JSON, CSV, TSV and Parquet, told apart by the file's ending. Knows where each row
//! stands, so that every complaint names the file, the place and the remedy.

use super::output_len::OutputLen;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// Endings of the files that [`Rows::read`] reads.
pub(super) const ENDINGS: [&str; 7] = ["jsonl", "ndjson", "json", "csv", "tsv", "parquet", "pq"];

/// One row: values by column, in the file's order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DataRow {
    /// Its line in the file, or its number where the file has no lines; from 1.
    pub number: usize,
    pub fields: Map<String, Value>,
}

/// The rows of a file; at least one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rows {
    pub file: PathBuf,
    /// What [`DataRow::number`] counts.
    unit: &'static str,
    pub rows: Vec<DataRow>,
}

impl Rows {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Rows, String> {
        let bytes = fs::read(file).map_err(|error| {
            format!(
                "cannot read the dataset {}: {error}; check dataset_path",
                file.display()
            )
        })?;
        let ending = file.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        Rows::parse(file, &ending, bytes)
    }

    /// Reads the bytes of a file with this ending.
    pub fn parse(file: &Path, ending: &str, bytes: Vec<u8>) -> Result<Rows, String> {
        let said = |problem: String| format!("{}{problem}", file.display());
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.trim_start_matches('\u{feff}').to_owned()),
            Err(error) => {
                let line = bytes[..error.valid_up_to()]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count()
                    + 1;
                Err(said(format!(", line {line}: not UTF-8; save the file as UTF-8")))
            }
        };
        let (unit, rows) = match ending {
            "jsonl" | "ndjson" => ("line", json_lines(&text(&bytes)?).map_err(said)?),
            "json" => {
                let text = text(&bytes)?;
                match json(&text) {
                    Ok(rows) => ("entry", rows),
                    // Many a .json file holds JSON lines.
                    Err(problem) => ("line", json_lines(&text).map_err(|_| said(problem))?),
                }
            }
            "csv" => ("line", separated(&text(&bytes)?, b',').map_err(said)?),
            "tsv" => ("line", separated(&text(&bytes)?, b'\t').map_err(said)?),
            "parquet" | "pq" => {
                let rows = super::parquet::rows(bytes).map_err(said)?.into_iter().enumerate();
                (
                    "row",
                    rows.map(|(i, fields)| DataRow { number: i + 1, fields }).collect(),
                )
            }
            _ => {
                return Err(said(format!(
                    " is no dataset file; its name must end in one of {}",
                    ENDINGS.join(", ")
                )));
            }
        };
        if rows.is_empty() {
            return Err(said(" holds no rows; give a file with data".to_owned()));
        }
        Ok(Rows {
            file: file.to_path_buf(),
            unit,
            rows,
        })
    }

    /// A complaint about one row.
    pub fn wrong(&self, row: &DataRow, problem: &str) -> String {
        format!("{}, {} {}: {problem}", self.file.display(), self.unit, row.number)
    }

    /// A complaint about the whole file.
    pub fn wrong_file(&self, problem: &str) -> String {
        format!("{} {problem}", self.file.display())
    }

    /// A column's text; a number stands for its digits.
    pub fn text(&self, row: &DataRow, column: &str) -> Result<String, String> {
        match row.fields.get(column) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(_) => Err(self.wrong(row, &format!("\"{column}\" is no text; correct or remove the row"))),
            None => Err(self.wrong(row, &self.missing(row, column))),
        }
    }

    /// A column's number of at least 0; texts of digits are numbers too.
    pub fn number(&self, row: &DataRow, column: &str) -> Result<f64, String> {
        let number = match row.fields.get(column) {
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
            None => return Err(self.wrong(row, &self.missing(row, column))),
        };
        let number = number.filter(|number| number.is_finite() && (0.0..1e15).contains(number));
        number.ok_or_else(|| {
            self.wrong(
                row,
                &format!("\"{column}\" is no number of at least 0; correct or remove the row"),
            )
        })
    }

    /// A column's whole number; what stands behind the point is dropped.
    pub fn count(&self, row: &DataRow, column: &str) -> Result<u64, String> {
        self.number(row, column).map(|number| number as u64)
    }

    /// The output tokens that were given, else those in the column `output_tokens`.
    pub fn output_len(&self, row: &DataRow, given: OutputLen) -> Result<u64, String> {
        match given {
            OutputLen::Fixed(length) => Ok(length),
            OutputLen::Column => self.count(row, "output_tokens"),
        }
    }

    /// The rows whose column `category` is this, or all; at least one. `parameter` names it in a complaint.
    pub fn of_category(&self, wanted: Option<&str>, parameter: &str) -> Result<Vec<&DataRow>, String> {
        let category = |row: &DataRow| Some(row.fields.get("category")?.as_str()?.to_owned());
        let is_wanted = |row: &&DataRow| wanted.is_none() || category(row).as_deref() == wanted;
        let rows: Vec<&DataRow> = self.rows.iter().filter(is_wanted).collect();
        if rows.is_empty() {
            let mut known: Vec<String> = self.rows.iter().filter_map(category).collect();
            known.sort();
            known.dedup();
            let problem = format!(
                "has no question of category \"{}\"; set {parameter} to one of: {}",
                wanted.unwrap_or_default(),
                known.join(", ")
            );
            return Err(self.wrong_file(&problem));
        }
        Ok(rows)
    }

    fn missing(&self, row: &DataRow, column: &str) -> String {
        let columns: Vec<&str> = row.fields.keys().take(12).map(String::as_str).collect();
        format!(
            "no column \"{column}\" (there are: {}); add it, or use another dataset_name",
            columns.join(", ")
        )
    }
}

fn json_lines(text: &str) -> Result<Vec<DataRow>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => Ok(DataRow { number: i + 1, fields }),
            Ok(_) => Err(format!(", line {}: not a JSON object; correct or remove it", i + 1)),
            Err(error) => Err(format!(
                ", line {}: not JSON ({}); correct or remove it",
                i + 1,
                without_line(&error)
            )),
        })
        .collect()
}

fn json(text: &str) -> Result<Vec<DataRow>, String> {
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
    let rows = entries.into_iter().enumerate();
    rows.map(|(i, entry)| match entry {
        Value::Object(fields) => Ok(DataRow { number: i + 1, fields }),
        _ => Err(format!(", entry {}: not an object; correct or remove it", i + 1)),
    })
    .collect()
}

/// The parser's message without its place, which is told in the file's own terms.
fn without_line(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.split(" at line ").next().unwrap_or(&message).to_owned()
}

fn separated(text: &str, delimiter: u8) -> Result<Vec<DataRow>, String> {
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
        let fields = fields
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        Ok(DataRow { number, fields })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(ending: &str, text: &str) -> Result<Rows, String> {
        Rows::parse(Path::new("data").with_extension(ending).as_path(), ending, text.into())
    }

    #[test]
    fn all_forms_give_the_same_rows() {
        let lines = parse(
            "jsonl",
            "\u{feff}{\"a\": \"x\", \"n\": 3}\n\n{\"a\": \"y\", \"n\": 4}\n",
        )
        .expect("rows");
        let list = parse("json", r#"[{"a": "x", "n": 3}, {"a": "y", "n": 4}]"#).expect("rows");
        let table = parse("csv", "a,n\r\nx,3\r\n\"y\",4\r\n").expect("rows");
        for rows in [&lines, &list, &table] {
            let found: Vec<_> = rows
                .rows
                .iter()
                .map(|row| (rows.text(row, "a").expect("text"), rows.count(row, "n").expect("count")))
                .collect();
            assert_eq!(found, [("x".to_owned(), 3), ("y".to_owned(), 4)]);
        }
        assert_eq!(lines.rows[1].number, 3, "lines count, not rows");
        assert_eq!(
            list,
            parse("json", r#"{"data": [{"a": "x", "n": 3}, {"a": "y", "n": 4}]}"#).expect("rows")
        );
    }

    #[test]
    fn complaints_name_file_place_and_remedy() {
        let complaint = |ending, text| parse(ending, text).expect_err("wrong");
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
                Rows::parse(Path::new("x.csv"), "csv", b"a\n\xff".to_vec()).expect_err("wrong"),
                Rows::read(Path::new("/nowhere/x.jsonl")).expect_err("missing"),
            ]
            .join("\n"),
            @r"
        data.jsonl, line 2: not JSON (EOF while parsing a value); correct or remove it
        data.jsonl, line 1: not a JSON object; correct or remove it
        data.jsonl holds no rows; give a file with data
        data.json holds no list of objects; write [{…}, {…}]
        data.json, entry 2: not an object; correct or remove it
        data.csv, line 3: 1 fields where the header has 2; correct or remove the line
        data.txt is no dataset file; its name must end in one of jsonl, ndjson, json, csv, tsv, parquet, pq
        data.parquet: cannot be read as Parquet (EOF: Parquet file too small. Size is 4 but need 8); write it again, uncompressed or with Snappy
        x.csv, line 2: not UTF-8; save the file as UTF-8
        cannot read the dataset /nowhere/x.jsonl: No such file or directory (os error 2); check dataset_path
        "
        );
        let rows = parse("jsonl", r#"{"a": [], "b": -1}"#).expect("rows");
        assert_eq!(
            rows.text(&rows.rows[0], "prompt").expect_err("missing"),
            "data.jsonl, line 1: no column \"prompt\" (there are: a, b); add it, or use another dataset_name"
        );
        assert!(rows.text(&rows.rows[0], "a").is_err() && rows.number(&rows.rows[0], "b").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_rows_or_a_complaint(
            ending in proptest::sample::select(&ENDINGS[..]),
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Ok(rows) = Rows::parse(Path::new("x"), ending, bytes) {
                prop_assert!(!rows.rows.is_empty());
            }
        }

        #[test]
        fn nearly_right_texts_are_rows_or_a_complaint(
            ending in proptest::sample::select(&ENDINGS[..5]),
            text in "[\\[\\]{}\",:a1\n\r\t -]{0,80}",
        ) {
            if let Ok(rows) = Rows::parse(Path::new("x"), ending, text.into_bytes()) {
                prop_assert!(!rows.rows.is_empty());
            }
        }
    }
}
