//! Changes in percent, in one form for every text.

use crate::texts::words::show_number;

/// Formats a ratio as a change: `-2.8 %`, or `x 3.5` for a ratio above two.
pub fn change(ratio: f64) -> String {
    one(ratio, ratio > TWICE)
}

/// An interval of ratios, both ends in one form: `-2.8 to +1.0 %`, `x 0.90 to 3.50`. Ends that read alike are written once: `x 2.00`.
pub fn changes((low, high): (f64, f64)) -> String {
    both((low, high), high > TWICE)
}

/// A change and its interval, in one form: `-5.1 %` and `-6.3 to -3.9 %`, `x 2.70` and `x 0.90 to 3.50`. The ratio decides the form of
/// both.
pub fn change_and_interval(ratio: f64, interval: (f64, f64)) -> (String, String) {
    let is_multiple = ratio > TWICE;
    (one(ratio, is_multiple), both(interval, is_multiple))
}

/// Formats a change without decimals: `-5 %`. One line has several, so it is a multiple only above ten: `x 35.2`.
pub fn brief_change(ratio: f64) -> String {
    match ratio > 10.0 {
        true => one(ratio, true),
        false => format!("{:+.0} %", (ratio - 1.0) * 100.0),
    }
}

/// Formats a change with its interval, if it has one: `-5.1 % (-6.3 to -3.9 %)`.
pub fn change_within(ratio: f64, interval: Option<(f64, f64)>) -> String {
    let Some(interval) = interval else {
        return change(ratio);
    };
    let (change, interval) = change_and_interval(ratio, interval);
    format!("{change} ({interval})")
}

/// Greatest ratio that is written in percent.
const TWICE: f64 = 2.0;

fn one(ratio: f64, is_multiple: bool) -> String {
    match is_multiple {
        true => format!("x {}", multiple(ratio)),
        false => format!("{} %", percent(ratio)),
    }
}

fn both((low, high): (f64, f64), is_multiple: bool) -> String {
    match is_multiple {
        _ if one(low, is_multiple) == one(high, is_multiple) => one(low, is_multiple),
        true => format!("x {} to {}", multiple(low), multiple(high)),
        false => format!("{} to {} %", percent(low), percent(high)),
    }
}

/// A ratio with two decimals, as long as it is small.
fn multiple(ratio: f64) -> String {
    match ratio < 10.0 {
        true => format!("{ratio:.2}"),
        false => show_number(ratio),
    }
}

fn percent(ratio: f64) -> String {
    // Adding zero takes the sign from a zero.
    format!("{:+.1}", ((ratio - 1.0) * 1000.0).round() / 10.0 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_in_percent_until_it_is_more_than_twice() {
        assert_eq!(change(0.972), "-2.8 %");
        assert_eq!(change(0.99999), "+0.0 %");
        assert_eq!(change(3.5), "x 3.50");
        assert_eq!(change(35.21), "x 35.2");
        assert_eq!(changes((0.972, 1.01)), "-2.8 to +1.0 %");
        assert_eq!(changes((0.9, 3.5)), "x 0.90 to 3.50");
        assert_eq!([(2.0, 2.001), (0.95, 0.95)].map(changes), ["x 2.00", "-5.0 %"]);
        assert_eq!(change_within(1.729, Some((1.44, 2.09))), "+72.9 % (+44.0 to +109.0 %)");
        assert_eq!(change_within(1.004, Some((0.3, 3.4))), "+0.4 % (-70.0 to +240.0 %)");
        assert_eq!([1.004, 2.97, 35.21].map(brief_change), ["+0 %", "+197 %", "x 35.2"]);
        assert_eq!(change_within(0.949, Some((0.937, 0.961))), "-5.1 % (-6.3 to -3.9 %)");
    }
}
