//! A table as CSV text (RFC 4180): one header line, then one line for each row. Missing values are empty. A text that a spreadsheet would
//! take for a formula gets an apostrophe before it; numbers never do.

use super::{Cell, Column, Table};
use itertools::Itertools;
use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::ops::Range;

/// Writes a table as CSV. Equal tables give equal bytes.
pub fn write_csv(table: &Table, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let heads = table
        .columns()
        .iter()
        .map(|column| quoted(&inert(&column.name)).into_owned());
    writeln!(out, "{}", heads.format(","))?;
    let same = |column: &Column| {
        let cell = column.cells.same()?;
        let mut line = Vec::new();
        push_field(&mut line, cell);
        Some(line)
    };
    let same: Vec<Option<Vec<u8>>> = table.columns().iter().map(same).collect();
    let mut line = Vec::new();
    for row in 0..table.rows() {
        line.clear();
        for (column, same) in table.columns().iter().zip(&same) {
            match same {
                Some(same) => line.extend_from_slice(same),
                None => push_field(&mut line, &column.cells.at(row)),
            }
            line.push(b',');
        }
        line.pop();
        if line.is_empty() {
            // Readers would skip an empty line, so the only field gets quotes.
            line.extend_from_slice(b"\"\"");
        }
        line.push(b'\n');
        out.write_all(&line)?;
    }
    out.flush()
}

/// Range of the numbers whose JSON equals their text in a table. JSON is written in a third of the time, and a large table has millions of
/// numbers.
const AS_IN_JSON: Range<f64> = 1e-4..1e16;

/// Appends a cell to a line. Only texts may need quotes.
fn push_field(line: &mut Vec<u8>, cell: &Cell) {
    let written = match cell {
        Cell::Text(text) => line.write_all(quoted(&inert(text)).as_bytes()),
        Cell::Float(number) if AS_IN_JSON.contains(number) => {
            serde_json::to_writer(line, number).map_err(io::Error::from)
        }
        number => write!(line, "{number}"),
    };
    written.expect("memory takes every cell");
}

/// Returns a text in quotation marks if it could be taken for several fields.
fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}

/// Characters that begin a formula, including full-width ones.
const BEGINNINGS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Returns a text with an apostrophe before it if it begins like a formula or with an apostrophe. Removing one apostrophe restores the
/// text. A text that is a number stays as it is.
pub fn inert(text: &str) -> Cow<'_, str> {
    let begins = text.starts_with('\'') || text.trim_start().starts_with(BEGINNINGS);
    match begins && text.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Section;
    use super::*;
    use proptest::prelude::*;
    use vsweep_base::printable::{has_effect, printable};

    fn read_back(field: &str) -> &str {
        field.strip_prefix('\'').unwrap_or(field)
    }

    proptest! {
        #[test]
        fn a_number_is_its_text(number: f64, power in -9i32..20) {
            for number in [number, 10_f64.powi(power), 10_f64.powi(power).next_down(), number % 1e6] {
                let mut line = Vec::new();
                push_field(&mut line, &Cell::Float(number));
                prop_assert_eq!(String::from_utf8(line).expect("text"), Cell::Float(number).to_string());
            }
        }

        #[test]
        fn a_reader_gets_every_text_and_no_formula(
            texts in prop::collection::vec("(?s)[=+@\\-'\"\t \u{1b}\u{202e}\u{85}]{0,3}.{0,12}", 1..6),
            number in any::<f64>(),
        ) {
            let cell = |text: &String| Cell::text(text);
            let texts_column = Column { name: printable(&texts[0]).into_owned(), section: Section::Metric, cells: texts.iter().map(cell).collect() };
            let numbers = Column { name: "n".into(), section: Section::Metric, cells: vec![Cell::Float(number); texts.len()].into_iter().collect() };
            let table = Table::of(vec![texts_column, numbers]);
            let mut written = Vec::new();
            write_csv(&table, &mut written).expect("memory");
            prop_assert!(!String::from_utf8(written.clone()).expect("text").replace('\n', "").contains(has_effect));
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&written[..]);
            let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("CSV");
            let wanted = [&texts[0]].into_iter().chain(&texts);
            prop_assert_eq!(rows.len(), texts.len() + 1);
            for (row, text) in rows.iter().zip(wanted) {
                prop_assert_eq!(read_back(&row[0]), printable(text));
                let is_number = row[0].parse::<f64>().is_ok();
                prop_assert!(is_number || !row[0].trim_start().starts_with(BEGINNINGS), "{}", &row[0]);
            }
            prop_assert_eq!(rows[1][1].parse::<f64>().expect("a number").to_bits(), number.to_bits());
        }
    }
}
