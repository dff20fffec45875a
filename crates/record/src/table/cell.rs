//! One value of a table, and the cells of a column.

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
    /// Converts a parameter's value to a cell.
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

    /// Converts a text to a cell. vLLM writes infinite numbers as the texts `inf` and `-inf`, but no other number as text; `nan` is
    /// missing.
    pub fn from_text(text: &str) -> Cell {
        match text {
            "inf" => Cell::Float(f64::INFINITY),
            "-inf" => Cell::Float(f64::NEG_INFINITY),
            "nan" => Cell::Missing,
            _ => Cell::text(text),
        }
    }

    /// Returns a cell with this text, in printable characters on one line. Texts from parameters, details and other programs' results
    /// become cells by this function.
    pub fn text(text: &str) -> Cell {
        Cell::Text(ArcStr::from(printable(text)))
    }

    /// Returns the value as JSON; an infinite number is vLLM's text `inf` or `-inf`.
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

    /// Returns the value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Integer(whole) => Some(*whole as f64),
            Cell::Float(number) => Some(*number),
            Cell::Missing | Cell::Bool(_) | Cell::Text(_) => None,
        }
    }

    /// Compares two values in the order in which people list them: missing ones first, then flags, numbers by size, texts by alphabet.
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

// The cells of a column. Of the hundred columns of a large record most hold one value in all rows: settings that do not vary, causes that
// no run has. Such a column takes the memory of one cell.

/// One cell for each row.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    rows: usize,
    stored: CellStore,
}

#[derive(Debug, Clone)]
enum CellStore {
    /// The only value of all rows; `None` without rows.
    Alike(Option<Cell>),
    /// Floating-point numbers, such as the figures of runs, in half the memory of cells. NaN is a missing cell.
    Numbers(Vec<f64>),
    /// One cell for each row.
    Any(Vec<Cell>),
}

impl Default for CellStore {
    fn default() -> CellStore {
        CellStore::Alike(None)
    }
}

impl Cells {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the cell of a row.
    pub fn at(&self, row: usize) -> Cell {
        match &self.stored {
            CellStore::Alike(Some(same)) if row < self.rows => same.clone(),
            CellStore::Alike(_) => panic!("row {row} of {}", self.rows),
            CellStore::Numbers(numbers) => numbers[row].into(),
            CellStore::Any(cells) => cells[row].clone(),
        }
    }

    /// Returns the cells in the order of the rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Cell> + Clone {
        (0..self.rows).map(|row| self.at(row))
    }

    /// Returns every value that occurs, at least once each, which is enough for questions about any or all of the cells.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Cell> + Clone {
        let count = match &self.stored {
            CellStore::Alike(same) => usize::from(same.is_some()),
            CellStore::Numbers(_) | CellStore::Any(_) => self.rows,
        };
        (0..count).map(|row| self.at(row))
    }

    /// Returns the value of all rows, if only one is stored.
    pub fn same(&self) -> Option<&Cell> {
        match &self.stored {
            CellStore::Alike(same) => same.as_ref(),
            CellStore::Numbers(_) | CellStore::Any(_) => None,
        }
    }

    /// Appends a row.
    pub fn push(&mut self, cell: Cell) {
        match &mut self.stored {
            CellStore::Alike(same @ None) => *same = Some(cell),
            CellStore::Alike(Some(same)) if is_same(same, &cell) => {}
            _ => {
                self.widen(&cell);
                match &mut self.stored {
                    CellStore::Numbers(numbers) => numbers.extend(as_number(&cell)),
                    CellStore::Any(cells) => {
                        // Equal texts in successive rows share their memory.
                        let repeated = cells.last().filter(|last| is_same(last, &cell)).cloned();
                        cells.push(repeated.unwrap_or(cell));
                    }
                    CellStore::Alike(_) => {}
                }
            }
        }
        self.rows += 1;
    }

    /// Removes rows at the end, or appends missing cells.
    pub fn resize(&mut self, rows: usize) {
        match &mut self.stored {
            stored if rows == 0 => *stored = CellStore::default(),
            CellStore::Alike(_) => {}
            CellStore::Numbers(numbers) => numbers.truncate(rows),
            CellStore::Any(cells) => cells.truncate(rows),
        }
        self.rows = self.rows.min(rows);
        (self.rows..rows).for_each(|_| self.push(Cell::Missing));
    }

    /// Replaces the cell of a row.
    pub fn set(&mut self, row: usize, cell: Cell) {
        self.widen(&cell);
        match &mut self.stored {
            CellStore::Numbers(numbers) => numbers[row] = as_number(&cell).unwrap_or(f64::NAN),
            CellStore::Any(cells) => cells[row] = cell,
            CellStore::Alike(_) => {}
        }
    }

    /// Replaces every value by the one that `replacement` returns for it.
    pub fn change(&mut self, replacement: impl Fn(&Cell) -> Cell) {
        match &mut self.stored {
            CellStore::Alike(same) => *same = same.as_ref().map(replacement),
            CellStore::Any(cells) => cells.iter_mut().for_each(|cell| *cell = replacement(cell)),
            CellStore::Numbers(_) => self.stored = CellStore::Any(self.iter().map(|cell| replacement(&cell)).collect()),
        }
    }

    /// Frees the memory that is reserved for further rows.
    pub fn shrink(&mut self) {
        match &mut self.stored {
            CellStore::Alike(_) => {}
            CellStore::Numbers(numbers) => numbers.shrink_to_fit(),
            CellStore::Any(cells) => cells.shrink_to_fit(),
        }
    }

    /// Stores a value for each row, in a form that can also hold this cell.
    fn widen(&mut self, cell: &Cell) {
        let is_number = as_number(cell).is_some();
        match &self.stored {
            CellStore::Any(_) => {}
            CellStore::Numbers(_) if is_number => {}
            CellStore::Numbers(_) => self.stored = CellStore::Any(self.iter().collect()),
            CellStore::Alike(same) => {
                let same = same.clone().unwrap_or_default();
                self.stored = match as_number(&same).filter(|_| is_number) {
                    Some(number) => CellStore::Numbers(vec![number; self.rows]),
                    None => CellStore::Any(vec![same; self.rows]),
                };
            }
        }
    }
}

/// Returns the number that represents a cell in [`CellStore::Numbers`]; `None` for cells that it cannot hold.
fn as_number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Missing => Some(f64::NAN),
        Cell::Float(number) => Some(*number).filter(|number| !number.is_nan()),
        Cell::Bool(_) | Cell::Integer(_) | Cell::Text(_) => None,
    }
}

/// Returns true if two cells are equal and print alike, which a zero and its negative do not.
fn is_same(one: &Cell, other: &Cell) -> bool {
    match (one, other) {
        (Cell::Float(one), Cell::Float(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

impl<C: Into<Cell>> FromIterator<C> for Cells {
    fn from_iter<I: IntoIterator<Item = C>>(cells: I) -> Cells {
        let mut all = Cells::default();
        cells.into_iter().for_each(|cell| all.push(cell.into()));
        all.shrink();
        all
    }
}

impl PartialEq for Cells {
    fn eq(&self, other: &Cells) -> bool {
        self.iter().eq(other.iter())
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

#[cfg(test)]
mod cells_tests {
    use super::*;
    use proptest::prelude::*;

    fn cell() -> impl Strategy<Value = Cell> {
        prop_oneof![
            Just(Cell::Missing),
            Just(Cell::text("a")),
            (0..2i64).prop_map(Cell::Integer),
            prop_oneof![Just(0.0), Just(-0.0), Just(f64::INFINITY)].prop_map(Cell::Float),
        ]
    }

    fn shown(cells: impl IntoIterator<Item = Cell>) -> Vec<String> {
        cells.into_iter().map(|cell| format!("{cell:?}")).collect()
    }

    proptest! {
        #[test]
        fn cells_hold_the_same_values_as_a_list(
            pushed in prop::collection::vec((cell(), 1..4usize), 0..6),
            rows in 0..12usize,
            changed in (any::<prop::sample::Index>(), cell()),
        ) {
            let mut list: Vec<Cell> = pushed.into_iter().flat_map(|(cell, times)| vec![cell; times]).collect();
            let mut cells: Cells = list.iter().cloned().collect();
            prop_assert_eq!(shown(cells.iter()), shown(list.clone()));
            list.resize(rows, Cell::Missing);
            cells.resize(rows);
            if rows > 0 {
                list[changed.0.index(rows)] = changed.1.clone();
                cells.set(changed.0.index(rows), changed.1);
            }
            prop_assert_eq!(shown(cells.iter()), shown(list.clone()));
            let all = |values: Vec<Cell>| { let mut all = shown(values); all.sort(); all.dedup(); all };
            prop_assert_eq!(all(cells.values().collect()), all(list.clone()));
            prop_assert_eq!(cells, list.into_iter().collect::<Cells>());
        }
    }

    #[test]
    fn one_value_is_held_once() {
        let mut cells: Cells = vec![Cell::Integer(3); 1000].into_iter().collect();
        assert_eq!(
            (cells.len(), cells.values().len(), cells.same()),
            (1000, 1, Some(&Cell::Integer(3)))
        );
        cells.push(Cell::Missing);
        assert_eq!((cells.len(), cells.values().len(), cells.same()), (1001, 1001, None));
    }
}
