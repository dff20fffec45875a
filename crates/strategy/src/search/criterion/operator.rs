//! Comparison of a measured value with its limit, as a plan writes it: `<=500`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Comparison of a measured value with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// `<=`
    AtMost,
    /// `<`
    Below,
    /// `>=`
    AtLeast,
    /// `>`
    Above,
}

impl Operator {
    /// Returns true if `value` satisfies the comparison with `limit`; NaN never does.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Operator::AtMost => value <= limit,
            Operator::Below => value < limit,
            Operator::AtLeast => value >= limit,
            Operator::Above => value > limit,
        }
    }

    /// Returns true if the comparison bounds a value from above.
    pub fn is_upper_bound(self) -> bool {
        matches!(self, Operator::AtMost | Operator::Below)
    }

    /// Splits `<=500` into operator and number; `99%` is read as 0.99.
    pub(super) fn parse(text: &str) -> Result<(Operator, f64), String> {
        let text = text.trim();
        // Longer operators first: `<=` also starts with `<`.
        let operators = [
            ("<=", Operator::AtMost),
            (">=", Operator::AtLeast),
            ("<", Operator::Below),
            (">", Operator::Above),
        ];
        let (comparison, number) = operators
            .iter()
            .find_map(|(sign, comparison)| text.strip_prefix(sign).map(|rest| (*comparison, rest.trim())))
            .ok_or_else(|| format!("`{text}` has no comparison; write `<=`, `<`, `>=` or `>` and a number"))?;
        let limit = match number.strip_suffix('%') {
            Some(percent) => share(percent.trim_end()),
            None => number.parse().ok(),
        };
        match limit {
            Some(limit) if limit.is_finite() => Ok((comparison, limit)),
            _ => {
                let bare = number.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
                let known = bare.parse::<f64>().is_ok_and(f64::is_finite);
                let (limit, why) = match known {
                    true => (bare, ", its unit is the one in the name"),
                    false => ("500", ""),
                };
                let what = if known { "" } else { "a limit such as " };
                Err(format!(
                    "`{number}` is not a number; write {what}`{comparison}{limit}`{why}"
                ))
            }
        }
    }
}

/// Returns a percentage as a share. Its digits are read as hundredths, because a division may round: 99.9 / 100 is more than 0.999.
fn share(percent: &str) -> Option<f64> {
    let hundredths = format!("{percent}e-2").parse().ok();
    hundredths.or_else(|| Some(percent.parse::<f64>().ok()? / 100.0))
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::AtMost => "<=",
            Operator::Below => "<",
            Operator::AtLeast => ">=",
            Operator::Above => ">",
        })
    }
}
