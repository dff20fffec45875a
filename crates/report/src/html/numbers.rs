//! The numbers of a page, with as many digits as its readers see.

use serde_json::Value;
use vsweep_record::table::Cell;

/// A cell as JSON; an infinite number as the text `inf`.
pub fn encode_cell(cell: &Cell) -> Value {
    match cell {
        Cell::Float(number) if number.is_finite() => round(*number).into(),
        other => other.to_json(),
    }
}

/// Rounds to five significant digits, but to whole numbers from 100,000 to a million and to multiples of 10,000 from a billion on, as
/// sentences show them. `summary.csv` has all digits. A number that would end in a 5, apart from zeros, keeps ten digits, so that the
/// page, which rounds further, never shows another number than the sentences.
pub fn round(number: f64) -> f64 {
    if (1e5..1e6).contains(&number.abs()) {
        return number.round();
    }
    if (1e9..1e15).contains(&number.abs()) {
        return (number / 1e4).round() * 1e4;
    }
    let text = format!("{number:.4e}");
    let mantissa = text.split('e').next().unwrap_or_default();
    let is_half = mantissa.trim_end_matches('0').ends_with('5');
    let text = if is_half { format!("{number:.9e}") } else { text };
    text.parse().unwrap_or(number)
}
