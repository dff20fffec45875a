//! Ranges as axes: `{ from, to, times }`, `{ from, to, step }`, `{ from, to, count, scale }`. Steps are added as decimals,
//! so that a step of 0.1 lands on the values that were meant, and the number of values is known before any is made.

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

/// How a range goes from one value to the next.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Times(f64),
    Step(Decimal),
    Count { count: u32, log: bool },
}

/// An exact decimal number: `digits / 10^places`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    places: u32,
}

impl Decimal {
    /// Beyond this, a value is not one that somebody typed.
    const MOST_PLACES: u32 = 18;

    /// The number as its shortest decimal text says.
    fn of(number: &Number) -> Option<Decimal> {
        let text = number.to_string();
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let exponent: i64 = exponent.parse().ok()?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let places = i64::try_from(fraction.len()).ok()? - exponent;
        if places > i64::from(Self::MOST_PLACES) {
            return None;
        }
        if places < 0 {
            let factor = 10i128.checked_pow(u32::try_from(-places).ok()?)?;
            return Some(Decimal {
                digits: digits.checked_mul(factor)?,
                places: 0,
            });
        }
        let places = u32::try_from(places).ok()?;
        Some(Decimal { digits, places })
    }

    /// The digits at more places.
    fn at(self, places: u32) -> Option<i128> {
        self.digits.checked_mul(10i128.checked_pow(places - self.places)?)
    }

    fn number(self, whole: bool) -> Option<Number> {
        if whole {
            return i64::try_from(self.digits).ok().map(Number::from);
        }
        let text = format!("{}e-{}", self.digits, self.places);
        text.parse::<f64>().ok().and_then(Number::from_f64)
    }
}

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
        let values = range.rule().and_then(|rule| {
            let from = range.from.ok_or(("this range has no start", "add from = ..."))?;
            let to = range.to.ok_or(("this range has no end", "add to = ..."))?;
            values(&from, &to, rule, self.range_values)
        });
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

impl RangeTable {
    fn rule(&self) -> Result<Rule, Flaw> {
        if self.scale.is_some() && self.count.is_none() {
            return Err(("`scale` needs a `count`", "add count = ..., or remove scale").into());
        }
        match (&self.times, &self.step, self.count) {
            (Some(times), None, None) => {
                let times = times.as_f64().filter(|times| *times > 1.0);
                let times = times.ok_or(("`times` must be above 1", "write a factor such as 2"))?;
                Ok(Rule::Times(times))
            }
            (None, Some(step), None) => {
                if step.as_f64().is_none_or(|step| step <= 0.0) {
                    return Err(("`step` must be above 0", "write a step such as 8 or 0.5").into());
                }
                let finest = "write a step of at most 18 decimals, such as 8 or 0.5";
                let step = Decimal::of(step).filter(|step| step.digits > 0);
                Ok(Rule::Step(step.ok_or(("`step` is too fine", finest))?))
            }
            (None, None, Some(count)) => Ok(Rule::Count {
                count,
                log: self.scale == Some(Spacing::Log),
            }),
            (None, None, None) => Err((
                "this range does not say how it advances",
                "add times = 2, step = 8 or count = 5",
            )
                .into()),
            _ => Err(("a range advances in one way", "keep one of `times`, `step` and `count`").into()),
        }
    }
}

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

/// The values from one end to the other; `taken` is how many values earlier ranges of the plan have.
fn values(from: &Number, to: &Number, rule: Rule, taken: u128) -> Result<Vec<Value>, Flaw> {
    let whole = !from.is_f64() && !to.is_f64();
    let (start, end) = (from.as_f64().unwrap_or(f64::NAN), to.as_f64().unwrap_or(f64::NAN));
    if start > end {
        return Err(("`from` is above `to`", "exchange them").into());
    }
    let numbers = match rule {
        Rule::Times(times) => by_factor(start, end, times, whole && times.fract() == 0.0, taken)?,
        Rule::Step(step) => by_step(from, to, step, taken)?,
        Rule::Count { count, log } => by_count(start, end, count, log, whole, taken)?,
    };
    Ok(numbers.into_iter().map(Value::Number).collect())
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

fn by_factor(start: f64, end: f64, times: f64, whole: bool, taken: u128) -> Result<Vec<Number>, Flaw> {
    if start <= 0.0 {
        return Err(("a range with `times` must start above 0", "write from = 1 or more").into());
    }
    // The tolerance keeps an end that the last factor meets but for rounding.
    let steps = ((end / start).ln() / times.ln() + 1e-9).floor();
    check_size(steps as u128 + 1, taken)?;
    let numbers = (0..=steps as u32).map(|power| number(start * times.powi(power as i32), whole));
    numbers.collect()
}

fn by_step(from: &Number, to: &Number, step: Decimal, taken: u128) -> Result<Vec<Number>, Flaw> {
    let too_fine = || Flaw::from(("this range cannot be stepped through exactly", "use fewer digits"));
    let (from, to) = (
        Decimal::of(from).ok_or_else(too_fine)?,
        Decimal::of(to).ok_or_else(too_fine)?,
    );
    let places = from.places.max(to.places).max(step.places);
    let at = |decimal: Decimal| decimal.at(places).ok_or_else(too_fine);
    let (from, to, step) = (at(from)?, at(to)?, at(step)?);
    let span = to.checked_sub(from).ok_or_else(too_fine)?;
    check_size((span / step) as u128 + 1, taken)?;
    let numbers = (0..=span / step).map(|position| {
        let digits = from + position * step;
        Decimal { digits, places }.number(places == 0).ok_or_else(too_fine)
    });
    numbers.collect()
}

fn by_count(start: f64, end: f64, count: u32, log: bool, whole: bool, taken: u128) -> Result<Vec<Number>, Flaw> {
    if log && start <= 0.0 {
        return Err((
            "a logarithmic range must start above 0",
            "write from = 1 or more, or scale = \"linear\"",
        )
            .into());
    }
    check_size(u128::from(count), taken)?;
    let place = |position: u32| f64::from(position) / f64::from(count - 1);
    let at = |position: u32| match (position == count - 1, log) {
        (true, _) => end,
        (_, true) => start * (end / start).powf(place(position)),
        (_, false) => start + (end - start) * place(position),
    };
    let numbers: Vec<Number> = (0..count)
        .map(|position| {
            let value = at(position);
            number(if whole { value.round() } else { value }, whole)
        })
        .collect::<Result<_, _>>()?;
    if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
        let remedy = "lower `count`, or write the ends with a decimal point to allow fractions";
        return Err(("this range would take the same value twice", remedy).into());
    }
    Ok(numbers)
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
