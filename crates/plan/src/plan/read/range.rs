//! Ranges as axes: `{ from, to, times }`, `{ from, to, step }`, `{ from, to, count, scale }`. Values have 12 significant digits, so that
//! a step of 0.1 lands on the values that were meant. The number of values is known before any is made.

use super::{FromNode, Reader, table};
use crate::plan::node::{Kind, Node};
use crate::plan::schema::Scale;
use crate::units::show_count;
use serde_json::{Number, Value};
use vsweep_strategy::search::Spacing;

table! {
    /// Numbers from one end to the other. Exactly one of `times`, `step` and `count` says how.
    #[derive(Debug)]
    pub struct RangeTable("RangeTable", "") {
        /// First value.
        from: Option<Number> = by::<f64, _>(bound).told_if_missing(),
        /// Last value; values beyond it are not taken.
        to: Option<Number> = by::<f64, _>(bound).told_if_missing(),
        /// Factor from each value to the next, above 1.
        times: Option<Number> = by::<f64, _>(bound),
        /// Difference of neighbours, above 0.
        step: Option<Number> = by::<f64, _>(bound),
        /// Number of values, both ends included. Between whole ends the values are rounded to whole numbers.
        count: Option<u32> = by::<u32, _>(|reader, node, what| reader.whole(node, what, 2..=u32::MAX).map(Some)),
        /// Spacing of `count` values: `linear` (default) or `log`.
        scale: Option<Spacing> = one_of::<Scale, _>(),
    }
}

/// The most values that all ranges of a plan may have together: unlike pairs, they are held in memory.
const MOST_VALUES: u32 = 2_000_000;

impl Reader<'_> {
    /// The values of a range, or problems.
    pub(super) fn range(&mut self, node: &Node) -> Option<Vec<Value>> {
        let range = RangeTable::from_node(self, node, "range")?;
        let is_read = [
            ("from", range.from.is_some()),
            ("to", range.to.is_some()),
            ("times", range.times.is_some()),
            ("step", range.step.is_some()),
            ("count", range.count.is_some()),
            ("scale", range.scale.is_some()),
        ];
        if is_read
            .iter()
            .any(|(key, is_read)| !is_read && node.child(key).is_some())
        {
            return None;
        }
        let values = range.values(self.range_values);
        match values {
            Ok(values) => {
                self.range_values += values.len() as u128;
                Some(values)
            }
            Err(Flaw { message, remedy }) => {
                self.object(node.span, message, remedy);
                None
            }
        }
    }
}

fn bound(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Option<Number>> {
    if let Kind::Number(number) = &node.kind {
        return Some(Some(number.clone()));
    }
    let message = format!("`{what}` of a range must be a number, found {}", node.kind_name());
    reader.object(node.span, message, "write a number");
    None
}

/// How many values a range has, and the value at each position.
type Course = (f64, Box<dyn Fn(f64) -> f64>);

impl RangeTable {
    /// All values; `taken` is how many the earlier ranges of the plan have.
    fn values(&self, taken: u128) -> Result<Vec<Value>, Flaw> {
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
            return Err(("this range would take the same value twice", remedy).into());
        }
        Ok(numbers.into_iter().map(Value::Number).collect())
    }

    fn course(&self) -> Result<Course, Flaw> {
        let float = |number: &Option<Number>| number.as_ref().and_then(Number::as_f64);
        let (times, step) = (float(&self.times), float(&self.step));
        if self.scale.is_some() && self.count.is_none() {
            return Err(("`scale` needs a `count`", "add count = ..., or remove scale").into());
        }
        match (times, step, self.count) {
            (None, None, None) => {
                let remedy = "add times = 2, step = 8 or count = 5";
                return Err(("this range does not say how it advances", remedy).into());
            }
            (Some(_), None, None) | (None, Some(_), None) | (None, None, Some(_)) => {}
            _ => return Err(("a range advances in one way", "keep one of `times`, `step` and `count`").into()),
        }
        let from = float(&self.from).ok_or(("this range has no start", "add from = ..."))?;
        let to = float(&self.to).ok_or(("this range has no end", "add to = ..."))?;
        if from > to {
            return Err(("`from` is above `to`", "exchange them").into());
        }
        // The tolerance keeps an end that the last factor or step meets but for rounding.
        let places = |steps: f64| (steps + 1e-9).floor() + 1.0;
        if let Some(times) = times {
            if times <= 1.0 {
                return Err(("`times` must be above 1", "write a factor such as 2").into());
            }
            if from <= 0.0 {
                return Err(("a range with `times` must start above 0", "write from = 1 or more").into());
            }
            let count = places((to / from).ln() / times.ln());
            return Ok((count, Box::new(move |position| from * times.powi(position as i32))));
        }
        if let Some(step) = step {
            if step <= 0.0 {
                return Err(("`step` must be above 0", "write a step such as 8 or 0.5").into());
            }
            if step < FINEST {
                let remedy = "write a step of at most 18 decimals, such as 8 or 0.5";
                return Err(("`step` is too fine", remedy).into());
            }
            let count = places((to - from) / step);
            return Ok((count, Box::new(move |position| from + position * step)));
        }
        let is_log = self.scale == Some(Spacing::Log);
        if is_log && from <= 0.0 {
            let remedy = "write from = 1 or more, or scale = \"linear\"";
            return Err(("a logarithmic range must start above 0", remedy).into());
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

/// A finer step is none that somebody typed.
const FINEST: f64 = 1e-18;

/// Why a range is no range.
struct Flaw {
    message: String,
    remedy: String,
}

impl From<(&str, &str)> for Flaw {
    fn from((message, remedy): (&str, &str)) -> Flaw {
        Flaw {
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

/// Refuses a range before any of its values is made.
fn check_size(count: u128, taken: u128) -> Result<(), Flaw> {
    let most = u128::from(MOST_VALUES);
    match (count > most, count + taken > most) {
        (false, false) => Ok(()),
        (false, true) => Err(Flaw {
            message: format!(
                "the ranges of this plan have {} values up to here",
                show_count(count + taken)
            ),
            remedy: format!("at most {} are allowed; take larger steps", show_count(most)),
        }),
        (true, _) => Err(Flaw {
            message: format!("this range has {} values", show_count(count)),
            remedy: format!("at most {} are allowed; take larger steps", show_count(MOST_VALUES)),
        }),
    }
}

/// A value of a range: whole, or with the noise beyond 12 significant digits taken off.
fn number(value: f64, whole: bool) -> Result<Number, Flaw> {
    let beyond = || {
        Flaw::from((
            "this range leaves the numbers a computer can count",
            "write smaller ends",
        ))
    };
    if whole {
        let fits = value.abs() < 9.0e15;
        return fits.then(|| Number::from(value as i64)).ok_or_else(beyond);
    }
    let rounded = format!("{value:.11e}").parse::<f64>().ok();
    rounded.and_then(Number::from_f64).ok_or_else(beyond)
}
