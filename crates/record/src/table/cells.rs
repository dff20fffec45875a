//! The cells of a column. Of the hundred columns of a large record most hold one value in all rows: settings that do not vary, causes that
//! no run has. Such a column takes the memory of one cell.

use super::Cell;
use std::ops::Index;

/// One cell a row.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    rows: usize,
    /// One a row, or the only one where all rows hold the same.
    stored: Vec<Cell>,
}

impl Cells {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The cells in the order of the rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Cell> + Clone {
        (0..self.rows).map(|row| &self[row])
    }

    /// Every value that occurs, at least once: as good as all cells for a question about any or all of them.
    pub fn values(&self) -> &[Cell] {
        &self.stored
    }

    /// The cell of every row, where it is known that all hold the same.
    pub fn same(&self) -> Option<&Cell> {
        self.stored.first().filter(|_| self.stored.len() == 1)
    }

    /// Appends a row.
    pub fn push(&mut self, cell: Cell) {
        let repeated = self.stored.last().filter(|last| is_same(last, &cell));
        match repeated {
            Some(_) if self.stored.len() == 1 => {}
            Some(last) => {
                // Texts share their memory.
                let last = last.clone();
                self.stored.push(last);
            }
            None => {
                self.spread();
                self.stored.push(cell);
            }
        }
        self.rows += 1;
    }

    /// Cuts rows off, or appends missing cells.
    pub fn resize(&mut self, rows: usize) {
        self.stored.truncate(rows);
        self.rows = self.rows.min(rows);
        (self.rows..rows).for_each(|_| self.push(Cell::Missing));
    }

    /// Replaces the cell of a row.
    pub fn set(&mut self, row: usize, cell: Cell) {
        self.spread();
        self.stored[row] = cell;
    }

    /// Replaces every value by another.
    pub fn change(&mut self, other: impl Fn(&Cell) -> Cell) {
        self.stored.iter_mut().for_each(|cell| *cell = other(cell));
    }

    /// Gives back the memory that further rows would take.
    pub fn shrink(&mut self) {
        self.stored.shrink_to_fit();
    }

    /// Stores a cell for each row.
    fn spread(&mut self) {
        if let Some(same) = self.same().cloned() {
            self.stored.resize(self.rows, same);
        }
    }
}

/// Returns true if two cells are equal and print alike, which a zero and its negative do not.
fn is_same(one: &Cell, other: &Cell) -> bool {
    match (one, other) {
        (Cell::Float(one), Cell::Float(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

impl Index<usize> for Cells {
    type Output = Cell;

    fn index(&self, row: usize) -> &Cell {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        self.stored.get(row).unwrap_or(&self.stored[0])
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
        fn they_hold_what_a_list_holds(
            pushed in prop::collection::vec((cell(), 1..4usize), 0..6),
            rows in 0..12usize,
            changed in (any::<prop::sample::Index>(), cell()),
        ) {
            let mut list: Vec<Cell> = pushed.into_iter().flat_map(|(cell, times)| vec![cell; times]).collect();
            let mut cells: Cells = list.iter().cloned().collect();
            prop_assert_eq!(shown(cells.iter().cloned()), shown(list.clone()));
            list.resize(rows, Cell::Missing);
            cells.resize(rows);
            if rows > 0 {
                list[changed.0.index(rows)] = changed.1.clone();
                cells.set(changed.0.index(rows), changed.1);
            }
            prop_assert_eq!(shown(cells.iter().cloned()), shown(list.clone()));
            let all = |values: &[Cell]| { let mut all = shown(values.to_vec()); all.sort(); all.dedup(); all };
            prop_assert_eq!(all(cells.values()), all(&list));
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
