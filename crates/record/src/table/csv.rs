//! A table as CSV text (RFC 4180): one header line, one line a row, missing values empty. A text that a spreadsheet would
//! compute has an apostrophe before it; numbers are never texts here and stay numbers.

use super::{Cell, Column, Table};
use std::borrow::Cow;
use std::io::{self, Write};

/// Writes a table as CSV. Equal tables give equal bytes.
pub fn write_csv(table: &Table, out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(table.columns().iter().map(|column| inert(&column.name).into_owned()))?;
    let same = |column: &Column| column.cells.same().map(|cell| field(cell).into_owned());
    let same: Vec<Option<String>> = table.columns().iter().map(same).collect();
    for row in 0..table.rows() {
        for (column, same) in table.columns().iter().zip(&same) {
            match same {
                Some(same) => writer.write_field(same)?,
                None => writer.write_field(&*field(&column.cells[row]))?,
            }
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()
}

fn field(cell: &Cell) -> Cow<'_, str> {
    match cell {
        Cell::Text(text) => inert(text),
        number => Cow::Owned(number.to_string()),
    }
}

/// Characters that begin a formula, including full-width ones.
const BEGINNINGS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// A text with an apostrophe before it if it begins like a formula, or with an apostrophe: taking one off gives the text back. A
/// number that was given as a text is none.
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
    use vsweep_base::printable::{acts, printable};

    fn read_back(field: &str) -> &str {
        field.strip_prefix('\'').unwrap_or(field)
    }

    proptest! {
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
            prop_assert!(!String::from_utf8(written.clone()).expect("text").replace('\n', "").contains(acts));
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
