//! Parses and formats quantities: durations, counts, numbers in tables. Reads no clock.

use humantime::DurationError;
use itertools::Itertools;
use std::time::Duration;

/// Longest duration that a text may give: 100 years. Any time plus this duration can still be represented.
const LONGEST: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// Parses a duration such as `30s`, `15m`, `1h 30m` or `250ms`. A bare number is refused, because its unit is unknown.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let explain = |error| {
        let what = match error {
            DurationError::NumberExpected(_) | DurationError::InvalidCharacter(_) | DurationError::Empty => {
                "not a duration".to_owned()
            }
            other => other.to_string(),
        };
        format!("{what}; write a number with a unit, such as \"30s\", \"15m\" or \"1h 30m\"")
    };
    let duration = humantime::parse_duration(text.trim()).map_err(explain)?;
    match duration <= LONGEST {
        true => Ok(duration),
        false => Err("longer than 100 years; write a shorter duration".to_owned()),
    }
}

/// Returns true if a number is 0. Files leave out such numbers.
pub fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// Rounds a number to four significant digits, which are enough for a file.
pub fn to_four_digits(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

/// Returns a duration of this many seconds; 0 or `Duration::MAX` if there is none.
pub fn duration_of(seconds: f64) -> Duration {
    let nearest = if seconds > 0.0 { Duration::MAX } else { Duration::ZERO };
    Duration::try_from_secs_f64(seconds).unwrap_or(nearest)
}

/// Returns a duration for people, in at most two units: `850 ms`, `4.2 s`, `3m 20s`, `2h 05m`.
pub fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    // Each limit is the least duration that would be rounded up to one of the next unit.
    if seconds < 0.9995 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if seconds < 3599.5 {
        let whole = seconds.round() as u64;
        format!("{}m {:02}s", whole / 60, whole % 60)
    } else {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{}h {:02}m", minutes / 60, minutes % 60)
    }
}

/// Returns a whole number with commas between thousands: `1,234,567`.
pub fn show_count(count: impl Into<u128>) -> String {
    let digits = count.into().to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(String::from_utf8_lossy).join(",")
}

/// Returns a count with its noun: `1 server`, `1,566 runs`, `2 searches`.
pub fn show_many(count: u64, noun: &str) -> String {
    let plural = match count {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", show_count(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_with_two_units_at_most() {
        let shown = |ms: u64| show_duration(Duration::from_millis(ms));
        assert_eq!(shown(850), "850 ms");
        assert_eq!(shown(4_200), "4.2 s");
        assert_eq!(shown(200_000), "3m 20s");
        assert_eq!(shown(7_500_000), "2h 05m");
        assert_eq!(show_duration(Duration::from_micros(999_600)), "1.0 s");
        assert_eq!(shown(59_970), "1m 00s");
        assert_eq!(shown(3_599_700), "1h 00m");
        let of = |seconds: f64| show_duration(duration_of(seconds));
        assert_eq!(
            (of(1.5), of(-1.0), of(f64::NAN)),
            ("1.5 s".into(), "0 ms".into(), "0 ms".into())
        );
        assert!(
            of(1e300) == of(f64::INFINITY) && of(1e300).contains("h "),
            "{}",
            of(1e300)
        );
    }

    #[test]
    fn a_bare_number_is_no_duration() {
        assert!(parse_duration("30").is_err());
        let soon = parse_duration("soon").expect_err("no number");
        assert!(soon.starts_with("not a duration; write a number with a unit"), "{soon}");
        assert_eq!(parse_duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert!(parse_duration("36500d").is_ok());
        let endless = parse_duration("99999999999999d").expect_err("no clock reaches it");
        assert!(endless.starts_with("longer than 100 years"), "{endless}");
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!(show_count(1_234_567u64), "1,234,567");
        assert_eq!(show_count(999u64), "999");
        assert_eq!(
            [(1, "search"), (1_566, "search"), (0, "run")].map(|(count, noun)| show_many(count, noun)),
            ["1 search", "1,566 searches", "0 runs"]
        );
    }
}
