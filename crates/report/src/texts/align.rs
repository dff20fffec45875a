//! Rows of words as a table of text.

/// Columns of equal width, numbers to the right; the last column to the left.
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths).take(columns - 1) {
            line += &format!("{cell:>width$}  ");
        }
        line += &row[columns - 1];
        text += line.trim_end();
        text.push('\n');
    }
    text
}
