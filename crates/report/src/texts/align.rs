//! Rows of words as a table of text.

use super::terminal::width;
use console::Term;

/// Greatest indentation of a table, in columns.
const MARGIN: usize = 2;

/// Number of columns of the terminal; unlimited without one.
pub fn terminal_room() -> usize {
    width(&Term::stdout()).unwrap_or(usize::MAX)
}

/// The first of some forms of a text that fits the terminal, else the last.
pub fn fitting<T>(forms: impl IntoIterator<Item = T>, lines: impl Fn(&T) -> Vec<&str>) -> Option<T> {
    fitting_in(terminal_room(), forms, lines)
}

/// The first of some forms of a text that fits this number of columns, else the last.
pub fn fitting_in<T>(room: usize, forms: impl IntoIterator<Item = T>, lines: impl Fn(&T) -> Vec<&str>) -> Option<T> {
    let fits = |form: &T| lines(form).iter().all(|line| line.chars().count() + MARGIN <= room);
    let mut last = None;
    for form in forms {
        if fits(&form) {
            return Some(form);
        }
        last = Some(form);
    }
    last
}

/// Aligns rows of equally many cells in columns: the last column to the left, all others to the right.
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
