//! Rows of a Parquet file, uncompressed or compressed with Snappy or gzip.

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The rows of a file; a problem is the end of a sentence that begins with the file's name.
pub(in crate::dataset) fn rows(bytes: Vec<u8>) -> Result<Vec<Map<String, Value>>, String> {
    // The reader trusts the lengths and offsets in a file and panics on some wrong ones.
    let read = catch_unwind(AssertUnwindSafe(|| read(bytes)));
    read.unwrap_or_else(|_| Err("its contents contradict each other".to_owned()))
        .map_err(|problem| {
            format!(": cannot be read as Parquet ({problem}); write it again, uncompressed or with Snappy")
        })
}

fn read(bytes: Vec<u8>) -> Result<Vec<Map<String, Value>>, String> {
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
    use serde_json::json;

    /// Two rows with a text, a number, a list and a list of records, written by pyarrow with Snappy.
    const FILE: &[u8] = include_bytes!("../../../../../tests/data/datasets/rows.parquet");

    #[test]
    fn texts_numbers_and_lists_are_read() {
        let rows = rows(FILE.to_vec()).expect("readable");
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
            let _ = rows(damaged.clone());
            damaged.truncate(end);
            prop_assert!(rows(damaged).is_err());
        }
    }
}
