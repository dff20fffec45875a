//! A table as CSV text (RFC 4180): one header line, one line a row, missing values empty.

use super::Table;
use std::io::{self, Write};

/// Writes a table as CSV. Equal tables give equal bytes.
pub fn write_csv(table: &Table, out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(table.columns().iter().map(|column| &column.name))?;
    let mut field = String::new();
    for row in 0..table.rows() {
        for column in table.columns() {
            field.clear();
            std::fmt::Write::write_fmt(&mut field, format_args!("{}", column.cells[row])).map_err(io::Error::other)?;
            writer.write_field(&field)?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()
}
