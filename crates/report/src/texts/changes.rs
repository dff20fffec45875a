//! Changes in percent, in one form for every text.

use crate::texts::words::show_number;

/// `-2.8 %`, or `x 3.5` for what is more than twice as much.
pub fn change(ratio: f64) -> String {
    match ratio > 2.0 {
        true => format!("x {}", show_number(ratio)),
        false => format!("{} %", percent(ratio)),
    }
}

/// An interval of ratios, both ends in one form: `-2.8 to +1.0 %`, `x 0.9 to 3.5`.
pub fn changes((low, high): (f64, f64)) -> String {
    match high > 2.0 {
        true => format!("x {} to {}", show_number(low), show_number(high)),
        false => format!("{} to {} %", percent(low), percent(high)),
    }
}

/// `-5.1 % (-6.3 to -3.9 %)`.
pub fn change_within(ratio: f64, interval: Option<(f64, f64)>) -> String {
    let interval = interval.map_or(String::new(), |interval| format!(" ({})", changes(interval)));
    format!("{}{interval}", change(ratio))
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
        assert_eq!(change(3.5), "x 3.5");
        assert_eq!(changes((0.972, 1.01)), "-2.8 to +1.0 %");
        assert_eq!(changes((0.9, 3.5)), "x 0.9 to 3.5");
        assert_eq!(change_within(0.949, Some((0.937, 0.961))), "-5.1 % (-6.3 to -3.9 %)");
    }
}
