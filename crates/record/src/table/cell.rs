//! One value of a table: reading from JSON and printing to CSV.

use arcstr::ArcStr;
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;
use vsweep_base::printable::printable;

/// One value. A column may mix kinds where a parameter does (`"auto"` and `4096`).
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Cell {
    /// Not set, not measured, or null.
    #[default]
    Missing,
    /// A flag.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number; infinite for vLLM's `"inf"`.
    Float(f64),
    /// Anything else; a list or an object as compact JSON. Shared, and one pointer wide: a table of 100 000 runs repeats few texts
    /// in millions of cells.
    Text(ArcStr),
}

impl Cell {
    /// A parameter's value as a cell.
    pub fn from_json(value: &Value) -> Cell {
        match value {
            Value::Null => Cell::Missing,
            Value::Bool(flag) => Cell::Bool(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Cell::Integer(whole),
                None => number.as_f64().map_or(Cell::Missing, Cell::Float),
            },
            Value::String(text) => Cell::from_text(text),
            nested => Cell::text(&nested.to_string()),
        }
    }

    /// A text as a cell: vLLM writes an infinite number as the text `inf`, and nothing else as a text that means one.
    pub fn from_text(text: &str) -> Cell {
        match text {
            "inf" => Cell::Float(f64::INFINITY),
            "-inf" => Cell::Float(f64::NEG_INFINITY),
            "nan" => Cell::Missing,
            _ => Cell::text(text),
        }
    }

    /// A text that is none of these, on one line and harmless: parameters, details and other programs' results become cells
    /// here.
    pub fn text(text: &str) -> Cell {
        Cell::Text(ArcStr::from(printable(text)))
    }

    /// The value as JSON; an infinite number is vLLM's text `inf`.
    pub fn to_json(&self) -> Value {
        match self {
            Cell::Missing => Value::Null,
            Cell::Bool(flag) => Value::from(*flag),
            Cell::Integer(whole) => Value::from(*whole),
            Cell::Float(number) if number.is_finite() => Value::from(*number),
            Cell::Float(number) => Value::from(number.to_string()),
            Cell::Text(text) => Value::from(&**text),
        }
    }

    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Integer(whole) => Some(*whole as f64),
            Cell::Float(number) => Some(*number),
            Cell::Missing | Cell::Bool(_) | Cell::Text(_) => None,
        }
    }

    /// The order in which people list values: missing ones first, then flags, numbers by size, texts by alphabet.
    pub fn order(&self, other: &Cell) -> Ordering {
        let rank = |cell: &Cell| match cell {
            Cell::Missing => 0,
            Cell::Bool(_) => 1,
            Cell::Integer(_) | Cell::Float(_) => 2,
            Cell::Text(_) => 3,
        };
        match (self, other) {
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                _ => rank(self).cmp(&rank(other)),
            },
        }
    }

    /// Returns true if the value is missing.
    pub fn is_missing(&self) -> bool {
        matches!(self, Cell::Missing)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Missing => Ok(()),
            Cell::Bool(flag) => write!(f, "{flag}"),
            Cell::Integer(whole) => write!(f, "{whole}"),
            // `{:?}` is the shortest text that reads back as the same number, with an exponent where it is long.
            Cell::Float(number) => write!(f, "{number:?}"),
            Cell::Text(text) => f.write_str(text),
        }
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        match number.is_nan() {
            true => Cell::Missing,
            false => Cell::Float(number),
        }
    }
}

impl From<&'static str> for Cell {
    fn from(word: &'static str) -> Cell {
        Cell::Text(word.into())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Missing, Into::into)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Cell {
        i64::try_from(count).map_or(Cell::Missing, Cell::Integer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_becomes_typed_cells() {
        let shown = |value| Cell::from_json(&value).to_string();
        assert_eq!(shown(json!(null)), "");
        assert_eq!(shown(json!(true)), "true");
        assert_eq!(shown(json!(3)), "3");
        assert_eq!(shown(json!(1e22)), "1e22");
        assert_eq!(shown(json!(0.1)), "0.1");
        assert_eq!(shown(json!("inf")), "inf");
        assert_eq!(shown(json!({"mode": 3})), r#"{"mode":3}"#);
        assert_eq!(Cell::from_json(&json!(u64::MAX)), Cell::Float(u64::MAX as f64));
    }
}
