//! Ranges as axes: `{ from, to, times }`, `{ from, to, step }`, `{ from, to, count, scale }`. Fractional values are rounded to 12
//! significant digits, so that a step of 0.1 lands on the values that were meant. The number of values is known before any is made.

use super::{FromNode, Reader, table};
use crate::{Kind, Node, Problem};
use serde_json::{Number, Value};
use vsweep_base::units::show_count;
use vsweep_strategy::search::Spacing;

table! {
    /// Numbers from one end to the other. Exactly one of `times`, `step` and `count` defines the spacing.
    #[derive(Debug)]
    pub struct RangeTable("RangeTable", "") {
        /// First value.
        from: Option<Number> = maybe::<f64, _>(bound).required_elsewhere(),
        /// Last value; values beyond it are not taken.
        to: Option<Number> = maybe::<f64, _>(bound).required_elsewhere(),
        /// Factor from each value to the next, above 1.
        times: Option<Number> = maybe::<f64, _>(bound),
        /// Difference of neighbours, above 0.
        step: Option<Number> = maybe::<f64, _>(bound),
        /// Number of values, both ends included. Between whole ends the values are rounded to whole numbers.
        count: Option<u32> = maybe::<u32, _>(|reader, node, what| reader.whole(node, what, 2..=u32::MAX)),
        /// Spacing of `count` values: `linear` (default) or `log`.
        scale: Option<Spacing> = one_of::<Spacing, _>(),
    }
}

/// Maximum number of values of all ranges of a plan together. Unlike pairs, these values are held in memory.
const MOST_VALUES: u32 = 2_000_000;

impl Reader<'_> {
    /// Reads a range and returns its values; `None` if it is invalid, after reporting the problems.
    pub(super) fn range(&mut self, node: &Node) -> Option<Vec<Value>> {
        let unread = self.unread;
        let range = RangeTable::from_node(self, node, "range")?;
        if self.unread > unread {
            return None;
        }
        let values = range.values(self.range_values);
        let values = values.map_err(|problem| self.found.add(problem.at(node.span))).ok()?;
        self.range_values += values.len() as u128;
        Some(values)
    }
}

fn bound(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Number> {
    if let Kind::Number(number) = &node.kind {
        return Some(number.clone());
    }
    let message = format!("`{what}` of a range must be a number, found {}", node.kind_name());
    reader.refuse(node.span, message, "write a number")
}

/// Number of values of a range, and a function that returns the value at a position, counted from 0.
type Course = (f64, Box<dyn Fn(f64) -> f64>);

impl RangeTable {
    /// Returns all values; `taken` is the number of values in earlier ranges of the plan.
    fn values(&self, taken: u128) -> Result<Vec<Value>, Problem> {
        let mut given = [&self.from, &self.to, &self.step].into_iter().flatten();
        let times = self.times.as_ref().and_then(Number::as_f64);
        let is_whole = given.all(|number| !number.is_f64()) && times.is_none_or(|times| times.fract() == 0.0);
        let (count, at) = self.course()?;
        check_size(count as u128, taken)?;
        let is_rounded = is_whole && self.count.is_some();
        let value = |position: u32| {
            let value = at(position.into());
            number(if is_rounded { value.round() } else { value }, is_whole)
        };
        let numbers: Vec<Number> = (0..count as u32).map(value).collect::<Result<_, _>>()?;
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            let remedy = "lower `count`, or write the ends with a decimal point to allow fractions";
            return Err(Problem::of("this range would take the same value twice", remedy));
        }
        Ok(numbers.into_iter().map(Value::Number).collect())
    }

    fn course(&self) -> Result<Course, Problem> {
        let flaw = |message: &str, remedy: &str| Err(Problem::of(message, remedy));
        let float = |number: &Option<Number>| number.as_ref().and_then(Number::as_f64);
        let (times, step) = (float(&self.times), float(&self.step));
        let ways = [times.is_some(), step.is_some(), self.count.is_some()];
        if self.scale.is_some() && self.count.is_none() {
            return flaw("`scale` needs a `count`", "add count = ..., or remove scale");
        }
        match ways.into_iter().filter(|is_given| *is_given).count() {
            0 => {
                let remedy = "add times = 2, step = 8 or count = 5";
                return flaw("this range does not say how it advances", remedy);
            }
            1 => {}
            _ => return flaw("a range advances in one way", "keep one of `times`, `step` and `count`"),
        }
        let from = float(&self.from).ok_or_else(|| Problem::of("this range has no start", "add from = ..."))?;
        let to = float(&self.to).ok_or_else(|| Problem::of("this range has no end", "add to = ..."))?;
        if from > to {
            return flaw("`from` is above `to`", "exchange them");
        }
        // The tolerance includes `to` if the last factor or step misses it only by rounding.
        let count_of = |steps: f64| (steps + 1e-9).floor() + 1.0;
        if let Some(times) = times {
            if times <= 1.0 {
                return flaw("`times` must be above 1", "write a factor such as 2");
            }
            if from <= 0.0 {
                return flaw("a range with `times` must start above 0", "write from = 1 or more");
            }
            let count = count_of((to / from).ln() / times.ln());
            return Ok((count, Box::new(move |position| from * times.powi(position as i32))));
        }
        if let Some(step) = step {
            if step <= 0.0 {
                return flaw("`step` must be above 0", "write a step such as 8 or 0.5");
            }
            if step < FINEST {
                let remedy = "write a step of at most 18 decimals, such as 8 or 0.5";
                return flaw("`step` is too fine", remedy);
            }
            let count = count_of((to - from) / step);
            return Ok((count, Box::new(move |position| from + position * step)));
        }
        let is_log = self.scale == Some(Spacing::Log);
        if is_log && from <= 0.0 {
            let remedy = "write from = 1 or more, or scale = \"linear\"";
            return flaw("a logarithmic range must start above 0", remedy);
        }
        let count = f64::from(self.count.unwrap_or_default());
        let at = move |position: f64| match (position / (count - 1.0), is_log) {
            (1.0, _) => to,
            (place, true) => from * (to / from).powf(place),
            (place, false) => from + (to - from) * place,
        };
        Ok((count, Box::new(at)))
    }
}

/// Smallest `step` of a range. Nobody writes a smaller one on purpose.
const FINEST: f64 = 1e-18;

/// Refuses a range that has too many values, or has too many together with `taken`, before any value is made.
fn check_size(count: u128, taken: u128) -> Result<(), Problem> {
    let most = u128::from(MOST_VALUES);
    let all = count.saturating_add(taken);
    let message = match count > most {
        _ if all <= most => return Ok(()),
        true => format!("this range has {} values", show_count(count)),
        false => format!("the ranges of this plan have {} values up to here", show_count(all)),
    };
    let remedy = format!("at most {} are allowed; take larger steps", show_count(most));
    Err(Problem::of(message, remedy))
}

/// Returns a value of a range as a whole number, or rounded to 12 significant digits.
fn number(value: f64, whole: bool) -> Result<Number, Problem> {
    let number = match whole {
        true => (value.abs() < 9.0e15).then(|| Number::from(value as i64)),
        false => format!("{value:.11e}").parse().ok().and_then(Number::from_f64),
    };
    let message = "the values of this range are too large";
    number.ok_or_else(|| Problem::of(message, "write smaller ends"))
}
