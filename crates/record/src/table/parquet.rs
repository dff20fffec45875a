//! A table as a Parquet file: columns keep their types, so a notebook need not guess them as it must with CSV.

use super::{Cell, Column, Section, Table};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

/// Writes a table as Parquet, compressed with Snappy, in one row group. Missing values are null, and infinite values stay infinite. A
/// column that mixes texts with other kinds becomes a column of texts. Equal tables give equal bytes.
pub fn write_parquet(table: &Table, to: impl Write + Send) -> io::Result<()> {
    write(table, to).map_err(io::Error::other)
}

/// Number of values that are passed to the writer at a time, so that a large table is never in memory twice. A multiple of the number that
/// the writer processes at a time.
const BATCH: usize = 1 << 13;

/// Returns the type of a column's values; `BYTE_ARRAY` for texts and for mixed kinds.
fn type_of(column: &Column) -> Physical {
    let known = || column.cells.values().filter(|cell| !cell.is_missing());
    let is_figure = matches!(column.section, Section::Metric | Section::Derived);
    if known().next().is_none() {
        return if is_figure {
            Physical::DOUBLE
        } else {
            Physical::BYTE_ARRAY
        };
    }
    if known().all(|cell| matches!(cell, Cell::Bool(_))) {
        Physical::BOOLEAN
    } else if known().all(|cell| matches!(cell, Cell::Integer(_))) {
        Physical::INT64
    } else if known().all(|cell| cell.number().is_some()) {
        Physical::DOUBLE
    } else {
        Physical::BYTE_ARRAY
    }
}

fn write(table: &Table, to: impl Write + Send) -> Result<()> {
    let types: Vec<Physical> = table.columns().iter().map(type_of).collect();
    let fields = table.columns().iter().zip(&types).map(|(column, physical)| {
        let field = Type::primitive_type_builder(&column.name, *physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type((*physical == Physical::BYTE_ARRAY).then_some(LogicalType::String));
        field.build().map(Arc::new)
    });
    let schema = Type::group_type_builder("runs").with_fields(fields.collect::<Result<_>>()?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut file = SerializedFileWriter::new(to, Arc::new(schema.build()?), Arc::new(properties.build()))?;
    let mut rows = file.next_row_group()?;
    for (column, physical) in table.columns().iter().zip(types) {
        match physical {
            Physical::BOOLEAN => write_column::<BoolType, _>(&mut rows, column, |cell| match cell {
                Cell::Bool(flag) => Some(*flag),
                _ => None,
            })?,
            Physical::INT64 => write_column::<Int64Type, _>(&mut rows, column, |cell| match cell {
                Cell::Integer(whole) => Some(*whole),
                _ => None,
            })?,
            Physical::DOUBLE => write_column::<DoubleType, _>(&mut rows, column, Cell::number)?,
            _ => write_column::<ByteArrayType, _>(&mut rows, column, |cell| {
                (!cell.is_missing()).then(|| ByteArray::from(cell.to_string().into_bytes()))
            })?,
        }
    }
    rows.close()?;
    file.close()?;
    Ok(())
}

fn write_column<T: DataType, W: Write + Send>(
    rows: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
    value: impl Fn(&Cell) -> Option<T::T>,
) -> Result<()> {
    let mut writer = rows.next_column()?.expect("the schema has a field for each column");
    let mut cells = column.cells.iter();
    loop {
        let values: Vec<Option<T::T>> = cells.by_ref().take(BATCH).map(|cell| value(&cell)).collect();
        let is_there: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
        let values: Vec<T::T> = values.into_iter().flatten().collect();
        writer.typed::<T>().write_batch(&values, Some(&is_there), None)?;
        if cells.len() == 0 {
            return writer.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::{Value, json};

    fn written(table: &Table) -> Vec<Value> {
        let mut bytes = Vec::new();
        write_parquet(table, &mut bytes).expect("written");
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
        let rows = file.get_row_iter(None).expect("rows");
        rows.map(|row| row.expect("a row").to_json_value()).collect()
    }

    #[test]
    fn values_come_back_with_their_types() {
        let column = |name: &str, section, cells: &[Cell]| Column {
            name: name.into(),
            section,
            cells: cells.iter().cloned().collect(),
        };
        let text = |text: &str| Cell::Text(text.into());
        let table = Table::of(vec![
            column("point", Section::Identity, &[text("a"), text("é \"b\"")]),
            column("seqs", Section::Serve, &[Cell::Missing, Cell::Integer(8)]),
            column("mode", Section::Serve, &[text("auto"), Cell::Integer(4096)]),
            column("eager", Section::Serve, &[Cell::Bool(true), Cell::Bool(false)]),
            column("ttft", Section::Metric, &[Cell::Integer(3), Cell::Float(2.5)]),
            column("none", Section::Metric, &[Cell::Missing, Cell::Missing]),
        ]);
        let expected = [
            json!({"point": "a", "seqs": null, "mode": "auto", "eager": true, "ttft": 3.0, "none": null}),
            json!({"point": "é \"b\"", "seqs": 8, "mode": "4096", "eager": false, "ttft": 2.5, "none": null}),
        ];
        assert_eq!(written(&table), expected);
    }

    #[test]
    fn a_table_without_rows_is_a_file() {
        assert_eq!(
            written(&crate::table::TableBuilder::new().finish()),
            Vec::<Value>::new()
        );
    }
}
