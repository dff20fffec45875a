//! Filters of rows as people type them (`c<=16,model!='a,b'`): the conditions of `--only`, on columns instead of parameters. It is the
//! grammar of `vllm bench sweep plot`, with `=` for `==`, with spaces allowed around every part, and with quotes that make a value a text.

use super::{Cell, Table};
use std::cmp::Ordering;
use std::fmt;
use vsweep_plan::Op;
use vsweep_plan::condition::{OPERATORS, parse_list, quoted};

/// One condition on one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The column, as typed.
    pub column: String,
    /// The comparison.
    pub comparison: Op,
    /// The right side, without its quotes.
    pub target: String,
    quoted: bool,
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.quoted { "'" } else { "" };
        write!(f, "{}{}{quote}{}{quote}", self.column, self.sign(), self.target)
    }
}

impl Filter {
    /// Reads a list of conditions that must all hold.
    pub fn parse_list(text: &str) -> Result<Vec<Filter>, String> {
        parse_list(text, Filter::parse)
    }

    fn parse(column: &str, comparison: Op, right: &str) -> Result<Filter, String> {
        let inner = quoted(right);
        let filter = Filter {
            column: column.to_owned(),
            comparison,
            target: inner.unwrap_or(right).to_owned(),
            quoted: inner.is_some(),
        };
        if filter.needs_number() && filter.number().is_none() {
            return Err(format!("`{comparison}` compares numbers, and `{right}` is not one"));
        }
        Ok(filter)
    }

    /// Returns the text of its comparison operator.
    pub fn sign(&self) -> &'static str {
        let mut known = OPERATORS.iter().filter(|(_, op)| *op == self.comparison);
        known.next().map_or("", |(sign, _)| sign)
    }

    fn needs_number(&self) -> bool {
        !matches!(self.comparison, Op::Eq | Op::Ne)
    }

    /// Returns the target as a number. Quotes make it a text, except in a comparison that needs a number.
    fn number(&self) -> Option<f64> {
        (!self.quoted || self.needs_number())
            .then(|| self.target.parse().ok())
            .flatten()
    }

    /// Returns the rows among these for which the condition holds.
    pub fn keep(&self, table: &Table, rows: &[usize]) -> Result<Vec<usize>, String> {
        let column = if self.needs_number() {
            table.numeric_column(&self.column)?
        } else {
            table.known_column(&self.column)?
        };
        let kept = rows.iter().filter(|row| self.holds(&column.cells.at(**row)));
        Ok(kept.copied().collect())
    }

    fn holds(&self, cell: &Cell) -> bool {
        let is_equal = || match (self.number(), cell.number()) {
            (Some(target), Some(value)) => target == value,
            (Some(_), None) => false,
            (None, _) => match cell {
                Cell::Missing => false,
                // vLLM's own tables write `True`, so the case does not matter.
                Cell::Bool(flag) => self.target.eq_ignore_ascii_case(&flag.to_string()),
                other => other.to_string() == self.target,
            },
        };
        let numbers = cell.number().zip(self.number());
        let order = numbers.and_then(|(value, target)| value.partial_cmp(&target));
        match self.comparison {
            Op::Eq => is_equal(),
            Op::Ne => !is_equal(),
            Op::Le => order.is_some_and(Ordering::is_le),
            Op::Ge => order.is_some_and(Ordering::is_ge),
            Op::Lt => order.is_some_and(Ordering::is_lt),
            Op::Gt => order.is_some_and(Ordering::is_gt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holds(filter: &str, cell: &Cell) -> bool {
        Filter::parse_list(filter)
            .expect("a filter")
            .iter()
            .all(|filter| filter.holds(cell))
    }

    #[test]
    fn quotes_make_a_text_and_keep_commas() {
        let text = |text: &str| Cell::Text(text.into());
        assert!(holds("s=='16'", &text("16")) && !holds("s==16", &text("16")));
        assert!(holds("s == \"x,y\" , s != z", &text("x,y")));
        assert!(holds("s==x=y", &text("x=y")));
        assert!(holds("s==True", &Cell::Bool(true)) && holds("s!='true'", &Cell::Bool(false)));
        assert!(holds("r==inf", &Cell::Float(f64::INFINITY)));
        assert!(holds("c != 3", &Cell::Missing) && !holds("c<3", &Cell::Missing));
        assert!(holds("c=3", &Cell::Integer(3)) && !holds("c = 3", &Cell::Integer(4)));
    }

    #[test]
    fn what_is_no_filter_is_refused_with_the_remedy() {
        for text in ["c", "c=<1", "c==1==2", "c<abc", "<3", "c=='x", "c<1,"] {
            let refusal = Filter::parse_list(text).expect_err(text);
            assert!(refusal.contains(';'), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z=!<>,'\"% 0-9é]{0,24}") {
            let _ = Filter::parse_list(&text);
        }
    }
}
