//! Filters of rows as people type them (`c<=16,model!='a,b'`): the grammar of `vllm bench sweep plot`, with `=` for `==` as in `--only`,
//! with spaces allowed around every part, and with quotes that make a value a text.

use super::{Cell, Table};
use std::cmp::Ordering;
use std::fmt;
use vsweep_plan::Op;
use vsweep_plan::condition::OPERATORS;

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
        items(text)?.into_iter().map(Filter::parse).collect()
    }

    fn parse(item: &str) -> Result<Filter, String> {
        let is_sign = |letter: char| "=!<>".contains(letter);
        let refused = |what: &str| {
            format!("`{item}` {what}; write column, one of = != <= >= < >, and a value, as in max_concurrency<=64")
        };
        let (start, _) = item
            .char_indices()
            .find(|(_, letter)| is_sign(*letter))
            .ok_or_else(|| refused("has no comparison"))?;
        let rest = &item[start..];
        let end = rest.find(|letter| !is_sign(letter)).unwrap_or(rest.len());
        let (sign, target) = (&rest[..end], rest[end..].trim());
        let known = OPERATORS
            .iter()
            .find(|(text, op)| *text == sign || (sign == "=" && *op == Op::Eq));
        let (_, comparison) = known.ok_or_else(|| refused(&format!("compares by `{sign}`")))?;
        let column = item[..start].trim();
        if column.is_empty() {
            return Err(refused("names no column"));
        }
        let inner = ['\'', '"'].into_iter().find_map(|quote| {
            let inner = target.strip_prefix(quote)?.strip_suffix(quote)?;
            (!inner.contains(quote)).then_some(inner)
        });
        if inner.is_none() && OPERATORS.iter().any(|(text, _)| target.contains(text)) {
            return Err(format!(
                "`{item}` has two comparisons; if the second belongs to the value, put the value in quotes"
            ));
        }
        let filter = Filter {
            column: column.to_owned(),
            comparison: *comparison,
            target: inner.unwrap_or(target).to_owned(),
            quoted: inner.is_some(),
        };
        if filter.needs_number() && filter.number().is_none() {
            return Err(format!("`{item}` needs a number; `{}` is not one", filter.target));
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

/// Returns the items of a comma-separated list without the spaces around them. Commas in quotes separate nothing. An empty text has no
/// items.
pub(super) fn items(text: &str) -> Result<Vec<&str>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut items = Vec::new();
    let (mut start, mut quote) = (0, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ',') => {
                items.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if let Some(open) = quote {
        return Err(format!("`{text}` opens a {open} that nothing closes; close it"));
    }
    items.push(text[start..].trim());
    Ok(items)
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
