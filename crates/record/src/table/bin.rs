//! Binning a column (`c%10`): each number becomes the lower edge of its bin. Edges are computed in decimals, as people write numbers: in
//! bins of 0.1, the edge of 0.3 is 0.3, but binary floating point would give 0.2.

use super::{Cell, Table};
use vsweep_plan::condition::items;

/// A column and the width of its bins.
#[derive(Debug, Clone, PartialEq)]
pub struct Bin {
    /// The column, as typed.
    pub column: String,
    /// Width of a bin; finite and positive.
    pub size: f64,
}

/// Maximum number of digits that are computed exactly. Longer numbers are far beyond any measurement.
const MOST_DIGITS: usize = 36;

impl Bin {
    /// Reads a list such as `max_concurrency%16,p99_ttft_ms%0.5`.
    pub fn parse_list(text: &str) -> Result<Vec<Bin>, String> {
        items(text)?.into_iter().map(Bin::parse).collect()
    }

    fn parse(item: &str) -> Result<Bin, String> {
        let mut parts = item.split('%').map(str::trim);
        let (Some(column), Some(size), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!(
                "`{item}` is not a bin; write column%size, as in max_concurrency%16"
            ));
        };
        if column.is_empty() {
            return Err(format!("`{item}` names no column; write column%size"));
        }
        match size.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(Bin {
                column: column.to_owned(),
                size: number,
            }),
            _ => Err(format!(
                "`{item}`: a bin's size must be a positive number, not `{size}`"
            )),
        }
    }

    /// Replaces the column's numbers by the lower edges of their bins; infinite and missing values stay.
    pub fn apply(&self, table: &mut Table) -> Result<(), String> {
        table.numeric_column(&self.column)?;
        let column = table.column_mut(&self.column).expect("just found");
        column
            .cells
            .change(|cell| match cell.number().filter(|number| number.is_finite()) {
                Some(number) => Cell::Float(lower_edge(number, self.size)),
                None => cell.clone(),
            });
        Ok(())
    }
}

/// Returns the largest multiple of `size` that is not above `value`.
fn lower_edge(value: f64, size: f64) -> f64 {
    decimal_edge(value, size).unwrap_or_else(|| (value / size).floor() * size)
}

fn decimal_edge(value: f64, size: f64) -> Option<f64> {
    let (value, size) = (value.to_string(), size.to_string());
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let scale = decimals(&value).max(decimals(&size));
    if value.len().max(size.len()) + scale > MOST_DIGITS {
        return None;
    }
    let scaled = |text: &str| -> Option<i128> {
        let digits = text.replace('.', "") + &"0".repeat(scale - decimals(text));
        digits.parse().ok()
    };
    let (value, size) = (scaled(&value)?, scaled(&size)?);
    let edge = value.div_euclid(size) * size;
    format!("{edge}e-{scale}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_are_exact_decimals() {
        let edges = [
            (0.3, 0.1),
            (0.7, 0.1),
            (15.5, 10.0),
            (-1.0, 10.0),
            (-0.05, 2.0),
            (1e300, 3.0),
        ];
        let edges = edges.map(|(value, size)| lower_edge(value, size));
        assert_eq!(edges, [0.3, 0.7, 10.0, -10.0, -2.0, (1e300_f64 / 3.0).floor() * 3.0]);
    }

    #[test]
    fn what_is_no_bin_is_refused() {
        for text in ["c", "c%", "c%a", "c%1%2", "c%0", "c%-1", "c%inf", "%1", "c%1,"] {
            assert!(Bin::parse_list(text).is_err(), "{text}");
        }
        assert_eq!(Bin::parse_list(" ").expect("no bins"), []);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bin(value in -1e6..1e6f64, size in 1e-3..1e3f64) {
            let edge = lower_edge(value, size);
            prop_assert!(edge <= value + 1e-9 && value < edge + size + 1e-9, "{edge}");
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = Bin::parse_list(&text);
        }
    }
}
